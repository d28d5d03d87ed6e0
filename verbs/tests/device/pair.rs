//! Two connected queue pairs of one device, and who may use the device now.

use std::fs::File;
use std::process::Command;
use std::time::{Duration, Instant};

use fabricbench_verbs::{
    Access, Completion, CompletionChannel, CompletionError, CompletionQueue, ConnectOptions,
    Context, Endpoint, GidChoice, Local, MemoryRegion, Operation, PeerId, Port, ProtectionDomain,
    QueuePair, QueuePairOptions, RegionId, SendRequest, Transport, open, random_psn,
};
use rustix::fs::{FlockOperation, flock};

/// Long enough for an emulated machine, short enough to notice a hang.
pub const PATIENCE: Duration = Duration::from_secs(30);

pub const REGION: usize = 64 * 1024;

/// Whether to run; says why not.
fn wanted() -> bool {
    let wanted = std::env::var_os("FABRICBENCH_DEVICE_TESTS").is_some_and(|value| value == "1");
    if !wanted {
        eprintln!("skipped: FABRICBENCH_DEVICE_TESTS=1 is not set (it needs an RDMA device)");
    }
    wanted
}

/// Leave to use the device together with other tests, if device tests are wanted.
pub fn shared() -> Option<File> {
    locked(FlockOperation::LockShared)
}

/// Leave to use the device with no other test beside: for those that change what others see, such
/// as limits, the interface, or the number of objects.
pub fn alone() -> Option<File> {
    locked(FlockOperation::LockExclusive)
}

/// A lock of a file, since tests may be threads of one process or processes of their own.
fn locked(operation: FlockOperation) -> Option<File> {
    wanted().then(|| {
        let file = File::create(std::env::temp_dir().join("fabricbench-device-tests")).unwrap();
        flock(&file, operation).unwrap();
        file
    })
}

/// The device under test.
pub fn device() -> (Context, Port) {
    open(None, None)
        .unwrap_or_else(|error| panic!("FABRICBENCH_DEVICE_TESTS=1, but no usable device: {error}"))
}

/// One end: its own queues and memory.
pub struct End {
    pub qp: QueuePair,
    pub cq: CompletionQueue,
    pub region: MemoryRegion,
    pub id: RegionId,
    /// The other end, where it is to be named.
    pub peer: Option<PeerId>,
}

impl End {
    pub fn new(context: &Context, pd: &ProtectionDomain, options: &QueuePairOptions) -> Self {
        Self::with(pd, context.create_completion_queue(256).unwrap(), options)
    }

    /// An RC end whose completions make events.
    pub fn on(channel: &CompletionChannel, pd: &ProtectionDomain) -> Self {
        let cq = pd.context().create_completion_queue_on(channel, 256).unwrap();
        Self::with(pd, cq, &OPTIONS)
    }

    fn with(pd: &ProtectionDomain, cq: CompletionQueue, options: &QueuePairOptions) -> Self {
        Self::of(pd.create_queue_pair(&cq, &cq, options).unwrap(), cq)
    }

    /// With memory for this queue pair.
    pub fn of(mut qp: QueuePair, cq: CompletionQueue) -> Self {
        let pd = qp.protection_domain();
        let access = Access::REMOTE_WRITE | Access::REMOTE_READ | Access::REMOTE_ATOMIC;
        let region = pd.register(REGION, access).unwrap();
        let id = qp.attach(&region).unwrap();
        Self { qp, cq, region, id, peer: None }
    }

    /// Makes the queue pair ready to send to `remote`.
    pub fn reach(
        &mut self,
        port: &Port,
        gid: &GidChoice,
        local: &Endpoint,
        remote: &Endpoint,
        options: &ConnectOptions,
    ) {
        if self.qp.transport().is_connected() {
            self.qp.connect(port, gid, local, remote, options).unwrap();
        } else {
            self.qp.activate(port, local.psn, options).unwrap();
            let pd = self.qp.protection_domain();
            let handle = pd.create_address_handle(port, gid, remote, options).unwrap();
            self.peer = Some(self.qp.attach_peer(&handle, remote.qpn, options.qkey).unwrap());
        }
    }

