//! Messages of several buffers (`--buffers`): each lies in a place of its own, and the adapter gathers
//! them. At the far end a message lies in one place, as one that is written must.

use fabricbench_verbs::MOST_SEGMENTS;

use super::{PairPlan, PostMode, VerbsPort, pieces::Message};
use crate::transport::TransportError;

/// Refuses buffers that cannot be gathered.
///
/// # Errors
/// [`TransportError::Unsupported`] with what is in the way.
pub(super) fn admit(
    plan: &PairPlan,
    message: &Message,
    port: &VerbsPort,
) -> Result<(), TransportError> {
    let limit = Limit {
        most: port.context.limits().segments.min(MOST_SEGMENTS),
        device: &port.port.device,
    };
    match refusal(plan, message, &limit) {
        Some(reason) => Err(TransportError::Unsupported(reason)),
        None => Ok(()),
    }
}

/// The most that a device gathers.
struct Limit<'a> {
    most: u32,
    device: &'a str,
}

fn refusal(plan: &PairPlan, message: &Message, limit: &Limit<'_>) -> Option<String> {
    plan.cell.buffers.as_ref()?;
    if let Some(reason) = plan.cell.impossible() {
        return Some(reason);
    }
    let buffers = plan.buffers().len();
    if buffers == 0 {
        return None;
    }
    let Limit { most, device } = limit;
    let in_the_way = if message.is_split() {
        "is not for messages in pieces: leave --split out".to_owned()
    } else if plan.list() > 1 {
        "is not for lists of messages: leave --post-list out".to_owned()
    } else if plan.settings.timestamps {
        "is posted by the plain interface, which has no --timestamps".to_owned()
    } else if plan.settings.post == PostMode::Extended {
        "is posted by the plain interface: leave --post extended out".to_owned()
    } else if buffers > *most as usize {
        format!("has more than the {most} that {device} gathers into a message (max_sge)")
    } else {
        return None;
    };
    Some(format!("a message of {buffers} buffers (--buffers) {in_the_way}"))
}

impl PairPlan {
    /// Places that a message is gathered from.
    pub(super) fn segments(&self) -> u32 {
        u32::try_from(self.buffers().len().max(1)).unwrap_or(u32::MAX)
    }

    /// Which interface posts: what is gathered goes by the plain one, whose lists of segments every
    /// provider has.
    pub(super) fn post(&self) -> PostMode {
        match self.settings.post {
            PostMode::Auto if !self.buffers().is_empty() => PostMode::Plain,
            asked => asked,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        plan::{BufferSpec, Cell, Pattern, Payload, TransportName},
        transport::VerbsSettings,
    };

    fn plan(transport: &str, buffers: &str, settings: VerbsSettings) -> PairPlan {
        let transport: TransportName = transport.parse().unwrap();
        let TransportName::Verbs(verbs) = transport else { panic!("{transport}") };
        let spec = BufferSpec::parse(buffers).unwrap();
        let cell = Cell {
            buffers: Some(spec.buffers(100, 1)),
            ..Cell::new(transport, Pattern::Rate, 100)
        };
        PairPlan { cell, verbs, payload: Payload::new(1), depth: 8, settings, answers: false }
    }

    fn refused(plan: &PairPlan, piece: u32) -> Option<String> {
        refusal(plan, &Message::new(100, piece), &Limit { most: 4, device: "dev0" })
    }

    #[test]
    fn what_cannot_be_gathered_is_refused_with_what_is_in_the_way() {
        let usual = VerbsSettings::default();
        let with = |settings| refused(&plan("verbs-send", "3", settings), 100).unwrap();
        for (reason, word) in [
            (with(VerbsSettings { post_list: 4, ..usual.clone() }), "--post-list"),
            (with(VerbsSettings { timestamps: true, ..usual.clone() }), "--timestamps"),
            (with(VerbsSettings { post: PostMode::Extended, ..usual.clone() }), "--post"),
            (refused(&plan("verbs-write", "3", usual.clone()), 50).unwrap(), "--split"),
            (refused(&plan("verbs-read", "3", usual.clone()), 100).unwrap(), "verbs-read has"),
            (refused(&plan("verbs-write", "5", usual.clone()), 100).unwrap(), "the 4 that dev0"),
            (refused(&plan("verbs-write", "2x3", usual.clone()), 100).unwrap(), "100 B"),
        ] {
            assert!(reason.contains(word) && reason.contains("--buffers"), "{reason}");
        }
        for buffers in ["4", "1", "99+1"] {
            assert_eq!(
                refused(&plan("verbs-write", buffers, usual.clone()), 100),
                None,
                "{buffers}"
            );
        }
    }

    #[test]
    fn one_buffer_is_a_message_as_any_other() {
        let one = plan("verbs-write", "1", VerbsSettings::default());
        assert_eq!((one.buffers().len(), one.segments(), one.post()), (0, 1, PostMode::Auto));
        let three = plan("verbs-write", "3", VerbsSettings::default());
        assert_eq!((three.segments(), three.post()), (3, PostMode::Plain));
    }
}
