//! A program that can be the supervisor of commands, for the tests and benchmarks of this crate.
//!
//! `shell_host run DIR COMMAND` starts a command as a job in DIR, prints a line, and waits to be killed.

use std::path::PathBuf;
use std::process::ExitCode;

fn main() -> ExitCode {
    if let Some(code) = meerkat_process::supervise(std::env::args_os()) {
        return code;
    }
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [mode, dir, command] = &arguments[..] else { return ExitCode::FAILURE };
    if mode != "run" {
        return ExitCode::FAILURE;
    }
    match start_and_wait(dir.into(), command) {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::FAILURE,
    }
}

fn start_and_wait(dir: PathBuf, command: &str) -> std::io::Result<()> {
    use std::io::Write as _;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let program = std::env::current_exe()?;
        let supervision = meerkat_process::Supervision {
            input: meerkat_process::Input::Nothing,
            ending: meerkat_process::ShutdownMode::Prompt,
            confinement: None,
        };
        let mut child = tokio::process::Command::new(program);
        child.args(supervision.arguments("/bin/sh".as_ref())).args(["-c", command]).current_dir(dir);
        let mut child = child.stdin(std::process::Stdio::piped()).spawn()?;
        let mut stdout = std::io::stdout().lock();
        writeln!(stdout, "started")?;
        stdout.flush()?;
        child.wait().await.map(drop)
    })
}
