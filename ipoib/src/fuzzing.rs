//! What the kernel says, for `ci/fuzz`. Built with `--cfg fuzzing` only.

use crate::{link, netlink, offloads, processors::Processors, route, sockets};

/// Name and function of each target: it takes any bytes, may refuse them, and must not panic.
pub const TARGETS: &[(&str, fn(&[u8]))] = &[("netlink", netlink), ("processors", processors)];

/// The number of the question that answers are to.
const SEQUENCE: u32 = 1;

/// A datagram of any of netlink's families, read as all that is asked for.
fn netlink(datagram: &[u8]) {
    let mut answers = Vec::new();
    let _ = netlink::take_apart(datagram, SEQUENCE, &mut answers);
    for answer in &answers {
        if let Some(parts) = link::link_parts(answer) {
            let _ = (link::link(&parts), link::statistics(&parts));
        }
        let _ = link::address(answer);
        let _ = route::parse(answer);
        let _ = sockets::socket(answer);
        let _ = offloads::features(answer);
    }
}

/// Lists and masks of processors.
fn processors(input: &[u8]) {
    let Ok(text) = std::str::from_utf8(input) else { return };
    for read in [Processors::from_list(text), Processors::from_mask(text)].into_iter().flatten() {
        assert_eq!(Processors::from_mask(&read.mask()), Some(read));
    }
}
