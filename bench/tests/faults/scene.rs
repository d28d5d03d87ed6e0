//! A client that has come so far, with what is between it and its server, and what it leaves.

use std::{
    fs::{self, File, OpenOptions},
    io::Read as _,
    net::{IpAddr, SocketAddr, TcpListener},
    os::unix::fs::OpenOptionsExt as _,
    path::PathBuf,
    process::Command,
    thread,
    time::{Duration, Instant},
};

use fabricbench_ipoib::{sockets::End, tcp_sockets};
use rustix::fs::{CWD, FileType, Mode, OFlags, fcntl_setfl, mknodat};
use tempfile::TempDir;

use crate::{
    between::Between,
    document::{Document, measured, without_figures},
    process::{Finished, PATIENCE, Running, Server},
    row::{Phase, Row},
};

/// `--timeout` of both sides.
pub const TIMEOUT: Duration = Duration::from_secs(2);

/// The bound of every step against hanging, far beyond the time-out and the 5 s of a greeting: the machine is
/// shared.
pub const BOUND: Duration = Duration::from_secs(60);

/// Bytes of the second cell that have come back once it is under way: more than its first message, which
/// may be of the warm-up.
const UNDER_WAY: u64 = 4 << 20;

/// A client under way: the first cell is measured, and of the second the phase is reached.
pub struct Scene {
    pub client: Running,
    /// Under which address the server knows it.
    pub known: SocketAddr,
    between: Between,
    output: Output,
}

/// Where the result goes.
pub enum Output {
    /// Read at the second path, which leads there for others than the client.
    File { path: PathBuf, seen_at: PathBuf, folder: TempDir },
    /// A pipe that is nearly full: a writer is held in the middle of writing.
    Pipe { reader: File, filled: usize, path: PathBuf, _folder: TempDir },
}

/// How long the second cell takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Length {
    /// Seconds.
    Endless,
    /// About one.
    Short,
}

impl Scene {
    /// A client that `start` starts with options in this thread's network namespace, its server behind
    /// `between`. Of this seed the smaller size comes first.
    pub fn new<F>(
        row: &Row<F>,
        length: Length,
        output: Output,
        between: Between,
        start: impl FnOnce(String) -> Running,
    ) -> Self {
        let path = match &output {
            Output::File { path, .. } | Output::Pipe { path, .. } => path.display(),
        };
        let options = format!(
            "run {} --transport {} --pattern latency --rounds 1 --seed 1 --cpus none --timeout {}s \
             --format json --output {path} {}",
            between.address,
            row.transport,
            TIMEOUT.as_secs(),
            loops(row, length)
        );
        let client = start(options);
        let known = between.holds();
        let scene = Self { client, known, between, output };
        match row.phase {
            Phase::WarmUp | Phase::Measuring => {
                scene.between.release();
                scene.is_under_way(row.transport);
            }
            Phase::Writing => scene.write(),
            Phase::Connecting | Phase::Agreeing | Phase::Finishing => {}
        }
        scene
    }

    /// Waits until messages have come back, as the kernel counts them on the data connection.
    fn is_under_way(&self, transport: &str) {
        let server: IpAddr = match transport.split_once('@') {
            Some((_, "loopback")) => [127, 0, 0, 1].into(),
            Some((_, "ethernet")) => [10, 77, 2, 2].into(),
            Some((_, "ipoib")) => [10, 77, 3, 2].into(),
            _ => panic!("{transport} is on no path"),
        };
        let server = SocketAddr::new(server, self.between.data_port());
        let is_under_way = || {
            let sockets = tcp_sockets(End::Remote, &[server]).unwrap();
            let came = sockets.iter().filter_map(|socket| socket.info.bytes_received);
            came.sum::<u64>() >= UNDER_WAY
        };
        let deadline = Instant::now() + PATIENCE;
        while !is_under_way() {
            assert!(Instant::now() < deadline, "no messages come back over {transport}");
            thread::sleep(Duration::from_millis(5));
        }
    }

    /// On loopback, by the command that `program` makes of options.
    pub fn local<F>(
        row: &Row<F>,
        length: Length,
        output: Output,
        server: &Server,
        program: impl FnOnce(&str) -> Command,
    ) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let between = Between::new(listener, server.address, row.phase.held());
        Self::new(row, length, output, between, |options| Running::start(&mut program(&options)))
    }

    /// Where the client found the server.
    pub fn address(&self) -> SocketAddr {
        self.between.address
    }

    /// Waits for the client's end.
    #[track_caller]
    pub fn ends(&mut self) {
        let deadline = Instant::now() + BOUND;
        while self.client.is_running() {
            assert!(Instant::now() < deadline, "the client goes on");
            thread::sleep(Duration::from_millis(5));
        }
    }

    /// Lets it write into a pipe, until a part is written; a file is written when it goes on.
    fn write(&self) {
        let Output::Pipe { reader, filled, .. } = &self.output else { return };
        self.between.release();
        let deadline = Instant::now() + PATIENCE;
        while rustix::io::ioctl_fionread(reader).unwrap() <= *filled as u64 {
            assert!(Instant::now() < deadline, "nothing is written");
            thread::sleep(Duration::from_millis(5));
        }
    }

    /// Lets what is held on the control connection go on.
    pub fn release(&self) {
        self.between.release();
    }

    /// The same, and has the result read.
    pub fn goes_on(&mut self) {
        self.between.release();
        if let Output::Pipe { reader, .. } = &self.output {
            // Blocks from now on.
            fcntl_setfl(reader, OFlags::empty()).unwrap();
        }
    }

    /// How the client ended, and what it left.
    #[track_caller]
    pub fn end(self) -> (Finished, Option<Document>) {
        let Self { client, output, .. } = self;
        let (client, text) = match output {
            Output::File { seen_at, folder: _folder, .. } => {
                let finished = client.end_within(BOUND);
                (finished, fs::read_to_string(seen_at).ok())
            }
            Output::Pipe { mut reader, filled, _folder, .. } => {
                let read = thread::spawn(move || {
                    let mut all = Vec::new();
                    reader.read_to_end(&mut all).unwrap();
                    all
                });
                let finished = client.end_within(BOUND);
                let text = read.join().unwrap().split_off(filled);
                (finished, Some(String::from_utf8(text).unwrap()))
            }
        };
        (client, text.map(|text| Document::read(&text)))
    }

    /// The last that `server` said of the client, once it has `word`.
    #[track_caller]
    pub fn said_by(&self, server: &Server, word: &str) -> String {
        said_of(server, self.known, word)
    }
}

