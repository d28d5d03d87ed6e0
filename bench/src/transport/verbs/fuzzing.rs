//! What both sides compute from a plan before they have memory for it.

use fabricbench_verbs::GRH_BYTES;

use super::{PairPlan, layout::Layout, pieces::Message};
use crate::{
    plan::{Cell, Payload, VerbsName},
    transport::VerbsSettings,
};

/// Lays out both sides' memory, as far as that needs no device.
pub(in crate::transport) fn lay_out(
    cell: &Cell,
    verbs: VerbsName,
    depth: u32,
    settings: &VerbsSettings,
) {
    for answers in [false, true] {
        let plan = PairPlan {
            cell: cell.clone(),
            verbs,
            payload: Payload::new(3),
            depth,
            settings: settings.clone(),
            answers,
        };
        let size = usize::try_from(plan.outgoing()).unwrap_or(usize::MAX);
        for piece in [1, 4096, u32::MAX] {
            let message = Message::new(size, piece);
            let _ = (plan.sends(&message), plan.receives(&message), plan.list(), plan.access());
            let Ok(layout) = Layout::new(&plan.shape(&message, GRH_BYTES)) else { continue };
            for lane in [0, plan.lanes().saturating_sub(1) as usize] {
                let _ = (layout.message(lane), layout.target(lane), layout.receive(lane, u64::MAX));
            }
        }
        let _ = plan.peer_layout();
    }
}
