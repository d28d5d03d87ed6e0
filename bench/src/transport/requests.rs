//! How messages are asked for over a stream: several by one request, so that the cost of a request
//! is shared, and a second request while the first is answered, so that nobody waits for it.

/// Messages that are wanted, asked for, and here.
#[derive(Debug)]
pub(super) struct Requests {
    // Messages of one request.
    each: u64,
    wanted: u64,
    under_way: u64,
}

impl Requests {
    /// Of `depth` messages in flight: each request is for half of them.
    pub(super) fn new(depth: u32) -> Self {
        Self { each: u64::from(depth / 2).max(1), wanted: 0, under_way: 0 }
    }

    /// One more message is wanted. Returns how many to ask for now, if any.
    pub(super) fn want(&mut self) -> Option<u64> {
        self.wanted += 1;
        if self.wanted < self.each { None } else { self.ask() }
    }

    /// Somebody waits: returns how many to ask for now, if any. A full request is waited for only as
    /// long as another one is under way.
    pub(super) fn wait(&mut self) -> Option<u64> {
        if self.wanted == 0 || self.under_way >= self.each { None } else { self.ask() }
    }

    fn ask(&mut self) -> Option<u64> {
        let asked = std::mem::take(&mut self.wanted);
        self.under_way += asked;
        Some(asked)
    }

    /// So many messages are here.
    pub(super) fn arrived(&mut self, messages: u64) {
        self.under_way = self.under_way.saturating_sub(messages);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Plays the loop of the engine: keeps `depth` outstanding until `messages` are submitted, then
    /// takes what is left, one by one. Returns the requests, and with how many others each was under
    /// way when it was made.
    fn requests(depth: u32, messages: u64) -> Vec<(u64, u64)> {
        let mut requests = Requests::new(depth);
        let (mut outstanding, mut submitted, mut made) = (0, 0, Vec::new());
        while submitted < messages || outstanding > 0 {
            if submitted < messages && outstanding < depth {
                let before = requests.under_way;
                made.extend(requests.want().map(|asked| (asked, before)));
                (submitted, outstanding) = (submitted + 1, outstanding + 1);
                continue;
            }
            let before = requests.under_way;
            made.extend(requests.wait().map(|asked| (asked, before)));
            assert!(requests.under_way > 0, "waits for nothing");
            requests.arrived(1);
            outstanding -= 1;
        }
        made
    }

    #[test]
    fn every_message_is_asked_for_once_whatever_the_depth() {
        for depth in [1, 2, 3, 7, 128, 65_536] {
            for messages in [1, 2, 5, 127, 128, 129, 1000] {
                let made = requests(depth, messages);
                assert_eq!(made.iter().map(|(asked, _)| asked).sum::<u64>(), messages);
                assert!(made.iter().all(|&(asked, before)| asked + before <= u64::from(depth)));
            }
        }
    }

    #[test]
    fn a_request_is_made_while_another_is_answered() {
        let made = requests(128, 1000);
        assert_eq!(made.len(), 1000_usize.div_ceil(64));
        assert!(made[1..].iter().all(|&(_, before)| before > 0), "{made:?}");
        // With one in flight there is nothing to overlap.
        assert!(requests(1, 10).iter().all(|&request| request == (1, 0)));
    }
}
