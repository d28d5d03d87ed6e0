//! Programs that are started, listened to and, when their time is up, killed by their own id.
//!
//! perftest spins for ever when its peer dies, so nothing here is waited for without a limit, and
//! every program ends with us, however we end.

use std::{
    ffi::OsStr,
    io::{BufRead, BufReader, Read},
    process::{Child, Command, Stdio},
    sync::mpsc::{self, Receiver, RecvTimeoutError, Sender},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, anyhow, bail};

/// A program that runs.
#[derive(Debug)]
pub struct Running {
    name: String,
    child: Child,
    said: Receiver<Said>,
    output: String,
    errors: String,
}

#[derive(Debug)]
enum Said {
    Output(String),
    Error(String),
}

impl Running {
    /// Starts `program`, on processor `cpu` alone if one is given.
    ///
    /// # Errors
    /// It cannot be started. That there is no such program shows when it is waited for.
    pub fn start<S: AsRef<OsStr>>(
        program: &str,
        cpu: Option<u32>,
        arguments: impl IntoIterator<Item = S>,
    ) -> Result<Self> {
        let mut command = Command::new("setpriv");
        command.args(["--pdeathsig", "KILL"]);
        if let Some(cpu) = cpu {
            command.args(["taskset", "--cpu-list", &cpu.to_string()]);
        }
        command
            .arg(program)
            .args(arguments)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut child = command.spawn().with_context(|| format!("cannot start {program}"))?;
        let (sender, said) = mpsc::channel();
        if let Some(output) = child.stdout.take() {
            listen(output, Said::Output, sender.clone());
        }
        if let Some(errors) = child.stderr.take() {
            listen(errors, Said::Error, sender);
        }
        let (output, errors) = (String::new(), String::new());
        Ok(Self { name: program.to_owned(), child, said, output, errors })
    }

    /// As [`start`](Self::start), in the network namespace `netns` if one is given.
    ///
    /// # Errors
    /// As [`start`](Self::start).
    pub fn start_within<S: AsRef<OsStr>>(
        netns: Option<&str>,
        program: &str,
        cpu: Option<u32>,
        arguments: impl IntoIterator<Item = S>,
    ) -> Result<Self> {
        let Some(netns) = netns else { return Self::start(program, cpu, arguments) };
        let before = ["netns", "exec", netns, program].map(|word| OsStr::new(word).to_owned());
        let arguments = arguments.into_iter().map(|word| word.as_ref().to_owned());
        Self::start("ip", cpu, before.into_iter().chain(arguments))
    }

    /// The first line it writes to standard output.
    ///
    /// # Errors
    /// It ended before, or did not write one within `limit`.
    pub fn first_line(&mut self, limit: Duration) -> Result<String> {
        let deadline = Instant::now() + limit;
        loop {
            match self.hear(deadline) {
                Ok(()) => {}
                Err(RecvTimeoutError::Timeout) => bail!("{} said nothing for {limit:?}", self.name),
                Err(RecvTimeoutError::Disconnected) => return Err(self.ended_early()),
            }
            if let Some((line, _)) = self.output.split_once('\n') {
                return Ok(line.to_owned());
            }
        }
    }

    /// Whether it has ended. A program that has shows why when it is waited for.
    pub fn has_ended(&mut self) -> bool {
        !matches!(self.child.try_wait(), Ok(None))
    }

    /// Waits for its end and returns its standard output; kills it if that takes longer than
    /// `limit`.
    ///
    /// # Errors
    /// It took too long, or its exit status is not 0.
    pub fn wait(mut self, limit: Duration) -> Result<String> {
        self.wait_for_status(limit)?;
        if self.child.wait().is_ok_and(|status| status.success()) {
            return Ok(std::mem::take(&mut self.output));
        }
        Err(self.ended_early())
    }

    /// As [`wait`](Self::wait), for a program that says on standard output what went wrong:
    /// whatever its exit status, `read` decides.
    ///
    /// # Errors
    /// It took too long; or `read` fails, and the error has what the program said.
    pub fn wait_and_read<T>(
        mut self,
        limit: Duration,
        read: impl FnOnce(&str) -> Result<T>,
    ) -> Result<T> {
        self.wait_for_status(limit)?;
        match read(&self.output) {
            Ok(read) => Ok(read),
            Err(error) if self.errors.trim().is_empty() => Err(error.context(self.name.clone())),
            Err(error) => Err(error.context(format!("{}: {}", self.name, one_line(&self.errors)))),
        }
    }

    fn wait_for_status(&mut self, limit: Duration) -> Result<()> {
        let deadline = Instant::now() + limit;
        // Its output ends when it ends: no waking up meanwhile, which would disturb what it times.
        while let Ok(()) = self.hear(deadline) {}
        // It may have closed its output and go on.
        while !self.has_ended() {
            if Instant::now() >= deadline {
                bail!("{} did not end within {limit:?}{}", self.name, self.last_words());
            }
            thread::sleep(Duration::from_millis(5));
        }
        Ok(())
    }

