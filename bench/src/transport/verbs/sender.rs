//! The sending half of a push: messages in order over one or several queue pairs, completions
//! moderated, posts gathered in lists.

use fabricbench_verbs::{Completion, Operation as Verb, SendList, SendRequest};

use super::{
    Pair,
    control::Control,
    extended::Poster,
    failed,
    pair::{COUNT, LANE_SHIFT},
    regions::PeerRegions,
    request::Carrier,
    word::Word,
};
use crate::{
    plan::Service,
    transport::{Completed, TransportError},
};

/// The most messages that are posted by one call.
pub const LONGEST_LIST: usize = 64;

/// Completions taken at once.
const BATCH: usize = 16;

/// The sending half of one side.
#[derive(Debug)]
pub(super) struct Sender {
    lanes: Vec<Outgoing>,
    depth: usize,
    moderation: u32,
    list: u32,
    // The lane whose turn it is.
    next: usize,
    // Signalled requests whose completion has not come.
    signals: u64,
    // Whether a lane has more done than could be handed over.
    leftover: bool,
    completions: [Completion; BATCH],
    word: Option<Word>,
}

/// Messages of one lane: submitted, of which the first `reached` are done, of which the first
/// `done` have been handed over.
#[derive(Debug)]
struct Outgoing {
    carrier: Carrier,
    // Completes when all before it is done.
    flush: Flush,
    // Tokens of what is submitted and not handed over: a ring with its two ends.
    tokens: Box<[u64]>,
    head: usize,
    tail: usize,
    submitted: u64,
    reached: u64,
    done: u64,
    until_signal: u32,
    lists: Option<Box<Lists>>,
}

#[derive(Debug, Clone, Copy)]
enum Flush {
    /// A write of nothing.
    Write(SendRequest),
    /// Where there are no writes, a message of another kind.
    Message,
}

/// The same messages over and over, gathered.
#[derive(Debug)]
struct Lists {
    plain: SendList<LONGEST_LIST>,
    signalled: SendList<LONGEST_LIST>,
    // The same again, for the interface that takes no lists made before.
    requests: Option<Box<[SendRequest]>>,
    gathered: u32,
    until_signal: u32,
}

impl Sender {
    pub(super) fn new(pair: &Pair, remote: &PeerRegions) -> Result<Self, TransportError> {
        let depth = pair.plan.depth.max(1);
        let (moderation, list) = (pair.moderation(), pair.list());
        let lanes = pair.lanes.iter().enumerate().map(|(index, lane)| {
            let carrier = Carrier::of(pair, index, remote);
            let lists = if list > 1 {
                let lists = Lists::new(&lane.queue_pair, carrier.only(), list, moderation)?;
                Some(Box::new(lists))
            } else {
                None
            };
            let flush = match pair.plan.verbs.service {
                Service::Ud => Flush::Message,
                _ => {
                    let target = pair.layout.target(index);
                    let nothing = pair.local(index, target, 0);
                    let target = Verb::Write(remote.at(target));
                    Flush::Write(pair.request(index, target, nothing))
                }
            };
            Ok(Outgoing {
                carrier,
                flush,
                tokens: vec![0; depth as usize].into_boxed_slice(),
                head: 0,
                tail: 0,
                submitted: 0,
                reached: 0,
                done: 0,
                until_signal: moderation,
                lists,
            })
        });
        Ok(Self {
            lanes: lanes.collect::<Result<_, TransportError>>()?,
            depth: depth as usize,
            moderation,
            list,
            next: 0,
            signals: 0,
            leftover: false,
            completions: [Completion::default(); BATCH],
            word: Word::of(pair.plan.verbs.operation),
        })
    }

    /// Messages that may be outstanding, over all lanes.
    pub(super) fn depth(&self) -> usize {
        self.depth * self.lanes.len()
    }

    /// Messages submitted so far.
    pub(super) fn submitted(&self) -> u64 {
        self.lanes.iter().map(|lane| lane.submitted).sum()
    }

    /// Whether nothing is outstanding.
    pub(super) fn is_idle(&self) -> bool {
        self.lanes.iter().all(|lane| lane.done == lane.submitted)
    }

