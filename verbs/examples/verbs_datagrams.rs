//! Datagrams: one receiver, several senders, and a count of what got lost.
//!
//! ```text
//! cargo run -p fabricbench-verbs --example verbs_datagrams [DEVICE]
//! ```

use std::collections::HashMap;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use fabricbench_verbs::{
    Access, Completion, CompletionQueue, ConnectOptions, Context, GRH_BYTES, MemoryRegion,
    Operation, Port, ProtectionDomain, QueuePair, QueuePairOptions, RecvRequest, RegionId, Result,
    SendRequest, Transport, open, random_psn,
};

const SENDERS: usize = 3;
const MESSAGES: usize = 1000;
/// Bytes of a message: its number.
const LENGTH: usize = 8;
/// A receive holds the header too.
const SLOT: usize = GRH_BYTES + LENGTH;
/// Receives that are posted at a time. A datagram that finds none is lost.
const SLOTS: usize = 64;
/// Silence after which the rest is taken for lost.
const SILENCE: Duration = Duration::from_millis(500);

/// A queue pair with its memory, ready to send and to receive.
struct End {
    qp: QueuePair,
    cq: CompletionQueue,
    region: MemoryRegion,
    id: RegionId,
}

fn main() -> ExitCode {
    match run(std::env::args().nth(1).as_deref()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn end(context: &Context, pd: &ProtectionDomain, port: &Port) -> Result<End> {
    let cq = context.create_completion_queue(2 * SLOTS as u32)?;
    let transport = Transport::UnreliableDatagram;
    let options = QueuePairOptions { transport, max_inline: 64, ..QueuePairOptions::default() };
    let mut qp = pd.create_queue_pair(&cq, &cq, &options)?;
    let region = pd.register(SLOT * SLOTS, Access::LOCAL_WRITE)?;
    let id = qp.attach(&region)?;
    qp.activate(port, random_psn(), &ConnectOptions::default())?;
    Ok(End { qp, cq, region, id })
}

fn run(device: Option<&str>) -> Result<()> {
    let (context, port) = open(device, None)?;
    let gid = context.choose_gid(port.number, None)?;
    let pd = context.alloc_pd()?;
    let options = ConnectOptions::default();
    let receiver = end(&context, &pd, &port)?;
    for slot in 0..SLOTS {
        receive(&receiver, slot)?;
    }
    // Where the receiver is: between two hosts, this travels over a channel of the caller's.
    let there = receiver.qp.endpoint(&port, &gid, 0);
    let way = pd.create_address_handle(&port, &gid, &there, &options)?;
    println!("messages of {LENGTH} bytes in datagrams of at most {}", way.path_mtu());

    let mut received: HashMap<u32, usize> = HashMap::new();
    let mut senders = Vec::new();
    for _ in 0..SENDERS {
        let mut sender = end(&context, &pd, &port)?;
        let peer = sender.qp.attach_peer(&way, there.qpn, options.qkey)?;
        senders.push((sender, peer));
    }
    for number in 0..MESSAGES {
        for (sender, peer) in &senders {
            sender.region.store_u64(0, number as u64)?;
            let local = sender.id.range(0, LENGTH as u32);
            let request = SendRequest::new(0, Operation::Send, local).to(*peer).inline(true);
            sender.qp.post_send(&request)?;
            // It is on its way; that it arrives, nobody says.
            while poll(sender)?.is_none() {}
        }
        while take(&receiver, &mut received)? {}
    }
    let mut last = Instant::now();
    while last.elapsed() < SILENCE {
        if take(&receiver, &mut received)? {
            last = Instant::now();
        }
    }
    for (sender, _) in &senders {
        let number = sender.qp.number();
        let arrived = received.get(&number).copied().unwrap_or(0);
        println!("queue pair {number}: {MESSAGES} sent, {} lost", MESSAGES - arrived);
    }
    Ok(())
}

/// Posts the receive of a slot.
fn receive(end: &End, slot: usize) -> Result<()> {
    let local = end.id.range(slot * SLOT, SLOT as u32);
    Ok(end.qp.post_recv(&RecvRequest::new(slot as u64, local))?)
}

/// The next completion, if there is one.
fn poll(end: &End) -> Result<Option<Completion>> {
    let mut completions = [Completion::default()];
    let polled = end.cq.poll(&mut completions)?;
    polled.first().map(|completion| Ok(*completion.check()?)).transpose()
}

/// Takes one datagram, if one is there, and counts it for its sender.
fn take(receiver: &End, received: &mut HashMap<u32, usize>) -> Result<bool> {
    let Some(completion) = poll(receiver)? else { return Ok(false) };
    let slot = completion.id() as usize;
    // The message follows the header, as far as the datagram goes.
    let length = completion.byte_len() as usize - GRH_BYTES;
    let number = receiver.region.load_u64(slot * SLOT + GRH_BYTES)?;
    if length == LENGTH && number < MESSAGES as u64 {
        *received.entry(completion.source_queue_pair()).or_default() += 1;
    }
    receive(receiver, slot)?;
    Ok(true)
}
