//! Sleeping until something completes.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use fabricbench_verbs::{Completion, Error, Opcode, Operation, RecvRequest, Transport};

use crate::pair::{End, PATIENCE, Pair, device, shared};

const SHORT: Duration = Duration::from_millis(50);

fn receive(end: &End, id: u64) {
    end.qp.post_recv(&RecvRequest::new(id, end.id.range(1024, 256))).unwrap();
}

/// Sends 8 bytes and waits, polling, until they are sent.
fn send(end: &End, solicited: bool) {
    let request = end.request(0, Operation::Send, end.id.range(0, 8)).solicited(solicited);
    end.qp.post_send(&request).unwrap();
    end.done();
}

fn polled(end: &End) -> usize {
    let mut completions = [Completion::default(); 16];
    end.cq.poll(&mut completions).unwrap().len()
}

#[test]
fn a_completion_wakes_who_waits_for_it() {
    let Some(_guard) = shared() else { return };
    for transport in Transport::ALL {
        let Pair { a, b, .. } = Pair::with_events(transport);
        receive(&b, 1);
        b.cq.arm(false).unwrap();
        assert_eq!(polled(&b), 0);
        let sender = std::thread::spawn(move || {
            std::thread::sleep(SHORT);
            send(&a, false);
            // The queue pair stays until the message has arrived.
            a
        });
        let start = Instant::now();
        assert!(b.cq.wait(PATIENCE).unwrap(), "{transport}");
        assert!(start.elapsed() >= SHORT / 2, "woken before anything was sent");
        assert_eq!(polled(&b), 1);
        drop(sender.join().unwrap());
    }
}

#[test]
fn waiting_ends_with_the_time_that_was_given() {
    let Some(_guard) = shared() else { return };
    let Pair { a, b, .. } = Pair::with_events(Transport::ReliableConnection);
    b.cq.arm(false).unwrap();
    let start = Instant::now();
    assert!(!b.cq.wait(SHORT).unwrap());
    assert!(start.elapsed() >= SHORT, "{:?}", start.elapsed());
    assert!(!b.cq.wait(Duration::ZERO).unwrap());
    // One that came before the queue was armed makes no event: only polling finds it.
    receive(&a, 7);
    send(&b, false);
    assert_eq!(a.done().id(), 7);
    receive(&a, 8);
    send(&b, false);
    std::thread::sleep(SHORT);
    a.cq.arm(false).unwrap();
    assert!(!a.cq.wait(SHORT).unwrap());
    assert_eq!(a.done().id(), 8);
    // An armed queue makes one event, however many completions there are.
    a.cq.arm(false).unwrap();
    for id in 0..3 {
        receive(&a, id);
        send(&b, false);
    }
    assert!(a.cq.wait(PATIENCE).unwrap());
    assert!(!a.cq.wait(SHORT).unwrap());
    assert_eq!([a.done().id(), a.done().id(), a.done().id()], [0, 1, 2]);
}

/// Two threads, each asleep while the other works, thousands of times: a wake-up that got lost
/// would end one wait without a completion.
#[test]
fn no_event_is_lost_in_thousands() {
    const ROUNDS: u64 = 2000;
    let Some(_guard) = shared() else { return };
    let Pair { a, b, .. } = Pair::with_events(Transport::ReliableConnection);
    receive(&a, 0);
    receive(&b, 0);
    let post = |end: &End| {
        let request = end.request(0, Operation::Send, end.id.range(0, 8));
        end.qp.post_send(&request).unwrap();
    };
    let sleeps = std::thread::scope(|scope| {
        let echo = scope.spawn(move || {
            for id in 0..ROUNDS {
                receive(&b, id + 1);
                until_received(id, |into| b.cq.poll_or_wait(into, PATIENCE).unwrap().len());
                post(&b);
            }
            b
        });
        let mut sleeps = 0;
        for id in 0..ROUNDS {
            receive(&a, id + 1);
            post(&a);
            // What `poll_or_wait` does, and counts.
            until_received(id, |into| {
                let mut count = a.cq.poll(into).unwrap().len();
                if count == 0 {
                    a.cq.arm(false).unwrap();
                    count = a.cq.poll(into).unwrap().len();
                }
                if count == 0 {
                    sleeps += 1;
                    assert!(a.cq.wait(PATIENCE).unwrap(), "no event in round {id}");
                    count = a.cq.poll(into).unwrap().len();
                }
                count
            });
        }
        drop(echo.join().unwrap());
        sleeps
    });
    assert!(sleeps > ROUNDS / 10, "only {sleeps} sleeps in {ROUNDS} rounds: nothing was tested");
}

/// Polls until the receive with this number is complete; sends complete beside it.
fn until_received(id: u64, mut poll: impl FnMut(&mut [Completion]) -> usize) {
    let start = Instant::now();
    loop {
        let mut completions = [Completion::default()];
        if poll(&mut completions) == 1 && completions[0].check().unwrap().opcode() == Opcode::RECV {
            assert_eq!(completions[0].id(), id);
            return;
        }
        assert!(start.elapsed() < PATIENCE, "the message of round {id} did not arrive");
    }
}

