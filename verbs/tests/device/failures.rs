//! What goes wrong, in bounded time and in words.

use std::process::Command;
use std::time::Instant;

use fabricbench_verbs::{
    Access, ConnectOptions, Error, LockedMemory, Operation, PostFailure, RecvRequest, RemoteAddr,
    SendRequest, State, Status, random_psn,
};

use crate::pair::{
    End, OPTIONS, PATIENCE, Pair, REGION, alone, device, everything_allowed, shared,
};

fn send(end: &End, id: u64) -> SendRequest {
    SendRequest::new(id, Operation::Send, end.id.range(0, 64))
}

#[test]
fn a_wrong_key_is_a_remote_access_error() {
    let Some(_guard) = shared() else { return };
    let Pair { a, b, .. } = Pair::new();
    let remote = b.region.remote().at(0);
    let wrong = RemoteAddr { rkey: remote.rkey ^ 0x0055_5500, ..remote };
    a.qp.post_send(&SendRequest::new(5, Operation::Write(wrong), a.id.range(0, 8))).unwrap();
    let failure = a.failure();
    assert_eq!((failure.id, failure.status), (5, Status::REMOTE_ACCESS));
    assert!(failure.to_string().contains("exchange the region again"), "{failure}");
    assert_eq!(a.qp.state().unwrap(), State::ERROR);
    a.qp.post_send(&send(&a, 6)).unwrap();
    assert_eq!(a.failure().status, Status::FLUSHED);
}

#[test]
fn a_write_past_the_end_of_the_peers_region_is_refused() {
    let Some(_guard) = shared() else { return };
    let Pair { a, b, .. } = Pair::new();
    let past = b.region.remote().at(REGION as u64 - 4);
    a.qp.post_send(&SendRequest::new(5, Operation::Write(past), a.id.range(0, 8))).unwrap();
    assert_eq!(a.failure().status, Status::REMOTE_ACCESS);
}

#[test]
fn no_receive_posted_is_told_after_the_retries() {
    let Some(_guard) = shared() else { return };
    let Pair { a, b, .. } = Pair::with(&ConnectOptions { rnr_retry: 1, ..everything_allowed() });
    a.qp.post_send(&send(&a, 1)).unwrap();
    let failure = a.failure();
    assert_eq!(failure.status, Status::RNR_RETRY_EXCEEDED);
    assert!(failure.to_string().contains("post receives before sending"), "{failure}");
    drop(b);
}

#[test]
fn a_receive_too_small_is_told_to_both() {
    let Some(_guard) = shared() else { return };
    let Pair { a, b, .. } = Pair::new();
    b.qp.post_recv(&RecvRequest::new(1, b.id.range(0, 8))).unwrap();
    a.qp.post_send(&send(&a, 1)).unwrap();
    // Which of the two it is differs between drivers; the words must lead to the receive.
    let receiver = b.failure();
    assert_eq!(receiver.id, 1);
    assert!(receiver.to_string().contains("the receive posted for it"), "{receiver}");
    let sender = a.failure();
    assert!([Status::REMOTE_INVALID_REQUEST, Status::REMOTE_OPERATION].contains(&sender.status));
    assert!(sender.to_string().contains("the peer"), "{sender}");
}

#[test]
fn a_peer_that_is_gone_ends_in_an_error() {
    let Some(_guard) = shared() else { return };
    // 4.096 us << 10 is 4 ms; with 3 retries over in well under a second.
    let quick = ConnectOptions { timeout: 10, retry: 3, ..everything_allowed() };
    let Pair { a, b, .. } = Pair::with(&quick);
    drop(b);
    let start = Instant::now();
    a.qp.post_send(&send(&a, 1)).unwrap();
    let failure = a.failure();
    assert_eq!(failure.status, Status::RETRY_EXCEEDED);
    assert!(failure.to_string().contains("the peer does not answer"), "{failure}");
    assert!(start.elapsed() < PATIENCE / 2);
}

#[test]
fn a_full_queue_is_told_from_other_refusals_and_drains() {
    let Some(_guard) = shared() else { return };
    let Pair { a, b, .. } = Pair::new();
    let mut posted: u64 = 0;
    // Nothing is received yet, so nothing completes and the queue must fill.
    let error = loop {
        match a.qp.post_send(&send(&a, posted)) {
            Ok(()) => posted += 1,
            Err(error) => break error,
        }
        assert!(posted <= 1 << 16, "the queue never fills");
    };
    assert!(error.is_queue_full(), "{error}");
    assert!(posted >= u64::from(OPTIONS.send_depth), "{posted}");
    for id in 0..4 {
        b.qp.post_recv(&RecvRequest::new(id, b.id.range(0, 64))).unwrap();
    }
    assert_eq!(a.done().id(), 0);
    a.qp.post_send(&send(&a, posted)).unwrap();
}