    /// A request to the other end, on any transport.
    pub fn request(&self, id: u64, operation: Operation, local: Local) -> SendRequest {
        SendRequest { peer: self.peer, ..SendRequest::new(id, operation, local) }
    }

    /// The next completion, failed or not.
    pub fn completion(&self) -> Completion {
        let mut buffer = [Completion::default()];
        let start = Instant::now();
        loop {
            if let [completion] = self.cq.poll(&mut buffer).unwrap() {
                return *completion;
            }
            assert!(start.elapsed() < PATIENCE, "no completion in {PATIENCE:?}");
        }
    }

    pub fn done(&self) -> Completion {
        *self.completion().check().unwrap()
    }

    pub fn failure(&self) -> CompletionError {
        self.completion().check().map(|done| panic!("unexpected success: {done:?}")).unwrap_err()
    }
}

pub struct Pair {
    pub a: End,
    pub b: End,
    pub port: Port,
}

pub const OPTIONS: QueuePairOptions = QueuePairOptions {
    send_depth: 64,
    recv_depth: 64,
    max_inline: 64,
    max_segments: 1,
    transport: Transport::ReliableConnection,
};

pub fn everything_allowed() -> ConnectOptions {
    let access = Access::REMOTE_WRITE | Access::REMOTE_READ | Access::REMOTE_ATOMIC;
    ConnectOptions { access, ..ConnectOptions::default() }
}

impl Pair {
    pub fn new() -> Self {
        Self::with(&everything_allowed())
    }

    pub fn with(connect: &ConnectOptions) -> Self {
        Self::on(device(), &OPTIONS, connect)
    }

    /// On a device that need not be the one under test.
    pub fn of(name: Option<&str>) -> Self {
        Self::on(open(name, None).unwrap(), &OPTIONS, &everything_allowed())
    }

    pub fn with_options(options: &QueuePairOptions) -> Self {
        Self::on(device(), options, &everything_allowed())
    }

    pub fn by(transport: Transport) -> Self {
        Self::on(device(), &QueuePairOptions { transport, ..OPTIONS }, &everything_allowed())
    }

    /// Each end on a channel of its own.
    pub fn with_events(transport: Transport) -> Self {
        let (context, port) = device();
        let pd = context.alloc_pd().unwrap();
        let end = || {
            let channel = context.create_completion_channel().unwrap();
            let cq = context.create_completion_queue_on(&channel, 256).unwrap();
            End::with(&pd, cq, &QueuePairOptions { transport, ..OPTIONS })
        };
        Self::joined(end(), end(), port, &everything_allowed())
    }

    fn on(
        (context, port): (Context, Port),
        options: &QueuePairOptions,
        connect: &ConnectOptions,
    ) -> Self {
        let pd = context.alloc_pd().unwrap();
        let end = || End::new(&context, &pd, options);
        Self::joined(end(), end(), port, connect)
    }

    /// Two ends of one device, connected.
    pub fn joined(mut a: End, mut b: End, port: Port, connect: &ConnectOptions) -> Self {
        let gid = a.qp.context().choose_gid(port.number, None).unwrap();
        let end_a = a.qp.endpoint(&port, &gid, random_psn());
        let end_b = b.qp.endpoint(&port, &gid, random_psn());
        a.reach(&port, &gid, &end_a, &end_b, connect);
        b.reach(&port, &gid, &end_b, &end_a, connect);
        Self { a, b, port }
    }
}

/// How many objects the kernel has of each kind, by its own count.
pub fn resources() -> String {
    let output = Command::new("rdma").args(["resource", "show"]).output().unwrap();
    assert!(output.status.success(), "rdma resource show (iproute2) is needed");
    String::from_utf8(output.stdout).unwrap()
}
