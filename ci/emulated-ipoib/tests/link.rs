//! The link as the kernel and its users see it. Makes network namespaces, so it needs root;
//! without, it says why it skips, and fails if FABRICBENCH_DEVICE_TESTS=1 asks for it.

#![allow(clippy::unwrap_used)] // Clippy takes only functions marked as tests for tests.

use std::fs::OpenOptions;
use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::os::unix::process::CommandExt;
use std::process::{self, Child, Command, Output, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use fabricbench_emulated_ipoib::{End, LARGEST_MTU, Link, Namespace};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

/// Against hanging: nothing here takes longer unless it is stuck.
const PATIENCE: Duration = Duration::from_secs(20);

/// Whether this machine lets tests make devices.
fn may_make_devices() -> bool {
    let reason = match Namespace::new() {
        Err(error) => error.to_string(),
        Ok(_) => match OpenOptions::new().read(true).write(true).open("/dev/net/tun") {
            Err(error) => format!("/dev/net/tun: {error}"),
            Ok(_) => return true,
        },
    };
    let demanded = std::env::var("FABRICBENCH_DEVICE_TESTS").is_ok_and(|value| value == "1");
    assert!(!demanded, "FABRICBENCH_DEVICE_TESTS=1, but {reason}");
    eprintln!("skipped: {reason}");
    false
}

/// A namespace with a name, as users make one; removed when dropped.
struct Named(String);

impl Named {
    fn new(role: &str) -> Self {
        let this = Self(format!("fabricbench-{role}-{}", process::id()));
        assert!(ip(&["netns", "add", &this.0]).status.success());
        this
    }

    /// A command of which `/sys` shows this namespace.
    fn command(&self, program: &str) -> Command {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.0, program]);
        command
    }

    fn read(&self, file: &str) -> String {
        let output = self.command("cat").arg(file).output().unwrap();
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    }

    fn interfaces(&self) -> String {
        let output = self.command("ls").arg("/sys/class/net").output().unwrap();
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    }
}

impl Drop for Named {
    fn drop(&mut self) {
        let _ = ip(&["netns", "delete", &self.0]);
    }
}

fn ip(arguments: &[&str]) -> Output {
    Command::new("ip").args(arguments).output().unwrap()
}

/// The program under test, running; killed when dropped.
struct Program {
    child: Child,
}

impl Program {
    /// Starts it in `here` and waits until it says that it is ready.
    fn start(here: &Named, there: &Named, arguments: &[&str]) -> Self {
        let mut child = here
            .command(env!("CARGO_BIN_EXE_fabricbench-emulated-ipoib"))
            .args(["--name", "ib0", "--peer-netns", &there.0])
            .args(["--local-address", "10.77.3.1/24", "--peer-address", "10.77.3.2/24"])
            .args(["--local-address", "fd77::1/64", "--peer-address", "fd77::2/64"])
            .args(arguments)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut output = BufReader::new(child.stdout.take().unwrap());
        let (sender, receiver) = mpsc::channel();
        thread::spawn(move || {
            let mut line = String::new();
            let _ = output.read_line(&mut line);
            let _ = sender.send(line);
        });
        let this = Self { child };
        assert_eq!(receiver.recv_timeout(PATIENCE).unwrap(), "ready\n");
        this
    }

    fn signal(&self, signal: Signal) {
        kill(Pid::from_raw(self.child.id() as i32), signal).unwrap();
    }

