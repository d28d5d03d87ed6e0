//! Objects that go away: in any order, and completely.

use fabricbench_verbs::{Access, Operation, SendRequest};

use crate::pair::{End, OPTIONS, Pair, device, shared};

#[test]
fn objects_may_be_dropped_in_any_order() {
    let Some(_guard) = shared() else { return };
    for order in permutations(5) {
        let (context, _) = device();
        let pd = context.alloc_pd().unwrap();
        let End { qp, cq, region, .. } = End::new(&context, &pd, &OPTIONS);
        let mut objects: Vec<Option<Box<dyn std::any::Any>>> = vec![
            Some(Box::new(context)),
            Some(Box::new(pd)),
            Some(Box::new(qp)),
            Some(Box::new(cq)),
            Some(Box::new(region)),
        ];
        for index in order {
            objects[index] = None;
        }
    }
}

fn permutations(count: usize) -> Vec<Vec<usize>> {
    if count == 0 {
        return vec![Vec::new()];
    }
    let shorter = permutations(count - 1);
    shorter
        .into_iter()
        .flat_map(|order| {
            (0..count).map(move |place| {
                let mut order = order.clone();
                order.insert(place, count - 1);
                order
            })
        })
        .collect()
}

#[test]
fn memory_lives_as_long_as_the_queue_pair_it_is_attached_to() {
    let Some(_guard) = shared() else { return };
    let Pair { mut a, b, .. } = Pair::new();
    let source = a.qp.protection_domain().register(4096, Access::LOCAL_READ).unwrap();
    let id = a.qp.attach(&source).unwrap();
    source.fill(0, 4096, 5).unwrap();
    drop(source);
    let write = Operation::Write(b.region.remote().at(0));
    a.qp.post_send(&SendRequest::new(0, write, id.range(0, 4096))).unwrap();
    a.done();
    assert_eq!(b.region.load_u8(4095).unwrap(), 5);
}

#[test]
fn requests_in_flight_do_not_keep_a_queue_pair_from_going() {
    let Some(_guard) = shared() else { return };
    for _ in 0..20 {
        let Pair { a, b, .. } = Pair::new();
        for id in 0..32 {
            let write = Operation::Write(b.region.remote().at(0));
            a.qp.post_send(&SendRequest::new(id, write, a.id.range(0, 32 * 1024))).unwrap();
        }
        drop((b, a));
    }
}