/// The last whole line that `server` said of the end of the client at `known`, once it has `word`.
#[track_caller]
pub fn said_of(server: &Server, known: SocketAddr, word: &str) -> String {
    let known = known.to_string();
    server.process.says(|text| {
        let lines = text.rsplit_once('\n')?.0;
        let mut lines = lines.lines().filter(|line| {
            line.contains(&known) && line.contains(word) && !line.ends_with(": testing")
        });
        lines.next_back().map(str::to_owned)
    })
}

/// Sizes and counts by which the second cell is in its phase for as long as is needed.
fn loops<F>(row: &Row<F>, length: Length) -> String {
    let (size, count) = match (row.transport, length) {
        (transport, Length::Endless) if transport.starts_with("tcp") => ("1M", 8000),
        (transport, Length::Short) if transport.starts_with("tcp") => ("1M", 1500),
        (_, Length::Endless) => ("1M", 1000),
        (_, Length::Short) => ("1M", 150),
    };
    match row.phase {
        Phase::WarmUp => format!("-s 8,{size} -n 1 --warm-up {count} --warm-up-time 60s"),
        Phase::Measuring => format!("-s 8,{size} -n {count} --warm-up 1"),
        _ => "-s 8,16 -n 20".to_owned(),
    }
}

impl Output {
    pub fn file() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("result.json");
        Self::File { seen_at: path.clone(), path, folder }
    }

    /// Into a pipe where the phase is that of writing.
    pub fn of(phase: Phase) -> Self {
        match phase {
            Phase::Writing => Self::pipe(),
            _ => Self::file(),
        }
    }

    fn pipe() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("result");
        mknodat(CWD, &path, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
        let nonblocking = OFlags::NONBLOCK.bits().cast_signed();
        let open = |options: &mut OpenOptions| options.custom_flags(nonblocking).open(&path);
        let reader = open(OpenOptions::new().read(true)).unwrap();
        // Of the 64 KiB that a pipe holds, a page is left.
        let filler = vec![b' '; 60 << 10];
        let mut writer = open(OpenOptions::new().write(true)).unwrap();
        std::io::Write::write_all(&mut writer, &filler).unwrap();
        // Until the client has it open, so that the reader does not see an end.
        let filled = filler.len();
        Self::Pipe { reader, filled, path, _folder: folder }
    }
}

/// What a client leaves that was not killed.
#[track_caller]
pub fn is_kept(document: &Document, phase: Phase, status: &str, words: &[&str]) {
    let all = phase == Phase::Writing;
    assert_eq!(document.0["complete"], all, "{:?}", document.0["cells"]);
    match (phase, document.cells()) {
        (Phase::Connecting, cells) => assert!(cells.iter().all(|cell| cell["status"] == "skipped")),
        (Phase::Writing, cells) => cells.iter().for_each(measured),
        (_, [first, second]) => {
            measured(first);
            without_figures(second, status, words);
        }
        (_, cells) => panic!("{} cells", cells.len()),
    }
}

/// What a process holds: descriptors and threads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Held {
    descriptors: usize,
    threads: usize,
}

impl Held {
    fn by(process: &Running) -> Self {
        let count = |what| fs::read_dir(format!("/proc/{}/{what}", process.id())).unwrap().count();
        Self { descriptors: count("fd"), threads: count("task") }
    }

    /// By `server` with no client, once `serves` has had one served: it starts threads of its own after it
    /// has said where it listens.
    pub fn idle(server: &Server, serves: impl FnOnce()) -> Self {
        serves();
        server.process.says_word(": done");
        let (mut held, mut since) = (Self::by(&server.process), Instant::now());
        while since.elapsed() < Duration::from_millis(100) {
            thread::sleep(Duration::from_millis(10));
            let now = Self::by(&server.process);
            if now != held {
                (held, since) = (now, Instant::now());
            }
        }
        held
    }

    /// Waits until `process` holds no more than that.
    #[track_caller]
    pub fn is_back(self, process: &Running) {
        let deadline = Instant::now() + BOUND;
        let mut now = Self::by(process);
        while now.descriptors > self.descriptors || now.threads > self.threads {
            assert!(Instant::now() < deadline, "{now:?} instead of {self:?}");
            thread::sleep(Duration::from_millis(10));
            now = Self::by(process);
        }
    }
}