    /// Whether the lane whose turn it is has room.
    pub(super) fn has_room(&self) -> bool {
        self.lanes.iter().any(|lane| lane.has_room(self.depth))
    }

    /// Submits a message; the caller keeps at most [`depth`](Self::depth) outstanding.
    #[inline]
    pub(super) fn submit(&mut self, pair: &Pair, token: u64) -> Result<(), TransportError> {
        let index = self.turn();
        let Some(lane) = self.lanes.get_mut(index) else { return Ok(()) };
        if let Some(place) = lane.tokens.get_mut(lane.head) {
            *place = token;
        }
        lane.head = if lane.head + 1 == lane.tokens.len() { 0 } else { lane.head + 1 };
        let sequence = lane.submitted;
        lane.submitted += 1;
        if lane.lists.is_some() {
            return self.gather(pair, index);
        }
        lane.until_signal -= 1;
        let signaled = lane.until_signal == 0;
        // The queue is as long as the depth, and by what is said beside the messages.
        for request in lane.carrier.before(sequence) {
            pair.post_in_place(index, &request, &[])?;
        }
        let request = lane.carrier.last(sequence);
        let request = SendRequest { id: id(index, lane.submitted), ..request }.signaled(signaled);
        if signaled {
            lane.until_signal = self.moderation;
            self.signals += 1;
        }
        pair.post_in_place(index, &request, lane.carrier.more())?;
        if self.lanes.len() > 1 {
            self.next = index + 1;
        }
        Ok(())
    }

    /// The next lane with room.
    #[inline]
    fn turn(&mut self) -> usize {
        if self.lanes.len() == 1 {
            return 0;
        }
        let from = if self.next < self.lanes.len() { self.next } else { 0 };
        let order = (from..self.lanes.len()).chain(0..from);
        let free =
            |index: &usize| self.lanes.get(*index).is_some_and(|lane| lane.has_room(self.depth));
        order.into_iter().find(free).unwrap_or(from)
    }

    /// One more message for the list, which is posted when it is full.
    #[inline]
    fn gather(&mut self, pair: &Pair, index: usize) -> Result<(), TransportError> {
        let Some(lane) = self.lanes.get_mut(index) else { return Ok(()) };
        let Some(lists) = &mut lane.lists else { return Ok(()) };
        lists.gathered += 1;
        if lists.gathered < self.list {
            self.next = index;
            return Ok(());
        }
        self.next = index + 1;
        lists.until_signal -= 1;
        let signaled = lists.until_signal == 0;
        self.post_list(pair, index, signaled)
    }

    /// Posts what `index` has gathered.
    fn post_list(
        &mut self,
        pair: &Pair,
        index: usize,
        signaled: bool,
    ) -> Result<(), TransportError> {
        let (Some(lane), Some(end)) = (self.lanes.get_mut(index), pair.lanes.get(index)) else {
            return Ok(());
        };
        let Some(lists) = &mut lane.lists else { return Ok(()) };
        let list = if signaled { &mut lists.signalled } else { &mut lists.plain };
        // Of a list that is not full, the last ones: the last of all is the signalled one.
        let from = self.list.saturating_sub(lists.gathered) as usize;
        list.set_id(self.list as usize - 1, id(index, lane.submitted));
        match &mut lists.requests {
            None => end.queue_pair.post_send_list(list, from).map_err(failed)?,
            Some(requests) => {
                if let Some(last) = requests.last_mut() {
                    *last =
                        SendRequest { id: id(index, lane.submitted), ..*last }.signaled(signaled);
                }
                let requests = requests.get(from..).unwrap_or_default();
                end.queue_pair.post_sends(requests).map_err(failed)?;
            }
        }
        lists.gathered = 0;
        if signaled {
            lists.until_signal = (self.moderation / self.list).max(1);
            self.signals += 1;
        }
        Ok(())
    }

