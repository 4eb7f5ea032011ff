//! The examples for embedders: each runs and prints what it promises.

use std::path::Path;
use std::process::Command;

use crate::error::Error;
use crate::process::run_tapped;

/// The name of each example, and what it prints with the offline model.
const EXAMPLES: [(&str, &str); 5] = [
    ("hello", "offline: hello"),
    (
        "tools",
        "divide → 7\ndivide failed → {\"error\":\"execution_failed\",\"message\":\"the divisor must not be 0\"}",
    ),
    ("streaming", "one word after the other\n76 tokens"),
    ("structured_output", "Accept with 0 bugs"),
    ("resume", "I am back after 4 messages"),
];

/// Runs the examples, which are built with the tests.
pub(crate) fn run() -> Result<(), Error> {
    let own = std::env::current_exe().map_err(Error::file(Path::new("xtask")))?;
    EXAMPLES.iter().try_for_each(|(name, expected)| {
        let program = own.with_file_name("examples").join(name);
        let mut command = Command::new(program.with_extension(std::env::consts::EXE_EXTENSION));
        // Without keys, the offline model answers.
        for name in ["ANTHROPIC_API_KEY", "OPENAI_API_KEY", "GEMINI_API_KEY", "GOOGLE_API_KEY"] {
            command.env_remove(name).env_remove(format!("RKAT_{name}"));
        }
        let mut printed = Vec::new();
        run_tapped(&mut command, |line| printed.push(line.to_owned()))?;
        let printed = printed.join("\n");
        if printed == *expected { Ok(()) } else { Err(Error::Example { name, printed }) }
    })
}