#[test]
fn only_solicited_messages_wake_who_waits_for_those() {
    let Some(_guard) = shared() else { return };
    let Pair { a, b, .. } = Pair::with_events(Transport::ReliableConnection);
    for id in 0..2 {
        receive(&b, id);
    }
    b.cq.arm(true).unwrap();
    send(&a, false);
    assert_eq!(b.done().id(), 0);
    assert!(!b.cq.wait(SHORT).unwrap(), "woken by a message that was not solicited");
    send(&a, true);
    assert!(b.cq.wait(PATIENCE).unwrap());
    assert_eq!(b.done().id(), 1);
}

#[test]
fn one_channel_serves_many_queues() {
    let Some(_guard) = shared() else { return };
    let Pair { a, b, .. } = Pair::with_events(Transport::ReliableConnection);
    let channel = a.cq.channel().unwrap();
    let on_a = a.qp.context().create_completion_queue_on(&channel, 4).unwrap();
    let other = on_a.channel().unwrap();
    receive(&a, 3);
    a.cq.arm(false).unwrap();
    on_a.arm(false).unwrap();
    send(&b, false);
    // Whichever handle is asked.
    assert!(other.wait(PATIENCE).unwrap());
    assert_eq!(a.done().id(), 3);
}

/// Runs `body`, which could block for ever, and gives up on it after a while.
fn bounded(body: impl FnOnce() + Send + 'static) {
    let (done, ended) = mpsc::channel();
    let thread = std::thread::spawn(move || {
        body();
        done.send(()).unwrap();
    });
    match ended.recv_timeout(PATIENCE) {
        Err(mpsc::RecvTimeoutError::Timeout) => panic!("still not gone after {PATIENCE:?}"),
        _ => thread.join().unwrap(),
    }
}

#[test]
fn a_queue_with_events_that_nobody_acknowledged_or_read_goes() {
    let Some(_guard) = shared() else { return };
    // Fewer and more than are acknowledged together, the last one read or not.
    for (events, read_last) in [(1, true), (5, true), (5, false), (64, true), (67, true)] {
        let Pair { a, b, .. } = Pair::with_events(Transport::ReliableConnection);
        for id in 0..events {
            receive(&b, id);
            b.cq.arm(false).unwrap();
            send(&a, false);
            assert_eq!(b.done().id(), id);
            if read_last || id + 1 < events {
                assert!(b.cq.wait(PATIENCE).unwrap());
            }
        }
        bounded(move || drop((a, b)));
    }
}

/// Queues come and go while another thread reads their events.
#[test]
fn a_queue_goes_while_another_thread_waits_on_its_channel() {
    let Some(_guard) = shared() else { return };
    let Pair { a, b, .. } = Pair::with_events(Transport::ReliableConnection);
    let channel = b.cq.channel().unwrap();
    let over = AtomicBool::new(false);
    let seen = std::thread::scope(|scope| {
        let waiting = scope.spawn(|| {
            let mut seen = 0;
            while !over.load(Ordering::Acquire) {
                seen += u32::from(channel.wait(Duration::from_millis(1)).unwrap());
            }
            seen
        });
        let (context, port) = (b.qp.context(), device().1);
        let gid = context.choose_gid(port.number, None).unwrap();
        for _ in 0..100 {
            let pd = context.alloc_pd().unwrap();
            let (mut c, mut d) = (End::on(&channel, &pd), End::on(&channel, &pd));
            let (end_c, end_d) = (c.qp.endpoint(&port, &gid, 1), d.qp.endpoint(&port, &gid, 2));
            c.reach(&port, &gid, &end_c, &end_d, &Default::default());
            d.reach(&port, &gid, &end_d, &end_c, &Default::default());
            receive(&d, 0);
            d.cq.arm(false).unwrap();
            c.cq.arm(false).unwrap();
            send(&c, false);
        }
        over.store(true, Ordering::Release);
        waiting.join().unwrap()
    });
    assert!(seen > 0, "no event was read at all");
    drop((a, b));
}

#[test]
fn a_queue_without_a_channel_says_so() {
    let Some(_guard) = shared() else { return };
    let Pair { a, .. } = Pair::new();
    assert!(matches!(a.cq.arm(false), Err(Error::NoChannel)));
    assert!(matches!(a.cq.wait(SHORT), Err(Error::NoChannel)));
    let mut completions = [Completion::default()];
    let text = a.cq.poll_or_wait(&mut completions, SHORT).unwrap_err().to_string();
    assert!(text.contains("create_completion_queue_on"), "{text}");
    let (other, _) = device();
    let channel = other.create_completion_channel().unwrap();
    let foreign = a.qp.context().create_completion_queue_on(&channel, 4);
    assert!(matches!(foreign, Err(Error::Foreign { .. })));
}
