//! fabricbench-verbs against a verbs library of another make, the `ibverbs` crate: the same devices
//! and GIDs, and messages that arrive. Only `tests/interop.rs` does anything; `ci/test-interop` runs
//! it in the guest.
