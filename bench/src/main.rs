//! The `fabricbench` command.

fn main() -> std::process::ExitCode {
    fabricbench::cli::main()
}