#[test]
fn a_list_longer_than_the_queue_says_how_much_was_posted() {
    let Some(_guard) = shared() else { return };
    let Pair { a, b, .. } = Pair::new();
    let mut list = a.qp.send_list::<8>();
    for id in 0..8 {
        a.qp.push_send(&mut list, &send(&a, id)).unwrap();
    }
    let mut posted = 0;
    let error = loop {
        match a.qp.post_send_list(&mut list, 0) {
            Ok(()) => posted += 8,
            Err(error) => break error,
        }
    };
    assert!(error.is_queue_full() && error.posted < 8, "{error:?}");
    posted += error.posted;
    for _ in 0..posted {
        b.qp.post_recv(&RecvRequest::new(0, b.id.range(0, 64))).unwrap();
        assert_eq!(b.done().byte_len(), 64);
        a.done();
    }
    // Exactly those were posted: none is left to complete.
    b.qp.post_recv(&RecvRequest::new(77, b.id.range(0, 64))).unwrap();
    a.qp.post_send(&send(&a, 55)).unwrap();
    assert_eq!((a.done().id(), b.done().id()), (55, 77));
}

#[test]
fn ranges_and_regions_are_checked_before_posting() {
    let Some(_guard) = shared() else { return };
    let Pair { a, b, .. } = Pair::new();
    let post = |local| a.qp.post_send(&SendRequest::new(0, Operation::Send, local));
    for (offset, length) in [(REGION - 3, 4), (REGION + 1, 0), (usize::MAX, 8), (0, u32::MAX)] {
        let error = post(a.id.range(offset, length)).unwrap_err();
        assert!(matches!(error.reason, PostFailure::OutOfRange { .. }), "{error}");
    }
    let error = post(b.id.range(0, 8)).unwrap_err();
    assert_eq!(error.reason, PostFailure::UnknownRegion);
    // Its bytes would be taken for an address to write to.
    let read = Operation::Read(b.region.remote().at(0));
    let inline = SendRequest::new(0, read, a.id.range(0, 8)).inline(true);
    let error = a.qp.post_send(&inline).unwrap_err();
    assert_eq!(error.reason, PostFailure::InlineOperation);
    assert!(a.region.copy_in(REGION - 3, &[0; 4]).is_err());
    assert!(a.region.copy_out(usize::MAX, &mut [0; 4]).is_err());
    assert!(a.region.load_u32(2).is_err() && a.region.load_u32(4).is_ok());
}

#[test]
fn objects_of_another_domain_are_refused() {
    let Some(_guard) = shared() else { return };
    let (context, _) = device();
    let (one, other) = (context.alloc_pd().unwrap(), context.alloc_pd().unwrap());
    let mut end = End::new(&context, &one, &OPTIONS);
    let stranger = other.register(64, Access::LOCAL_WRITE).unwrap();
    assert!(matches!(end.qp.attach(&stranger), Err(Error::Foreign { .. })));
    let (second, _) = device();
    let cq = second.create_completion_queue(4).unwrap();
    assert!(matches!(one.create_queue_pair(&cq, &cq, &OPTIONS), Err(Error::Foreign { .. })));
}

#[test]
fn more_than_the_device_has_is_refused_with_its_limit() {
    let Some(_guard) = shared() else { return };
    let (context, _) = device();
    let limits = context.limits().clone();
    let text = context.create_completion_queue(limits.completions + 1).unwrap_err().to_string();
    assert!(text.contains(&format!("at most {}", limits.completions)), "{text}");
    let cq = context.create_completion_queue(1).unwrap();
    let options =
        fabricbench_verbs::QueuePairOptions { send_depth: limits.work_requests + 1, ..OPTIONS };
    let pd = context.alloc_pd().unwrap();
    let text = pd.create_queue_pair(&cq, &cq, &options).unwrap_err().to_string();
    assert!(text.contains("send queue") && text.contains("at most"), "{text}");
}

