//! `rkat`: run agents from the terminal.

fn main() -> std::process::ExitCode {
    rkat::main()
}
