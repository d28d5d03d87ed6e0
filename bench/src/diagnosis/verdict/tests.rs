use super::*;

const GIGABIT: f64 = 125e6;

fn at(gigabits: f64) -> Figure {
    let bytes_per_s = gigabits * GIGABIT;
    let idle = Some(Load { running: 0.3, waiting: Some(0.02) });
    Figure {
        bytes_per_s,
        rounds: (bytes_per_s * 0.98, bytes_per_s * 1.02),
        client: idle,
        server: idle,
        retransmitted: Some(0.0),
        rtt_us: Some(100.0),
        ..Figure::default()
    }
}

fn busy(figure: Figure, running: f64, waiting: f64) -> Figure {
    Figure { server: Some(Load { running, waiting: Some(waiting) }), ..figure }
}

/// A path of 10 Gb/s on which nothing is lost.
fn healthy() -> Figures {
    Figures {
        line: Some(10.0 * GIGABIT),
        tcp: [1, 2, 4, 8].map(|connections| (connections, at(9.4))).to_vec(),
        grpc: [1, 2, 4, 8].map(|connections| (connections, at(9.2))).to_vec(),
        stock: Some(Figure { http2_window: Some(1048576.0), ..at(9.1) }),
        serialized: Some(at(9.0)),
        tensor: Some(at(8.9)),
    }
}

fn causes(figures: &Figures) -> Vec<Cause> {
    verdict(figures).iter().map(|finding| finding.cause).collect()
}

#[test]
fn a_full_link_is_the_link() {
    assert_eq!(causes(&healthy()), [Cause::Link]);
    assert!(verdict(&healthy())[0].text.contains("94 % of its 1250.0 MB/s"));
    let unstated = Figures { line: None, ..healthy() };
    assert!(verdict(&unstated)[0].text.contains("the kernel states none"));
    assert!(verdict(&Figures::default()).is_empty());
}

/// The measurements that the command is for: 1.5 Gb/s over one socket, 9.3 over eight.
#[test]
fn a_socket_that_is_policed_is_told_from_the_link() {
    let limited = |gigabits| Figure { retransmitted: Some(0.02), lossy: true, ..at(gigabits) };
    let figures = Figures {
        tcp: vec![(1, limited(1.5)), (2, limited(2.9)), (4, limited(5.8)), (8, at(9.33))],
        grpc: vec![(1, limited(1.45)), (8, at(9.1))],
        stock: Some(limited(1.4)),
        serialized: Some(limited(1.42)),
        tensor: Some(limited(1.4)),
        ..healthy()
    };
    assert_eq!(causes(&figures), [Cause::Socket]);
    let text = &verdict(&figures)[0].text;
    for words in
        ["16 % of the 1166.2 MB/s that 8 carry", "2.00 % of its segments", "policer", "over 8"]
    {
        assert!(text.contains(words), "no `{words}` in {text}");
    }
    let mut windowed = figures.clone();
    windowed.tcp[0].1 = Figure { tcp_window_limited: Some(0.8), ..at(1.5) };
    assert!(verdict(&windowed)[0].text.contains("tcp_rmem"));
    // Whatever the kernel states of the link, or does not.
    assert_eq!(causes(&Figures { line: None, ..figures }), [Cause::Socket]);
}

#[test]
fn a_path_that_carries_less_than_its_link_is_no_sockets_fault() {
    let mut figures = healthy();
    figures.line = Some(100.0 * GIGABIT);
    assert_eq!(causes(&figures), [Cause::Path]);
    assert!(verdict(&figures)[0].text.contains("9 % of the link's"));
}

#[test]
fn a_window_that_is_too_small_for_the_round_trip_is_named() {
    let far = |gigabits| Figure { rtt_us: Some(20_000.0), ..at(gigabits) };
    let mut figures = healthy();
    figures.tcp = vec![(1, far(9.4)), (8, far(9.4))];
    // 1 MiB in 20 ms.
    figures.stock = Some(Figure { http2_window: Some(1048576.0), ..far(0.41) });
    assert_eq!(causes(&figures), [Cause::Http2Window]);
    let text = &verdict(&figures)[0].text;
    assert!(text.contains("window of 1024 KiB") && text.contains("20.0 ms"), "{text}");
    // As slow, but not because of the window.
    figures.stock = Some(Figure { http2_window: Some(16e6), ..far(0.41) });
    assert_eq!(causes(&figures), [Cause::Link]);
}

