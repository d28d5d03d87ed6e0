//! What memory can be registered with: pages, nodes, on demand, on the device.

use std::path::PathBuf;

use fabricbench_verbs::{
    Access, Error, MemoryOptions, MemoryRegion, NodeChoice, Operation, Pages, Placement,
    ProtectionDomain, SendRequest, Sysfs,
};

use crate::pair::{Pair, alone, device, shared};

/// Huge pages of 2 MiB, given back when it goes.
struct Reserved {
    before: String,
}

const COUNT: &str = "/proc/sys/vm/nr_hugepages";

impl Reserved {
    fn pages(count: u32) -> Self {
        let before = std::fs::read_to_string(COUNT).unwrap();
        std::fs::write(COUNT, count.to_string()).unwrap();
        let got = std::fs::read_to_string(COUNT).unwrap();
        assert_eq!(got.trim(), count.to_string(), "the kernel has no memory for huge pages");
        Self { before }
    }
}

impl Drop for Reserved {
    fn drop(&mut self) {
        std::fs::write(COUNT, self.before.trim()).unwrap();
    }
}

const HUGE: MemoryOptions = MemoryOptions {
    pages: Pages::Huge2M,
    fallback: false,
    node: NodeChoice::Any,
    on_demand: false,
};

fn register(pd: &ProtectionDomain, length: usize, options: &MemoryOptions) -> MemoryRegion {
    pd.register_with(length, Access::REMOTE_WRITE, options).unwrap()
}

/// Writes `length` bytes from one region to another and compares every one.
fn transfer(pair: &mut Pair, source: &MemoryRegion, target: &MemoryRegion, length: usize) {
    let bytes: Vec<u8> = (0..length).map(|i| (i * 31 % 253) as u8).collect();
    source.copy_in(0, &bytes).unwrap();
    let from = pair.a.qp.attach(source).unwrap();
    let write = Operation::Write(target.remote().at(0));
    let request = SendRequest::new(1, write, from.range(0, u32::try_from(length).unwrap()));
    pair.a.qp.post_send(&request).unwrap();
    pair.a.done();
    let mut out = vec![0; length];
    target.copy_out(0, &mut out).unwrap();
    assert!(out == bytes, "what arrived is not what was sent");
}

#[test]
fn huge_pages_carry_a_transfer_and_are_given_back() {
    let Some(_guard) = alone() else { return };
    let _reserved = Reserved::pages(8);
    let free = || Sysfs::default().huge_pages(Pages::Huge2M).unwrap().free;
    assert_eq!(free(), 8);
    let mut pair = Pair::new();
    let pd = pair.a.qp.protection_domain();
    let length = 3 << 20;
    {
        let (source, target) = (register(&pd, length, &HUGE), register(&pd, length, &HUGE));
        assert_eq!(source.backing().pages, Pages::Huge2M);
        assert_eq!(source.addr() % (2 << 20), 0);
        assert_eq!(free(), 4, "two pages for each");
        transfer(&mut pair, &source, &target, length);
    }
    drop((pair, pd));
    assert_eq!(free(), 8);
}

#[test]
fn huge_pages_that_are_not_there_are_refused_unless_normal_ones_do() {
    let Some(_guard) = alone() else { return };
    let _reserved = Reserved::pages(1);
    let (context, _) = device();
    let pd = context.alloc_pd().unwrap();
    let length = (2 << 20) + 1;
    let error = pd.register_with(length, Access::LOCAL_WRITE, &HUGE).unwrap_err();
    let text = error.to_string();
    assert!(matches!(error, Error::HugePages { pages: Pages::Huge2M, .. }), "{text}");
    assert!(text.contains("2 needed, 1 of 1 free; as root `echo 2 > /sys/kernel/mm"), "{text}");
    // What it says to do helps.
    std::fs::write(COUNT, "2").unwrap();
    drop(register(&pd, length, &HUGE));
    std::fs::write(COUNT, "1").unwrap();
    let normal = register(&pd, length, &MemoryOptions { fallback: true, ..HUGE });
    assert_eq!(normal.backing().pages, Pages::Normal);
    let giant = MemoryOptions { pages: Pages::Huge1G, ..HUGE };
    let text = pd.register_with(1, Access::LOCAL_WRITE, &giant).unwrap_err().to_string();
    assert!(text.starts_with("cannot map 1 bytes in 1 GiB pages: "), "{text}");
}

#[test]
fn memory_is_placed_on_the_node_asked_for_and_it_says_so() {
    let Some(_guard) = shared() else { return };
    let mut pair = Pair::new();
    let pd = pair.a.qp.protection_domain();
    let on = |node| MemoryOptions { node, ..MemoryOptions::default() };
    let first = register(&pd, 1 << 20, &on(NodeChoice::Node(0)));
    assert_eq!(first.backing().placement, Placement::On(0));
    let none = register(&pd, 1 << 20, &on(NodeChoice::Node(900)));
    assert!(
        matches!(none.backing().placement, Placement::Refused { wanted: 900, .. }),
        "{}",
        none.backing()
    );
    // The interface under the device is virtual: it is on no node.
    let device = register(&pd, 1 << 20, &on(NodeChoice::Device));
    let known = Sysfs::default().numa_node(pair.a.qp.context().name());
    assert_eq!(device.backing().placement, known.map_or(Placement::UnknownNode, Placement::On));
    transfer(&mut pair, &first, &device, 1 << 20);
}

#[test]
fn what_the_device_lacks_is_refused_by_name() {
    let Some(_guard) = shared() else { return };
    let (context, _) = device();
    let pd = context.alloc_pd().unwrap();
    let limits = context.extended_limits().unwrap();
    let on_demand = MemoryOptions { on_demand: true, ..MemoryOptions::default() };
    let made = pd.register_with(4096, Access::LOCAL_WRITE, &on_demand);
    refused(made, limits.on_demand.supported, context.name(), "registration on demand (ODP)");
    let made = pd.register_device_memory(4096, Access::LOCAL_WRITE);
    refused(made, limits.device_memory > 0, context.name(), "memory on the device");
    // Soft-RoCE has neither, whatever a test of other hardware finds.
    let soft = PathBuf::from("/sys/class/infiniband").join(context.name()).join("parent").exists();
    assert!(!soft || !limits.on_demand.supported && limits.device_memory == 0, "{limits:?}");
}

fn refused(made: Result<MemoryRegion, Error>, offered: bool, device: &str, what: &str) {
    match made {
        Ok(region) => {
            assert!(offered, "{}", region.backing());
            region.copy_in(3, b"abc").unwrap();
            assert_eq!(region.load_u8(5).unwrap(), b'c');
        }
        Err(error) => {
            assert!(!offered && matches!(error, Error::Unsupported { .. }), "{error}");
            let text = error.to_string();
            assert!(text.starts_with(&format!("not supported by {device}: {what}")), "{text}");
        }
    }
}
