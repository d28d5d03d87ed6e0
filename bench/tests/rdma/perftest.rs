//! The README's table for who comes from perftest, over the device.

use crate::{
    pair::{device, server},
    readme::commands,
};

#[test]
fn every_command_of_the_readme_measures() {
    let Some(_device) = device() else { return };
    let server = server();
    for options in commands() {
        let finished = server.run(options).quietly(0);
        assert!(!finished.stdout.is_empty(), "{options}");
    }
}
