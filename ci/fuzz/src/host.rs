//! What the kernel writes in files: `/sys` and `/proc` with anything in them.

use std::{fs, path::Path};

use fabricbench::doctor::{Evidence, SeenDevice, SeenPort, Tree, examine, text};
use fabricbench_ipoib::{TcpBuffers, setups_below, tcp_buffers};
use fabricbench_verbs::{Counters, Sysfs};

/// Name and function of each target.
pub const TARGETS: &[(&str, fn(&[u8]))] = &[("host", host)];

/// The most files of a tree.
const MOST_FILES: usize = 64;

/// Lines `= PATH`, each with what is in that file behind it.
fn host(input: &[u8]) {
    let root = std::env::temp_dir().join(format!("fabricbench-fuzz.{}", std::process::id()));
    let _ = fs::remove_dir_all(&root);
    let input = String::from_utf8_lossy(input);
    for file in input.split("\n= ").take(MOST_FILES) {
        let (path, content) = file.split_once('\n').unwrap_or((file, ""));
        put(&root, path.trim_start_matches("= "), content);
    }
    read(&root);
    let _ = fs::remove_dir_all(&root);
}

/// Only below `root`: a path that leads out of it is none.
fn put(root: &Path, path: &str, content: &str) {
    let is_plain =
        |part: &str| !part.is_empty() && part != "." && part != ".." && !part.contains('\0');
    if path.len() > 200 || !path.split('/').all(is_plain) {
        return;
    }
    let path = root.join(path);
    if let Some(folder) = path.parent()
        && fs::create_dir_all(folder).is_ok()
    {
        let _ = fs::write(path, content);
    }
}

fn read(root: &Path) {
    let sysfs = Sysfs::at(root.join("sys"));
    let port = SeenPort {
        number: 1,
        emulated: false,
        active_mtu: Some(1024),
        max_mtu: Some(4096),
        netdev: Some("eth1".to_owned()),
    };
    let devices = sysfs.device_names();
    for name in &devices {
        let counters = Counters::read(&sysfs, name, 1);
        let _ = (counters.since(&counters).traffic(), sysfs.numa_node(name));
    }
    for node in 0..2 {
        let _ = sysfs.node_processors(node);
    }
    let _ = (setups_below(root), tcp_buffers(root));
    let evidence = Evidence {
        tree: Tree::at(root),
        interfaces: Vec::new(),
        advice: Vec::new(),
        tcp_buffers: TcpBuffers::default(),
        virtualization: None,
        verbs: Ok(devices
            .into_iter()
            .map(|name| SeenDevice { name, ports: Ok(vec![port.clone()]) })
            .collect()),
    };
    let shown = text(&examine(&evidence));
    let is_command = |character: char| character.is_control() && character != '\n';
    assert!(!shown.contains(is_command), "what a file holds is obeyed by a terminal");
}
