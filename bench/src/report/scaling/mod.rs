//! What figures say over size: the cost of a message, who is ahead where, and how far from what is possible. All of
//! it is computed from the cells, so that a document of any version has it.

mod ahead;
mod efficiency;
mod fits;
mod record;
mod series;
mod table;
mod words;

pub use self::record::{
    Bound, Contender, CrossoverRecord, EfficiencyRecord, FitRecord, Lacks, LeadRecord,
    MarginRecord, ModelRecord, PieceRecord, Question, ShareRecord,
};
pub(super) use self::{ahead::leaders, efficiency::share};
pub(crate) use self::{
    table::{COST_HEAD, COST_NOTE, cost_rows, costs},
    words::{few_words, words},
};

use super::Document;

/// What follows from the figures of all sizes; `None` where nothing does.
///
/// A fit takes three sizes. Who is ahead takes two transports (or variants of one) and two rounds that both have.
#[must_use]
pub fn model(document: &Document) -> Option<ModelRecord> {
    let mut model = ModelRecord::default();
    for contest in &series::contests(document) {
        let standing = ahead::Standing::of(contest);
        model.fits.extend(fits::fits(contest));
        model.leads.extend(standing.leads());
        model.crossovers.extend(standing.crossovers());
        model.efficiencies.extend(efficiency::efficiencies(document, contest));
    }
    (model != ModelRecord::default()).then_some(model)
}

#[cfg(test)]
mod tests;
