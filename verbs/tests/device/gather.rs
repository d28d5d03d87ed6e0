//! Messages whose bytes the device gathers from several ranges.

use fabricbench_verbs::{
    Access, Error, MOST_SEGMENTS, Operation, PostFailure, QueuePairOptions, RecvRequest,
    SendRequest, Transport,
};

use crate::pair::{OPTIONS, Pair, device, shared};

const SEVERAL: QueuePairOptions = QueuePairOptions { max_segments: 4, ..OPTIONS };

/// Ranges of the region, out of order and of unlike lengths, with one more of 11 bytes elsewhere.
const RANGES: [(usize, u32); 3] = [(9000, 700), (64, 1), (30_000, 4099)];

#[test]
fn ranges_of_several_regions_arrive_as_one_message() {
    let Some(_guard) = shared() else { return };
    let Pair { mut a, b, .. } = Pair::with_options(&SEVERAL);
    let elsewhere = a.qp.protection_domain().register(64, Access::LOCAL_READ).unwrap();
    elsewhere.copy_in(3, b"and another").unwrap();
    let mut more = vec![a.qp.attach(&elsewhere).unwrap().range(3, 11)];
    let mut expected = b"and another".to_vec();
    for (index, (offset, length)) in RANGES.into_iter().enumerate() {
        let bytes: Vec<u8> = (0..length).map(|i| (i % 250) as u8 + index as u8).collect();
        a.region.copy_in(offset, &bytes).unwrap();
        more.push(a.id.range(offset, length));
        expected.extend(bytes);
    }
    let first = more.remove(0);
    let received = |offset| {
        let mut bytes = vec![0; expected.len()];
        b.region.copy_out(offset, &mut bytes).unwrap();
        bytes
    };

    b.qp.post_recv(&RecvRequest::new(1, b.id.range(0, 8000))).unwrap();
    let send = SendRequest::new(2, Operation::SendImm(5), first);
    a.qp.post_send_gathered(&send, &more).unwrap();
    assert_eq!(a.done().id(), 2);
    let got = b.done();
    assert_eq!((got.byte_len() as usize, got.immediate()), (expected.len(), Some(5)));
    assert!(received(0) == expected);

    let write = Operation::Write(b.region.remote().at(20_000));
    a.qp.post_send_gathered(&SendRequest::new(3, write, first), &more).unwrap();
    a.done();
    assert!(received(20_000) == expected);
}

#[test]
fn a_read_is_spread_over_ranges() {
    let Some(_guard) = shared() else { return };
    let Pair { a, b, .. } = Pair::with_options(&SEVERAL);
    b.region.copy_in(0, b"head and tail").unwrap();
    let read = SendRequest::new(1, Operation::Read(b.region.remote().at(0)), a.id.range(512, 4));
    a.qp.post_send_gathered(&read, &[a.id.range(0, 0), a.id.range(64, 9)]).unwrap();
    a.done();
    let (mut head, mut tail) = ([0; 4], [0; 9]);
    a.region.copy_out(512, &mut head).unwrap();
    a.region.copy_out(64, &mut tail).unwrap();
    assert_eq!((&head, &tail), (b"head", b" and tail"));
}

#[test]
fn inline_ranges_are_copied_when_posted_and_counted_together() {
    let Some(_guard) = shared() else { return };
    let Pair { a, b, .. } = Pair::with_options(&SEVERAL);
    let write = Operation::Write(b.region.remote().at(0));
    let request = SendRequest::new(1, write, a.id.range(0, 3)).inline(true);
    a.region.copy_in(0, b"one").unwrap();
    a.region.copy_in(100, b"two").unwrap();
    a.qp.post_send_gathered(&request, &[a.id.range(100, 3)]).unwrap();
    a.region.fill(0, 200, 0).unwrap();
    a.done();
    let mut got = [0; 6];
    b.region.copy_out(0, &mut got).unwrap();
    assert_eq!(&got, b"onetwo");
    let max = a.qp.capabilities().max_inline;
    let refused = a.qp.post_send_gathered(&request, &[a.id.range(100, max - 2)]).unwrap_err();
    assert_eq!(refused.reason, PostFailure::InlineTooLong { length: max + 1, max });
}

#[test]
fn datagrams_are_gathered_up_to_the_path_mtu() {
    let Some(_guard) = shared() else { return };
    let options = QueuePairOptions { transport: Transport::UnreliableDatagram, ..SEVERAL };
    let Pair { a, b, .. } = Pair::with_options(&options);
    a.region.fill(0, 100, 7).unwrap();
    a.region.fill(500, 100, 8).unwrap();
    b.qp.post_recv(&RecvRequest::new(1, b.id.range(0, 4096))).unwrap();
    let send = a.request(2, Operation::Send, a.id.range(0, 100));
    a.qp.post_send_gathered(&send, &[a.id.range(500, 100)]).unwrap();
    a.done();
    assert_eq!(b.done().byte_len(), 200 + fabricbench_verbs::GRH_BYTES as u32);
    assert_eq!(b.region.load_u8(fabricbench_verbs::GRH_BYTES + 199).unwrap(), 8);
    let refused = a.qp.post_send_gathered(&send, &[a.id.range(0, 4096)]).unwrap_err();
    assert!(matches!(refused.reason, PostFailure::DatagramTooLong { length: 4196, .. }));
}

#[test]
fn more_ranges_than_there_are_places_for_are_refused() {
    let Some(_guard) = shared() else { return };
    let (context, _) = device();
    let most = context.limits().segments.min(MOST_SEGMENTS);
    let (pd, cq) = (context.alloc_pd().unwrap(), context.create_completion_queue(16).unwrap());
    let create = |max_segments| {
        pd.create_queue_pair(&cq, &cq, &QueuePairOptions { max_segments, ..OPTIONS })
    };
    let refused = create(most + 1).unwrap_err();
    assert!(matches!(refused, Error::Unsupported { .. }), "{refused}");
    assert!(refused.to_string().contains(&format!("(at most {most}: max_sge)")), "{refused}");
    assert!(create(most).unwrap().capabilities().max_segments >= most);

    let Pair { a, .. } = Pair::with_options(&SEVERAL);
    let max = a.qp.capabilities().max_segments;
    let send = SendRequest::new(1, Operation::Send, a.id.range(0, 1));
    let more = vec![a.id.range(0, 1); max as usize];
    let refused = a.qp.post_send_gathered(&send, &more).unwrap_err();
    let segments = max as usize + 1;
    assert_eq!(refused.reason, PostFailure::TooManySegments { segments, max });
}