#[test]
fn an_empty_gid_index_forced_on_the_queue_pair_fails_when_connecting() {
    let Some(_guard) = shared() else { return };
    let (context, port) = device();
    let mut gid = context.choose_gid(port.number, None).unwrap();
    let table = context.gid_table(port.number).unwrap();
    gid.entry.index =
        (0..port.gid_slots).find(|i| table.iter().all(|entry| entry.index != *i)).unwrap();
    gid.explicit = true;
    let pd = context.alloc_pd().unwrap();
    let end = End::new(&context, &pd, &OPTIONS);
    let point = end.qp.endpoint(&port, &gid, random_psn());
    let error = end.qp.connect(&port, &gid, &point, &point, &everything_allowed()).unwrap_err();
    let text = error.to_string();
    assert!(text.starts_with("ibv_modify_qp on RC queue pair"), "{text}");
    assert!(text.contains("to RTR") && text.contains(&gid.entry.to_string()), "{text}");
}

#[test]
fn the_error_state_flushes_what_is_posted() {
    let Some(_guard) = shared() else { return };
    let Pair { a, b, .. } = Pair::new();
    assert_eq!(a.qp.state().unwrap(), State::RTS);
    for id in 0..3 {
        a.qp.post_recv(&RecvRequest::new(id, a.id.range(0, 64))).unwrap();
    }
    a.qp.to_error().unwrap();
    for id in 0..3 {
        let failure = a.failure();
        assert_eq!((failure.id, failure.status), (id, Status::FLUSHED));
    }
    drop(b);
}

#[test]
fn locked_memory_is_checked_before_registering() {
    let Some(_guard) = alone() else { return };
    let (context, _) = device();
    let pd = context.alloc_pd().unwrap();
    let limit = 64 * 1024;
    let error = with_limit(limit, || pd.register(1 << 20, Access::LOCAL_WRITE)).unwrap_err();
    let text = error.to_string();
    assert!(
        text.contains(&format!("{} bytes of memory with {}", 1 << 20, context.name())),
        "{text}"
    );
    assert!(text.contains(&format!("RLIMIT_MEMLOCK is {limit}")), "{text}");
    // Before anything is mapped: this much is not to be had at all.
    let error = with_limit(limit, || pd.register(1 << 46, Access::LOCAL_WRITE)).unwrap_err();
    assert!(matches!(error, Error::LockedMemory { .. }), "{error}");
    // Within the limit it goes, and what is pinned then counts.
    with_limit(limit, || {
        let held = pd.register(40 * 1024, Access::LOCAL_WRITE).unwrap();
        assert_eq!(LockedMemory::now().pinned, 40 * 1024);
        let error = pd.register(40 * 1024, Access::LOCAL_WRITE).unwrap_err();
        assert!(matches!(error, Error::LockedMemory { pinned: 40_960, .. }), "{error}");
        drop(held);
        pd.register(40 * 1024, Access::LOCAL_WRITE).unwrap();
    });
    pd.register(1 << 20, Access::LOCAL_WRITE).unwrap();
}

/// Runs `body` as an ordinary process with this limit would: without the right to pass it.
fn with_limit<T>(bytes: u64, body: impl FnOnce() -> T) -> T {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    use rustix::thread::{CapabilitySet, capabilities, set_capabilities};
    let (before, rights) = (getrlimit(Resource::Memlock), capabilities(None).unwrap());
    let mut fewer = rights;
    fewer.effective.remove(CapabilitySet::IPC_LOCK);
    setrlimit(Resource::Memlock, Rlimit { current: Some(bytes), ..before }).unwrap();
    set_capabilities(None, fewer).unwrap();
    let result = body();
    set_capabilities(None, rights).unwrap();
    setrlimit(Resource::Memlock, before).unwrap();
    result
}

/// In a user namespace a process seems to have the right and the kernel does not honour it: the
/// refusal then comes from the registration itself.
#[test]
fn locked_memory_refused_by_the_kernel_says_the_same() {
    const INSIDE: &str = "FABRICBENCH_TEST_IN_USER_NAMESPACE";
    if std::env::var_os(INSIDE).is_some() {
        let (context, _) = device();
        let pd = context.alloc_pd().unwrap();
        assert!(LockedMemory::now().exempt, "not in a user namespace with all rights");
        let error = pd.register(1 << 20, Access::LOCAL_WRITE).unwrap_err();
        assert!(matches!(error, Error::LockedMemory { limit: 65_536, .. }), "{error}");
        return;
    }
    let Some(_guard) = alone() else { return };
    let test = "failures::locked_memory_refused_by_the_kernel_says_the_same";
    let script = r#"ulimit -l 64 && exec unshare --user --map-root-user "$0" --exact "$1""#;
    let program = std::env::current_exe().unwrap();
    let output = Command::new("sh")
        .args(["-c", script, program.to_str().unwrap(), test])
        .env(INSIDE, "1")
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
}
