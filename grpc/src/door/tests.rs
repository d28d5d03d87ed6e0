use std::io::Write;
use std::net::{Ipv4Addr, TcpListener};
use std::task::Waker;

use super::*;

/// A door with its listener, and what connects to it.
struct House {
    listener: TcpListener,
    door: Door<BlockingStream>,
    key: Key,
}

impl House {
    fn new(places: usize) -> House {
        let (listener, key) = (TcpListener::bind("127.0.0.1:0").unwrap(), Key::generate().unwrap());
        House { listener, door: Door::new(key.clone(), places), key }
    }

    /// A connection from `127.0.0.last` that has sent `bytes`, and waits at the door.
    fn knock(&mut self, last: u8, bytes: &[u8]) -> BlockingStream {
        let from = SocketAddr::new(Ipv4Addr::new(127, 0, 0, last).into(), 0);
        let socket =
            socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
        socket.bind(&from.into()).unwrap();
        socket.connect(&self.listener.local_addr().unwrap().into()).unwrap();
        let mut far = BlockingStream::from(socket);
        far.write_all(bytes).unwrap();
        far.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        let (near, peer) = self.listener.accept().unwrap();
        near.set_nonblocking(true).unwrap();
        self.door.arrive(near, peer, Instant::now());
        far
    }

    fn admit(&mut self) -> Option<BlockingStream> {
        self.admit_at(Instant::now())
    }

    fn admit_at(&mut self, now: Instant) -> Option<BlockingStream> {
        let cx = &mut Context::from_waker(Waker::noop());
        self.door.poll_admit(cx, now).map(|(stream, _)| stream)
    }

    #[track_caller]
    fn told(&self, words: &str) {
        let told = self.door.turned_away().told().unwrap();
        assert!(told.contains(words), "{told}");
    }
}

fn heard(mut far: &BlockingStream) -> Vec<u8> {
    let mut all = Vec::new();
    // A reset is an end as well.
    let _ = far.read_to_end(&mut all);
    all
}

#[test]
fn who_shows_the_key_is_let_in_and_loses_no_byte_behind_it() {
    let mut house = House::new(2);
    let (head, answer) = house.key.head().unwrap();
    // In pieces, and with more behind it.
    let mut far = house.knock(1, &head[..7]);
    assert!(house.admit().is_none());
    far.write_all(&head[7..]).unwrap();
    far.write_all(b"behind").unwrap();
    let mut near = house.admit().unwrap();
    let mut got = [0; 32];
    far.read_exact(&mut got).unwrap();
    assert_eq!(got, answer);
    let mut behind = [0; 6];
    near.set_nonblocking(false).unwrap();
    near.read_exact(&mut behind).unwrap();
    assert_eq!(&behind, b"behind");
    assert!(!house.door.is_full());
    assert_eq!(house.door.turned_away().told(), None);
}

#[test]
fn another_key_is_refused_and_takes_no_place() {
    let mut house = House::new(1);
    let (other, _) = Key::generate().unwrap().head().unwrap();
    let far = house.knock(1, &other);
    assert!(house.admit().is_none());
    assert_eq!(heard(&far), REFUSAL);
    house.told("127.0.0.1");
    house.told("does not show the key");
    let (head, _) = house.key.head().unwrap();
    let _far = house.knock(1, &head);
    assert!(house.admit().is_some() && house.door.is_full());
    // A full door takes nobody, whatever they show.
    let (head, _) = house.key.head().unwrap();
    let _far = house.knock(1, &head);
    assert!(house.admit().is_none());
}

#[test]
fn a_head_is_good_for_one_connection() {
    let mut house = House::new(2);
    let (head, _) = house.key.head().unwrap();
    let (_far, again) = (house.knock(1, &head), house.knock(2, &head));
    assert!(house.admit().is_some());
    assert!(house.admit().is_none());
    assert_eq!(heard(&again), REFUSAL);
    house.told("what another connection has shown");
}

#[test]
fn who_shows_nothing_has_its_time_and_no_more() {
    let mut house = House::new(1);
    let (silent, now) = (house.knock(1, b""), Instant::now());
    let half = house.knock(1, &[0; HEAD - 1]);
    assert!(house.admit_at(now).is_none());
    assert_eq!(house.door.waiting().count(), 2);
    assert!(house.door.deadline().unwrap() <= now + HEAD_TIME);
    assert!(house.admit_at(now + HEAD_TIME + Duration::from_secs(1)).is_none());
    assert_eq!((house.door.waiting().count(), house.door.deadline()), (0, None));
    assert!(heard(&silent).is_empty() && heard(&half).is_empty());
    house.told("2 data connections");
    house.told("within 5s");
    drop(house.knock(1, b"half"));
    assert!(house.admit().is_none());
    assert_eq!(house.door.waiting().count(), 0, "it has closed");
}

#[test]
fn who_fills_all_places_displaces_itself() {
    let mut house = House::new(1);
    let stays = house.knock(7, b"");
    let (head, _) = house.key.head().unwrap();
    let strangers: Vec<_> = (0..MOST_WAITING + 9).map(|_| house.knock(8, b"")).collect();
    assert_eq!(house.door.waiting().count(), MOST_WAITING);
    // Those before the last 63 are gone, and who came from elsewhere is not.
    assert!(strangers[..10].iter().all(|gone| heard(gone).is_empty()));
    house.told("(up to 64) wait to be let in");
    (&stays).write_all(&head).unwrap();
    let near = house.admit().unwrap();
    assert_eq!(near.peer_addr().unwrap(), stays.local_addr().unwrap());
}
