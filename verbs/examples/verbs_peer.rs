//! One side of a conversation with a verbs program of another make, driven by lines on standard
//! input; `ci/interop` is the other side.
//!
//! ```text
//! verbs_peer list                what this host has
//! verbs_peer exchange [DEVICE]   send and receive over a reliable connection
//! ```
//!
//! `list` prints `device NAME`, then for each port `port DEVICE NUMBER STATE LID MTU`, with the MTU
//! in bytes, and `gid DEVICE PORT INDEX GID TYPE INTERFACE`.
//!
//! `exchange` prints `endpoint QPN LID GID`, reads the other side's in the same form, and then does
//! what each line says: `receive COUNT SIZE SEED` (prints `posted`, and `received` when all are
//! here as the other side must have sent them), `send COUNT SIZE SEED` (prints `sent`), `end`. Both
//! sides start at packet sequence number 0.

use std::error::Error;
use std::io::{BufRead, Write};
use std::process::ExitCode;
use std::str::FromStr;
use std::time::{Duration, Instant};

use fabricbench_verbs::{
    Access, Completion, CompletionQueue, ConnectOptions, Endpoint, Gid, MemoryRegion, Operation,
    QueuePair, QueuePairOptions, RecvRequest, RegionId, SendRequest, devices, open,
};

/// The largest `COUNT` times `SIZE`.
const MEMORY: usize = 4 << 20;

/// The most messages posted at once.
const DEPTH: u32 = 64;

/// An emulated machine is slow, and a hang must end.
const PATIENCE: Duration = Duration::from_secs(30);

type Outcome<T> = Result<T, Box<dyn Error>>;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let done = match arguments[..] {
        ["list"] => list(),
        ["exchange"] => exchange(None),
        ["exchange", device] => exchange(Some(device)),
        _ => Err("usage: verbs_peer list, or verbs_peer exchange [DEVICE]".into()),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("verbs_peer: {error}");
            ExitCode::FAILURE
        }
    }
}

fn list() -> Outcome<()> {
    for device in devices()? {
        let context = device.open()?;
        let name = context.name();
        println!("device {name}");
        for number in 1..=context.limits().ports {
            let port = context.port(number)?;
            let mtu = port.active_mtu.map_or(0, |mtu| mtu.bytes());
            println!("port {name} {number} {} {} {mtu}", port.state.0, port.lid);
            for entry in context.gid_table(number)? {
                let (gid, kind) = (entry.gid, entry.gid_type.0);
                let interface = entry.netdev.as_deref().unwrap_or("-");
                println!("gid {name} {number} {} {gid} {kind} {interface}", entry.index);
            }
        }
    }
    Ok(())
}

/// Says something to the other side, at once.
fn say(line: &str) -> Outcome<()> {
    let mut out = std::io::stdout().lock();
    writeln!(out, "{line}")?;
    Ok(out.flush()?)
}

/// The words of the next line; none at the end.
fn hear() -> Outcome<Vec<String>> {
    let mut line = String::new();
    std::io::stdin().lock().read_line(&mut line)?;
    Ok(line.split_whitespace().map(str::to_owned).collect())
}

/// The word at `place`, read as a `T`.
fn word<T: FromStr>(words: &[String], place: usize) -> Outcome<T> {
    let word = words.get(place).and_then(|word| word.parse().ok());
    word.ok_or_else(|| {
        format!("word {place} of `{}` is not what it must be", words.join(" ")).into()
    })
}

/// A connected queue pair with memory for its messages.
struct Side {
    qp: QueuePair,
    cq: CompletionQueue,
    region: MemoryRegion,
    id: RegionId,
}

/// Messages of one direction.
struct Messages {
    count: usize,
    size: usize,
    seed: usize,
}

impl Messages {
    fn read(words: &[String]) -> Outcome<Self> {
        let (count, size, seed) = (word(words, 1)?, word(words, 2)?, word(words, 3)?);
        if count > DEPTH as usize || size == 0 || count * size > MEMORY {
            return Err(format!("{count} messages of {size} B are too many, or too large").into());
        }
        Ok(Self { count, size, seed })
    }

    /// What message `number` holds.
    fn content(&self, number: usize) -> Vec<u8> {
        let byte = |at: usize| (self.seed + 7 * number + 31 * at + (at >> 8)) as u8;
        (0..self.size).map(byte).collect()
    }
}

fn exchange(device: Option<&str>) -> Outcome<()> {
    let (context, port) = open(device, None)?;
    let gid = context.choose_gid(port.number, None)?;
    let pd = context.alloc_pd()?;
    let cq = context.create_completion_queue(2 * DEPTH)?;
    let options =
        QueuePairOptions { send_depth: DEPTH, recv_depth: DEPTH, ..QueuePairOptions::default() };
    let mut qp = pd.create_queue_pair(&cq, &cq, &options)?;
    let region = pd.register(MEMORY, Access::LOCAL_WRITE)?;
    let id = qp.attach(&region)?;

    let here = qp.endpoint(&port, &gid, 0);
    say(&format!("endpoint {} {} {}", here.qpn, here.lid, here.gid))?;
    let words = hear()?;
    let address: std::net::Ipv6Addr = word(&words, 3)?;
    // What the line does not tell is as on this side: both use one device.
    let there =
        Endpoint { qpn: word(&words, 1)?, lid: word(&words, 2)?, gid: Gid::from(address), ..here };
    let one_at_a_time = Endpoint { responder_resources: 1, ..there };
    qp.connect(&port, &gid, &here, &one_at_a_time, &ConnectOptions::default())?;

    let side = Side { qp, cq, region, id };
    loop {
        let words = hear()?;
        match words.first().map(String::as_str) {
            Some("receive") => side.receive(&Messages::read(&words)?)?,
            Some("send") => side.send(&Messages::read(&words)?)?,
            Some("end") | None => return Ok(()),
            Some(_) => return Err(format!("what is `{}`?", words.join(" ")).into()),
        }
    }
}

impl Side {
    fn receive(&self, messages: &Messages) -> Outcome<()> {
        self.region.fill(0, messages.count * messages.size, 0)?;
        for number in 0..messages.count {
            let place = self.id.range(number * messages.size, u32::try_from(messages.size)?);
            self.qp.post_recv(&RecvRequest::new(number as u64, place))?;
        }
        say("posted")?;
        let mut content = vec![0; messages.size];
        for number in 0..messages.count {
            let done = self.completion()?;
            let (id, length) = (done.id(), done.byte_len() as usize);
            if (id, length) != (number as u64, messages.size) {
                return Err(format!("receive {id} of {length} B instead of {number}").into());
            }
            self.region.copy_out(number * messages.size, &mut content)?;
            if content != messages.content(number) {
                return Err(format!("message {number} arrived with other content").into());
            }
        }
        say("received")
    }

    fn send(&self, messages: &Messages) -> Outcome<()> {
        for number in 0..messages.count {
            self.region.copy_in(number * messages.size, &messages.content(number))?;
            let place = self.id.range(number * messages.size, u32::try_from(messages.size)?);
            self.qp.post_send(&SendRequest::new(number as u64, Operation::Send, place))?;
        }
        for _ in 0..messages.count {
            self.completion()?;
        }
        say("sent")
    }

    fn completion(&self) -> Outcome<Completion> {
        let deadline = Instant::now() + PATIENCE;
        let mut buffer = [Completion::default()];
        while Instant::now() < deadline {
            if let [completion] = self.cq.poll(&mut buffer)? {
                return Ok(*completion.check()?);
            }
        }
        Err(format!("no completion within {PATIENCE:?}").into())
    }
}