    /// Its exit code and what it said on standard error.
    fn end(mut self) -> (Option<i32>, String) {
        let deadline = Instant::now() + PATIENCE;
        while self.child.try_wait().unwrap().is_none() {
            assert!(Instant::now() < deadline, "the program does not end");
            thread::sleep(Duration::from_millis(5));
        }
        let mut errors = String::new();
        self.child.stderr.take().unwrap().read_to_string(&mut errors).unwrap();
        (self.child.wait().unwrap().code(), errors)
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Sends a megabyte from `here` to `address` in `there`, and compares what arrives.
fn carries_tcp(here: &Namespace, there: &Namespace, address: &str) {
    let address: IpAddr = address.parse().unwrap();
    let sent: Vec<u8> = (0..1_000_000u32).map(|number| (number % 251) as u8).collect();
    let listener = there.within(|| TcpListener::bind((address, 0))).unwrap().unwrap();
    let to: SocketAddr = listener.local_addr().unwrap();
    let received = thread::scope(|scope| {
        scope.spawn(|| {
            let connect = || TcpStream::connect_timeout(&to, PATIENCE);
            let mut stream = here.within(connect).unwrap().unwrap();
            stream.set_write_timeout(Some(PATIENCE)).unwrap();
            stream.write_all(&sent).unwrap();
        });
        listener.set_nonblocking(true).unwrap();
        let deadline = Instant::now() + PATIENCE;
        let (mut stream, _) = loop {
            match listener.accept() {
                Ok(accepted) => break accepted,
                Err(error) => assert!(Instant::now() < deadline, "nobody connects: {error}"),
            }
            thread::sleep(Duration::from_millis(1));
        };
        stream.set_nonblocking(false).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let mut received = Vec::new();
        stream.read_to_end(&mut received).unwrap();
        received
    });
    assert!(received == sent, "{} of {} bytes, or others", received.len(), sent.len());
}

#[test]
fn both_ends_are_infiniband_and_carry_ip() {
    if !may_make_devices() {
        return;
    }
    for mtu in ["2044", "65520"] {
        let (here, there) = (Named::new("here"), Named::new("there"));
        let program = Program::start(&here, &there, &["--mtu", mtu]);
        for end in [&here, &there] {
            assert_eq!(end.read("/sys/class/net/ib0/type"), "32");
            assert_eq!(end.read("/sys/class/net/ib0/mtu"), mtu);
        }
        let (local, peer) =
            (Namespace::named(&here.0).unwrap(), Namespace::named(&there.0).unwrap());
        carries_tcp(&local, &peer, "10.77.3.2");
        carries_tcp(&peer, &local, "fd77::1");
        program.signal(Signal::SIGTERM);
        assert_eq!(program.end(), (Some(0), String::new()));
    }
}

#[test]
fn a_signal_ends_it_and_both_interfaces() {
    if !may_make_devices() {
        return;
    }
    for signal in [Signal::SIGTERM, Signal::SIGINT, Signal::SIGKILL] {
        let (here, there) = (Named::new("here"), Named::new("there"));
        let program = Program::start(&here, &there, &["--peer-name", "ib7"]);
        assert_eq!(here.interfaces(), "ib0\nlo");
        assert_eq!(there.interfaces(), "ib7\nlo");
        program.signal(signal);
        let code = program.end().0;
        assert_eq!(code, (signal != Signal::SIGKILL).then_some(0), "{signal}");
        assert_eq!(here.interfaces(), "lo", "{signal}");
        assert_eq!(there.interfaces(), "lo", "{signal}");
    }
}

#[test]
fn it_ends_when_an_interface_is_deleted() {
    if !may_make_devices() {
        return;
    }
    for deletes_peer in [false, true] {
        let (here, there) = (Named::new("here"), Named::new("there"));
        let program = Program::start(&here, &there, &[]);
        let where_ = if deletes_peer { &there } else { &here };
        assert!(ip(&["-n", &where_.0, "link", "delete", "ib0"]).status.success());
        let (code, errors) = program.end();
        assert_eq!(code, Some(1));
        assert!(errors.contains("ib0 was deleted") && errors.lines().count() == 1, "{errors}");
        assert_eq!(here.interfaces(), "lo");
        assert_eq!(there.interfaces(), "lo");
    }
}

#[test]
fn setting_an_end_down_loses_packets_and_not_the_link() {
    if !may_make_devices() {
        return;
    }
    let (here, there) = (Named::new("here"), Named::new("there"));
    let _program = Program::start(&here, &there, &[]);
    let (local, peer) = (Namespace::named(&here.0).unwrap(), Namespace::named(&there.0).unwrap());
    assert!(ip(&["-n", &there.0, "link", "set", "ib0", "down"]).status.success());
    let refused: SocketAddr = "10.77.3.2:9".parse().unwrap();
    let connect = || TcpStream::connect_timeout(&refused, Duration::from_millis(50));
    let error = local.within(connect).unwrap().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::TimedOut, "the packet was not lost: {error}");
    assert!(ip(&["-n", &there.0, "link", "set", "ib0", "up"]).status.success());
    carries_tcp(&local, &peer, "10.77.3.2");
}

#[test]
fn what_cannot_be_made_is_an_error_of_one_line() {
    if !may_make_devices() {
        return;
    }
    let (here, there) = (Named::new("here"), Named::new("there"));
    let _program = Program::start(&here, &there, &[]);
    let cases: [(&[&str], &str); 5] = [
        (&["--name", "ib0", "--peer-netns", &there.0], "an interface of that name"),
        (&["--name", "ib1", "--peer-name", "lo", "--peer-netns", &there.0], "cannot make lo"),
        (&["--name", "ib1", "--peer-netns", "fabricbench-none"], "ip netns add NAME"),
        (&["--name", "a%d", "--peer-netns", &there.0], "not an interface name"),
        (&["--name", "sixteen-letters-", "--peer-netns", &there.0], "not an interface name"),
    ];
    for (arguments, text) in cases {
        let output = here
            .command(env!("CARGO_BIN_EXE_fabricbench-emulated-ipoib"))
            .args(["--local-address", "10.77.4.1/24", "--peer-address", "10.77.4.2/24"])
            .args(arguments)
            .output()
            .unwrap();
        let errors = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(1), "{errors}");
        assert!(errors.contains(text) && errors.lines().count() == 1, "{errors}");
        assert_eq!(here.interfaces(), "ib0\nlo", "{arguments:?} left something behind");
    }
}

#[test]
fn ordinary_users_are_told_to_be_root() {
    if !may_make_devices() {
        return;
    }
    let there = Named::new("there");
    let output = Command::new(env!("CARGO_BIN_EXE_fabricbench-emulated-ipoib"))
        .args(["--name", "ib0", "--peer-netns", &there.0])
        .args(["--local-address", "10.77.3.1/24", "--peer-address", "10.77.3.2/24"])
        .uid(65_534)
        .output()
        .unwrap();
    let errors = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{errors}");
    assert!(errors.contains("as root") && errors.lines().count() == 1, "{errors}");
}

#[test]
fn a_dropped_link_is_gone() {
    if !may_make_devices() {
        return;
    }
    let (here, there) = (Namespace::new().unwrap(), Namespace::new().unwrap());
    let link = Link::up(
        &End {
            name: "ib0".to_owned(),
            namespace: Some(&here),
            addresses: vec!["10.77.3.1/24".parse().unwrap()],
        },
        &End {
            name: "ib0".to_owned(),
            namespace: Some(&there),
            addresses: vec!["10.77.3.2/24".parse().unwrap()],
        },
        LARGEST_MTU,
        |_| {},
    )
    .unwrap();
    carries_tcp(&there, &here, "10.77.3.1");
    let has_ib0 = |namespace: &Namespace| {
        let show = || ip(&["link", "show", "ib0"]).status.success();
        namespace.within(show).unwrap()
    };
    assert!(has_ib0(&here) && has_ib0(&there));
    drop(link);
    assert!(!has_ib0(&here) && !has_ib0(&there));
}
