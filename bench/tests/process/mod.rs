//! The `fabricbench` command as users run it: the real program in a process of its own, bounded in
//! time, and ended by its number whatever becomes of the test.

#![allow(dead_code, reason = "each of several test programs uses a part of it")]

use std::{
    io::Read,
    net::SocketAddr,
    process::{Child, Command, Stdio},
    sync::{Arc, Condvar, Mutex},
    thread,
    time::{Duration, Instant},
};

use rustix::process::{Pid, Signal, kill_process};

/// Against hanging: nothing that is waited for here takes so long unless it is stuck.
pub const PATIENCE: Duration = Duration::from_secs(120);

/// The token of all servers and clients here that know none of their own.
pub const TOKEN: &str = "of-the-tests-0123456789";

/// What one side of a conversation made anew, as those say it here that do not keep to its being new.
pub const NONCE: &str = "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=";

/// `fabricbench` with arguments as a shell splits them at spaces.
pub fn fabricbench(arguments: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_fabricbench"));
    command.args(arguments.split_whitespace());
    command
}

/// Runs to the end.
pub fn run(arguments: &str) -> Finished {
    Running::start(&mut fabricbench(arguments)).end()
}

/// How a process ended and what it said.
#[derive(Debug)]
pub struct Finished {
    /// Its exit code; `None` if a signal ended it.
    pub code: Option<i32>,
    pub stdout: String,
    pub stderr: String,
    /// Since it was started.
    pub took: Duration,
}

impl Finished {
    /// Asserts the exit code and that nothing went to standard error, but for the line that another
    /// client, whose loss the server has yet to notice, is served before, and for those that messages
    /// take longer than was planned: in the guest, and on a busy host, they do.
    #[track_caller]
    pub fn quietly(self, code: i32) -> Self {
        let expected = |line: &str| {
            line.starts_with("the server is busy: ") || line.contains("that a median needs")
        };
        let complaints: Vec<_> = self.stderr.lines().filter(|line| !expected(line)).collect();
        assert_eq!((self.code, &complaints[..]), (Some(code), &[][..]), "{}", self.stdout);
        self
    }

    /// Asserts that it failed with `code` and one line on standard error that has all of `words`.
    #[track_caller]
    pub fn failed(self, code: i32, words: &[&str]) -> Self {
        assert_eq!(self.code, Some(code), "{self:?}");
        self.one_line(words)
    }

    /// Asserts that standard error is one line of ours that has all of `words`.
    #[track_caller]
    pub fn one_line(self, words: &[&str]) -> Self {
        let line = self.stderr.strip_suffix('\n').unwrap_or_default();
        assert!(line.starts_with("fabricbench: ") && !line.contains('\n'), "{:?}", self.stderr);
        assert!(line.len() < 600, "{} characters: {line}", line.len());
        for word in words {
            assert!(line.contains(word), "no `{word}` in: {line}");
        }
        self
    }
}

/// What a stream has brought so far.
#[derive(Debug, Clone, Default)]
struct Gathered(Arc<(Mutex<Stream>, Condvar)>);

#[derive(Debug, Default)]
struct Stream {
    bytes: Vec<u8>,
    ended: bool,
}

impl Gathered {
    fn nothing() -> Self {
        let stream = Stream { ended: true, ..Stream::default() };
        Self(Arc::new((Mutex::new(stream), Condvar::new())))
    }

    fn from(mut stream: impl Read + Send + 'static) -> Self {
        let gathered = Self::default();
        let to = gathered.clone();
        thread::spawn(move || {
            let mut buffer = [0; 4096];
            loop {
                let got = stream.read(&mut buffer).unwrap_or(0);
                let mut gathered = to.0.0.lock().unwrap();
                gathered.bytes.extend_from_slice(&buffer[..got]);
                gathered.ended = got == 0;
                to.0.1.notify_all();
                if got == 0 {
                    return;
                }
            }
        });
        gathered
    }

    /// Waits until `found` finds something in the text so far, or the stream ends.
    fn until<T>(&self, found: impl Fn(&str) -> Option<T>) -> Result<T, String> {
        let deadline = Instant::now() + PATIENCE;
        let mut stream = self.0.0.lock().unwrap();
        loop {
            let text = String::from_utf8_lossy(&stream.bytes);
            if let Some(found) = found(&text) {
                return Ok(found);
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if stream.ended || left.is_zero() {
                return Err(text.into_owned());
            }
            stream = self.0.1.wait_timeout(stream, left).unwrap().0;
        }
    }

    fn all(&self) -> String {
        let _ = self.until(|_| None::<()>);
        String::from_utf8_lossy(&self.0.0.lock().unwrap().bytes).into_owned()
    }
}

/// A process at work; killed when dropped.
#[derive(Debug)]
pub struct Running {
    child: Child,
    stdout: Gathered,
    stderr: Gathered,
    since: Instant,
}

impl Running {
    #[track_caller]
    pub fn start(command: &mut Command) -> Self {
        Self::with_stderr(command, Stdio::piped())
    }

