//! `fabricbench-emulated-ipoib`: an IPoIB link without InfiniBand, for as long as it runs.

use std::io::{self, Write};
use std::process::ExitCode;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use clap::Parser;
use fabricbench_emulated_ipoib::{Address, End, Error, LARGEST_MTU, Link, Namespace, SMALLEST_MTU};
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

/// Makes a stand-in for an IPoIB link between this network namespace and another: two
/// interfaces of InfiniBand's hardware type (ARPHRD 32). Prints `ready` when both are up, and
/// carries packets until SIGTERM or SIGINT; then they are gone. Needs root.
#[derive(Parser)]
#[command(version)]
struct Arguments {
    /// Name of the interface in this namespace
    #[arg(long)]
    name: String,
    /// Its address with prefix length, such as 10.77.3.1/24 or fd00::1/64; may be repeated
    #[arg(long, required = true)]
    local_address: Vec<Address>,
    /// The other namespace, by its name under /run/netns (ip netns add NAME)
    #[arg(long)]
    peer_netns: String,
    /// Address of the interface over there; may be repeated
    #[arg(long, required = true)]
    peer_address: Vec<Address>,
    /// Name of the interface over there [default: as here]
    #[arg(long)]
    peer_name: Option<String>,
    /// MTU of both in bytes: 65520 as in IPoIB's connected mode, 2044 as in datagram mode
    #[arg(
        long,
        default_value_t = LARGEST_MTU,
        value_parser = clap::value_parser!(u32).range(i64::from(SMALLEST_MTU)..=i64::from(LARGEST_MTU))
    )]
    mtu: u32,
    /// Time that each packet is on its way, in milliseconds: a long link
    #[arg(long, value_name = "MS", default_value_t = 0,
          value_parser = clap::value_parser!(u32).range(..=10_000))]
    delay: u32,
}

fn main() -> ExitCode {
    match run(Arguments::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("fabricbench-emulated-ipoib: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Returns when a signal asks for it.
fn run(arguments: Arguments) -> Result<(), Error> {
    let (end, ended) = mpsc::channel();

    // Before the interfaces exist, so that there is no moment at which a signal leaves one.
    let mut signals = Signals::new([SIGTERM, SIGINT]).map_err(|source| Error::Start { source })?;
    let signalled = end.clone();
    thread::spawn(move || {
        if signals.forever().next().is_some() {
            let _ = signalled.send(Ok(()));
        }
    });

    let namespace = Namespace::named(&arguments.peer_netns)?;
    let local =
        End { name: arguments.name.clone(), namespace: None, addresses: arguments.local_address };
    let peer = End {
        name: arguments.peer_name.unwrap_or(arguments.name),
        namespace: Some(&namespace),
        addresses: arguments.peer_address,
    };
    let delay = Duration::from_millis(arguments.delay.into());
    let _link = Link::up_delayed(&local, &peer, arguments.mtu, delay, move |error| {
        let _ = end.send(Err(error));
    })?;

    let mut output = io::stdout().lock();
    // Nobody may be listening; the link is of use all the same.
    let _ = writeln!(output, "ready").and_then(|()| output.flush());

    // The signal thread holds a sender for as long as it waits: an end always has a reason.
    ended.recv().unwrap_or(Ok(()))
}
