//! The `fabricbench` command.

// The C library's allocator gives large buffers back to the kernel and faults them in again for
// every message: it alone halves gRPC's bandwidth (docs/decisions/0003-allocator.md).
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> std::process::ExitCode {
    fabricbench::cli::main()
}