    #[track_caller]
    fn with_stderr(command: &mut Command, stderr: Stdio) -> Self {
        let since = Instant::now();
        for (variable, value) in [("FABRICBENCH_TOKEN", TOKEN), ("XDG_CONFIG_HOME", "/nonexistent")]
        {
            if command.get_envs().all(|(name, _)| name != variable) {
                command.env(variable, value);
            }
        }
        let mut child = command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(stderr)
            .spawn()
            .unwrap_or_else(|error| panic!("{command:?}: {error}"));
        // Else the caller's end of a pipe stays open in the command.
        command.stderr(Stdio::null());
        let stdout = Gathered::from(child.stdout.take().unwrap());
        let stderr = child.stderr.take().map_or_else(Gathered::nothing, Gathered::from);
        Self { child, stdout, stderr, since }
    }

    pub fn id(&self) -> u32 {
        self.child.id()
    }

    pub fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    /// Waits until `found` finds something in what standard error has brought so far.
    #[track_caller]
    pub fn says<T>(&self, found: impl Fn(&str) -> Option<T>) -> T {
        self.stderr.until(found).unwrap_or_else(|text| panic!("standard error was:\n{text}"))
    }

    /// Waits until `found` finds something in what standard output has brought so far.
    #[track_caller]
    pub fn prints<T>(&self, found: impl Fn(&str) -> Option<T>) -> T {
        self.stdout.until(found).unwrap_or_else(|text| panic!("standard output was:\n{text}"))
    }

    /// Waits until standard error has brought `word`.
    #[track_caller]
    pub fn says_word(&self, word: &str) {
        self.says(|text| text.contains(word).then_some(()));
    }

    /// Whether it has not ended yet.
    pub fn is_running(&mut self) -> bool {
        self.child.try_wait().unwrap().is_none()
    }

    #[track_caller]
    pub fn end(self) -> Finished {
        self.end_within(PATIENCE)
    }

    /// Waits for its end, `most` from now at the most.
    #[track_caller]
    pub fn end_within(mut self, most: Duration) -> Finished {
        let deadline = Instant::now() + most;
        while self.is_running() {
            if Instant::now() >= deadline {
                let _ = self.child.kill();
                panic!("still running after {most:?}; standard error:\n{}", self.stderr.all());
            }
            thread::sleep(Duration::from_millis(5));
        }
        Finished {
            code: self.child.wait().unwrap().code(),
            stdout: self.stdout.all(),
            stderr: self.stderr.all(),
            took: self.since.elapsed(),
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// `fabricbench serve` on a port of its own.
#[derive(Debug)]
pub struct Server {
    pub process: Running,
    pub address: SocketAddr,
    /// An option that its clients need.
    of_clients: &'static str,
}

impl Server {
    /// On IPv4 loopback.
    #[track_caller]
    pub fn start() -> Self {
        Self::with("--listen 127.0.0.1")
    }

    /// On IPv4 loopback, for whoever comes.
    #[track_caller]
    pub fn open() -> Self {
        Self::open_by(&mut fabricbench("serve --port 0 --listen 127.0.0.1 --insecure"))
    }

    /// By a command that ends in `fabricbench serve --insecure`.
    #[track_caller]
    pub fn open_by(command: &mut Command) -> Self {
        Self { of_clients: "--insecure", ..Self::by(command) }
    }

    #[track_caller]
    pub fn with(options: &str) -> Self {
        Self::by(&mut fabricbench(&format!("serve --port 0 {options}")))
    }

    /// By a command that ends in `fabricbench serve`.
    #[track_caller]
    pub fn by(command: &mut Command) -> Self {
        Self::greeted(Running::start(command))
    }

    /// As [`by`](Self::by), with a standard error that nobody reads any longer.
    #[track_caller]
    pub fn unread(command: &mut Command) -> Self {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        Self::greeted(Running::with_stderr(command, writer.into()))
    }

    #[track_caller]
    fn greeted(process: Running) -> Self {
        let line = process.stdout.until(|text| text.lines().next().map(str::to_owned));
        let address = line.as_ref().ok().and_then(|line| line.rsplit(' ').next()?.parse().ok());
        match address {
            Some(address) => Self { process, address, of_clients: "" },
            None => panic!("no address in {line:?}; standard error: {}", process.stderr.all()),
        }
    }

    /// A client of this server with `options`.
    pub fn client(&self, options: &str) -> Command {
        fabricbench(&format!("run {} {} {options}", self.address, self.of_clients))
    }

    /// Runs a client to its end.
    #[track_caller]
    pub fn run(&self, options: &str) -> Finished {
        Running::start(&mut self.client(options)).end()
    }

    /// Asserts that it serves another client, in `within` at the most.
    #[track_caller]
    pub fn serves_within(&self, within: Duration) {
        let client = Running::start(&mut self.client("--transport tcp@loopback -s 8 -n 1"));
        client.end_within(within).quietly(0);
    }

    /// Asserts that it still serves.
    #[track_caller]
    pub fn serves(&self) {
        self.serves_within(PATIENCE);
    }
}
