//! The `fabricbench` command.

/// The C library's allocator gives large buffers back to the kernel and faults them in again for every
/// message.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> std::process::ExitCode {
    fabricbench::observe::allocates_by("mimalloc");
    fabricbench::cli::main()
}