    /// Takes completions and hands over the tokens of what is done, as far as there is room.
    #[inline]
    pub(super) fn reap(
        &mut self,
        pair: &Pair,
        completed: &mut Completed,
    ) -> Result<(), TransportError> {
        if self.leftover {
            self.leftover = false;
            for lane in &mut self.lanes {
                lane.hand_over(completed);
                self.leftover |= lane.done < lane.reached;
            }
            if completed.room() == 0 {
                return Ok(());
            }
        }
        for completion in pair.send_queue.poll(&mut self.completions).map_err(failed)? {
            let id = completion.check().map_err(failed)?.id();
            self.signals -= 1;
            if let Some(lane) = self.lanes.get_mut((id >> LANE_SHIFT) as usize) {
                lane.reached = id & COUNT;
                lane.hand_over(completed);
                self.leftover |= lane.done < lane.reached;
            }
        }
        Ok(())
    }

    /// Whether what is outstanding will never complete by itself.
    #[inline]
    pub(super) fn needs_flush(&self) -> bool {
        self.signals == 0 && self.lanes.iter().any(|lane| lane.submitted > lane.reached)
    }

    /// Has everything complete that was submitted.
    #[cold]
    pub(super) fn flush(&mut self, pair: &Pair) -> Result<(), TransportError> {
        for index in 0..self.lanes.len() {
            let Some(lane) = self.lanes.get_mut(index) else { continue };
            if lane.submitted == lane.reached {
                continue;
            }
            let id = id(index, lane.submitted);
            let gathered = lane.lists.as_ref().map_or(0, |lists| lists.gathered);
            match lane.flush {
                _ if gathered > 0 => {
                    self.post_list(pair, index, true)?;
                    continue;
                }
                Flush::Write(request) => {
                    pair.post_in_place(index, &SendRequest { id, ..request }, &[])?;
                }
                // Datagrams have one lane's control for each.
                Flush::Message => Control::Flush.post(pair, index, id)?,
            }
            self.signals += 1;
        }
        Ok(())
    }

    /// Says something on the first lane, on which nothing is gathered: at a beginning or an end.
    #[cold]
    pub(super) fn say(&mut self, pair: &Pair, control: Control) -> Result<(), TransportError> {
        let submitted = self.lanes.first().map_or(0, |lane| lane.submitted);
        self.signals += 1;
        control.post(pair, 0, id(0, submitted))
    }

    /// With nothing outstanding: whether the last atomic of each lane found what those before it
    /// left.
    #[cold]
    pub(super) fn check_words(&mut self, pair: &Pair) -> Result<(), TransportError> {
        let Some(word) = &mut self.word else { return Ok(()) };
        for (index, lane) in self.lanes.iter().enumerate() {
            if let Some(last) = lane.submitted.checked_sub(1) {
                word.returned(pair, index, last)?;
            }
        }
        Ok(())
    }

    /// Atomics' values compared, and of these different.
    pub(super) fn words_verified(&self) -> (u64, u64) {
        self.word.as_ref().map_or((0, 0), Word::verified)
    }
}

impl Outgoing {
    #[inline]
    fn has_room(&self, depth: usize) -> bool {
        self.submitted - self.done < depth as u64
    }

    #[inline]
    fn hand_over(&mut self, completed: &mut Completed) {
        while self.done < self.reached && completed.room() > 0 {
            if let Some(&token) = self.tokens.get(self.tail) {
                completed.push(token);
            }
            self.tail = if self.tail + 1 == self.tokens.len() { 0 } else { self.tail + 1 };
            self.done += 1;
        }
    }
}

impl Lists {
    fn new(
        queue_pair: &Poster,
        request: SendRequest,
        length: u32,
        moderation: u32,
    ) -> Result<Self, TransportError> {
        let filled = |signaled: bool| {
            let mut list = queue_pair.send_list();
            for index in 1..=length {
                let request = request.signaled(signaled && index == length);
                queue_pair.push_send(&mut list, &request).map_err(failed)?;
            }
            Ok::<_, TransportError>(list)
        };
        let until_signal = (moderation / length).max(1);
        let unsignalled = request.signaled(false);
        let requests = queue_pair.is_extended().then(|| vec![unsignalled; length as usize].into());
        let (plain, signalled) = (filled(false)?, filled(true)?);
        Ok(Self { plain, signalled, requests, gathered: 0, until_signal })
    }
}

#[inline]
fn id(lane: usize, count: u64) -> u64 {
    (lane as u64) << LANE_SHIFT | count
}
