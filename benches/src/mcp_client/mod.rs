//! The MCP client: a tool call against the same call with the bare SDK, and the time to a run's first step when servers
//! do not respond.

mod calls;

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::floor::dir;
use crate::measure::{Effort, Failure, Times, program, report};

/// Time limit for the first step of a run, whatever its servers do.
const FIRST_STEP: Duration = Duration::from_millis(100);
/// Number of servers that do not respond.
const SILENT: usize = 10;

pub(crate) fn run(effort: Effort) -> Result<(), Failure> {
    println!("mcp-client");
    let tokio = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    tokio.block_on(calls::run(effort))?;
    first_step(effort)
}

/// Measures from the start of `rkat run` to its first step: with servers that never respond, and without any.
fn first_step(effort: Effort) -> Result<(), Failure> {
    let (silent, none) = (dir()?, dir()?);
    std::fs::create_dir_all(silent.path().join(".rkat"))?;
    let mut file = std::fs::File::create(silent.path().join(".rkat/mcp.toml"))?;
    for number in 0..SILENT {
        writeln!(file, "[[servers]]\nname = \"s{number}\"\ncommand = \"sleep\"\nargs = [\"60\"]")?;
    }
    let (mut with, mut without) = (Times::default(), Times::default());
    for _ in 0..effort.rounds(30) {
        with.push(until_step(silent.path())?);
        without.push(until_step(none.path())?);
    }
    let median = with.median();
    let result = format!("{median:?} (without any: {:?})", without.median());
    report(&format!("rkat run to its first step, {SILENT} silent servers (target {FIRST_STEP:?})"), &result);
    if median > FIRST_STEP && effort == Effort::Full {
        return Err(format!("the first step comes after {median:?}").into());
    }
    Ok(())
}

fn until_step(home: &Path) -> Result<Duration, Failure> {
    let mut command = Command::new(program("rkat")?);
    command.args(["run", "--verbose", "-m", "offline", "say hello"]).env("HOME", home).current_dir(home);
    command.env("XDG_DATA_HOME", home.join("data"));
    let begin = Instant::now();
    let mut run = Run(command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped()).spawn()?);
    let lines = BufReader::new(run.0.stderr.take().ok_or("no stderr")?).lines();
    for line in lines {
        if line?.contains("\"turn_started\"") {
            return Ok(begin.elapsed());
        }
    }
    Err("the run took no step".into())
}

/// A running `rkat run`, which is killed on drop; its child processes end with it.
struct Run(Child);

impl Drop for Run {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