    fn hear(&mut self, deadline: Instant) -> Result<(), RecvTimeoutError> {
        match self.said.recv_timeout(deadline.saturating_duration_since(Instant::now()))? {
            Said::Output(line) => self.output.push_str(&line),
            Said::Error(line) => self.errors.push_str(&line),
        }
        Ok(())
    }

    /// The error of a program that ended where it should not have.
    pub fn ended_early(&mut self) -> anyhow::Error {
        let soon = Instant::now() + Duration::from_secs(1);
        while let Ok(()) = self.hear(soon) {}
        // Its output ends a moment before it has a status.
        while !self.has_ended() && Instant::now() < soon {
            thread::sleep(Duration::from_millis(5));
        }
        let how = match self.child.try_wait() {
            Ok(Some(status)) => status.to_string(),
            _ => "no exit status".to_owned(),
        };
        anyhow!("{} ended with {how}{}", self.name, self.last_words())
    }

    fn last_words(&self) -> String {
        let words = [self.errors.as_str(), self.output.as_str()]
            .into_iter()
            .map(one_line)
            .find(|words| !words.is_empty());
        words.map_or_else(String::new, |words| format!("; it said: {words}"))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // It has been waited for, or it is of no more use. A child not waited for keeps its id.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn listen(stream: impl Read + Send + 'static, as_said: fn(String) -> Said, sender: Sender<Said>) {
    thread::spawn(move || {
        let mut stream = BufReader::new(stream);
        let mut line = Vec::new();
        while stream.read_until(b'\n', &mut line).is_ok_and(|length| length > 0) {
            let text = String::from_utf8_lossy(&line).into_owned();
            if sender.send(as_said(text)).is_err() {
                return;
            }
            line.clear();
        }
    });
}

/// The last three lines with text, in one.
fn one_line(text: &str) -> String {
    let mut lines: Vec<&str> =
        text.lines().rev().map(str::trim).filter(|line| !line.is_empty()).take(3).collect();
    lines.reverse();
    lines.join("; ")
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONG: Duration = Duration::from_secs(60);

    fn shell(script: &str) -> Running {
        Running::start("sh", None, ["-c", script]).unwrap()
    }

    #[test]
    fn output_and_success() {
        assert_eq!(shell("echo one; echo two").wait(LONG).unwrap(), "one\ntwo\n");
    }

    #[test]
    fn a_failure_shows_the_status_and_what_was_said() {
        let error = shell("echo so; echo why >&2; exit 3").wait(LONG).unwrap_err().to_string();
        assert_eq!(error, "sh ended with exit status: 3; it said: why");
        let missing = Running::start("no-such-program", Some(0), [""; 0]).unwrap();
        let error = missing.wait(LONG).unwrap_err().to_string();
        assert!(error.contains("no-such-program") && error.contains("127"), "{error}");
    }

    #[test]
    fn a_program_that_does_not_end_is_killed() {
        let mut running = shell("echo spinning >&2; echo $$; exec sleep 1000");
        let pid = running.first_line(LONG).unwrap();
        let began = Instant::now();
        let error = running.wait(Duration::from_millis(300)).unwrap_err().to_string();
        assert!(error.contains("did not end within 300ms; it said: spinning"), "{error}");
        assert!(began.elapsed() < LONG);
        assert!(!std::path::Path::new("/proc").join(pid).exists(), "it is gone");
    }

    #[test]
    fn closing_its_output_is_not_the_end_of_a_program() {
        let error = shell("exec >&- 2>&-; exec sleep 1000").wait(Duration::from_millis(50));
        assert!(error.unwrap_err().to_string().contains("did not end"));
        assert_eq!(shell("exec >&- 2>&-; sleep 0.05").wait(LONG).unwrap(), "");
    }

    #[test]
    fn the_first_line_comes_while_it_runs_or_not_at_all() {
        assert_eq!(shell("echo ready; exec sleep 1000").first_line(LONG).unwrap(), "ready");
        let error = shell("echo no >&2; exit 1").first_line(LONG).unwrap_err().to_string();
        assert_eq!(error, "sh ended with exit status: 1; it said: no");
        let silent = shell("exec sleep 1000").first_line(Duration::from_millis(50));
        assert!(silent.unwrap_err().to_string().contains("said nothing"));
    }

    #[test]
    fn a_reader_decides_whatever_the_status() {
        let read = |text: &str| Ok(text.trim().parse::<u32>()?);
        assert_eq!(shell("echo 7; exit 3").wait_and_read(LONG, read).unwrap(), 7);
        let error = shell("echo seven; echo why >&2").wait_and_read(LONG, read).unwrap_err();
        assert!(format!("{error:#}").starts_with("sh: why: invalid digit"), "{error:#}");
    }
}