#[test]
fn a_processor_that_is_full_comes_before_what_it_explains() {
    let slow = |gigabits| busy(at(gigabits), 0.98, 0.01);
    let figures = Figures {
        line: Some(100.0 * GIGABIT),
        tcp: vec![(1, slow(20.0)), (8, slow(21.0))],
        grpc: vec![(1, slow(12.0)), (8, slow(12.0))],
        stock: None,
        serialized: Some(slow(6.0)),
        tensor: Some(slow(5.8)),
    };
    assert_eq!(causes(&figures), [Cause::Processor, Cause::Serialization, Cause::Grpc]);
    assert!(verdict(&figures)[0].text.contains("the server used 98 % of one"));
    let shared = |gigabits| busy(at(gigabits), 0.5, 0.48);
    let figures =
        Figures { line: None, tcp: vec![(1, shared(8.0)), (8, shared(8.1))], ..healthy() };
    assert_eq!(causes(&figures), [Cause::Processor]);
    // Two sockets that carried more in some rounds change nothing.
    let wide = Figure { rounds: (900e6, 1600e6), ..at(12.0) };
    let figures = Figures { tcp: vec![(1, shared(8.0)), (2, wide)], ..figures };
    let starved = |gigabits| busy(at(gigabits), 0.1, 0.6);
    let waiting = Figures { line: None, tcp: vec![(1, starved(2.0))], ..healthy() };
    assert_eq!(causes(&waiting), [Cause::Processor], "both sides wait in turns");
    // The one that waits is looked at, and not the one that is busier and has what it needs.
    let client = Some(Load { running: 0.73, waiting: Some(0.02) });
    let uneven = Figure { client, ..starved(2.0) };
    let uneven = Figures { line: None, tcp: vec![(1, uneven)], ..healthy() };
    assert_eq!(causes(&uneven)[0], Cause::Processor);
    assert!(verdict(&uneven)[0].text.contains("the server used 10 %"));
    // TCP of one socket kept its rate, and gRPC had to wait for others.
    let late = Figures { grpc: vec![(1, starved(4.0))], serialized: None, ..healthy() };
    assert_eq!(causes(&late)[0], Cause::Processor);
    assert!(verdict(&late)[0].text.contains("others run there"));
    let first = &verdict(&figures)[0];
    assert_eq!(first.cause, Cause::Processor);
    assert!(first.text.contains("used 50 % of one and waited"), "{}", first.text);
    assert!(first.text.contains("summed over its threads"), "{}", first.text);
}

/// A link that is full needs no processor's excuse.
#[test]
fn a_full_processor_on_a_full_link_is_no_finding() {
    let mut figures = healthy();
    figures.tcp = vec![(1, busy(at(9.4), 0.95, 0.0))];
    assert_eq!(causes(&figures), [Cause::Link]);
}

/// The other pair of hosts of those measurements: gRPC near the link, tensors at half of it.
#[test]
fn the_steps_of_grpc_are_told_apart_by_what_each_loses() {
    let figures = Figures { serialized: Some(at(7.0)), tensor: Some(at(5.0)), ..healthy() };
    assert_eq!(causes(&figures), [Cause::Copies, Cause::Serialization]);
    let figures = Figures {
        grpc: vec![(1, at(5.0))],
        serialized: Some(at(4.9)),
        tensor: Some(at(4.8)),
        ..healthy()
    };
    assert_eq!(causes(&figures), [Cause::Grpc]);
    let wide = Figure { rounds: (100e6, 1200e6), ..at(7.0) };
    let figures = Figures { serialized: Some(wide), ..healthy() };
    assert_eq!(causes(&figures)[0], Cause::Link, "rounds that differ so much resolve nothing");
}
