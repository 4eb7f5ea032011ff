//! Fuzzing: `cargo xtask fuzz [TARGET] [--seconds N] [--seed N] [--input FILE]`.
//!
//! Each target is one file in `targets` and one line in its table. A finding is written to a file under `target/fuzz`,
//! which `--input` runs again. The same seed produces the same inputs in the same order. An input with many brackets is
//! written before it runs, since after a stack overflow it is too late.

#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a fuzzer prints what it found")]

mod engine;
mod mutate;
mod random;
mod targets;
mod watch;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use engine::{Plan, Target};
use targets::TARGETS;

/// Parsed command line.
#[derive(Debug, PartialEq, Eq)]
struct Arguments {
    target: Option<String>,
    seconds: u64,
    seed: u64,
    input: Option<PathBuf>,
}

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let outcome = Arguments::read(&words).and_then(|arguments| run(&arguments));
    match outcome {
        Ok(0) => ExitCode::SUCCESS,
        Ok(findings) => {
            eprintln!("{findings} findings");
            ExitCode::FAILURE
        }
        Err(problem) => {
            eprintln!("error: {problem}");
            ExitCode::from(2)
        }
    }
}

impl Arguments {
    fn read(words: &[String]) -> Result<Self, String> {
        let mut arguments = Self { target: None, seconds: 60, seed: 1, input: None };
        let mut words = words.iter();
        while let Some(word) = words.next() {
            let mut value = || words.next().ok_or_else(|| format!("`{word}` needs a value"));
            let number = |text: &String| text.parse().map_err(|_| format!("`{text}` is not a number"));
            match word.as_str() {
                "--seconds" => arguments.seconds = number(value()?)?,
                "--seed" => arguments.seed = number(value()?)?,
                "--input" => arguments.input = Some(value()?.into()),
                flag if flag.starts_with('-') => return Err(format!("unknown option `{flag}`")),
                name => arguments.target = Some(name.to_owned()),
            }
        }
        Ok(arguments)
    }
}

/// Runs the requested targets and returns the number of findings.
fn run(arguments: &Arguments) -> Result<usize, String> {
    let chosen: Vec<&'static Target> = match &arguments.target {
        None => TARGETS.iter().collect(),
        Some(name) => TARGETS.iter().filter(|target| target.name == *name).collect(),
    };
    if chosen.is_empty() {
        let names: Vec<_> = TARGETS.iter().map(|target| target.name).collect();
        return Err(format!("unknown target; expected one of {}", names.join(", ")));
    }
    engine::quiet_panics();
    match (&arguments.input, chosen.as_slice()) {
        (Some(path), [target]) => {
            let input = std::fs::read(path).map_err(|error| format!("{}: {error}", path.display()))?;
            Ok(engine::replay(target, &input))
        }
        (Some(_), _) => Err("`--input` requires a target".to_owned()),
        (None, chosen) => {
            let plan = Plan { seed: arguments.seed, time: Duration::from_secs(arguments.seconds) };
            chosen.iter().map(|target| engine::fuzz(target, &plan)).sum()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Arguments;

    fn read(line: &str) -> Result<Arguments, String> {
        Arguments::read(&line.split_whitespace().map(str::to_owned).collect::<Vec<_>>())
    }

    #[test]
    fn command_line_is_parsed() {
        let expected =
            Arguments { target: Some("sse".to_owned()), seconds: 5, seed: 7, input: Some("file".into()) };
        assert_eq!(read("sse --seconds 5 --input file --seed 7"), Ok(expected));
        assert_eq!(read(""), Ok(Arguments { target: None, seconds: 60, seed: 1, input: None }));
        assert_eq!(read("--seconds"), Err("`--seconds` needs a value".to_owned()));
        assert_eq!(read("--seed x"), Err("`x` is not a number".to_owned()));
        assert_eq!(read("--fast"), Err("unknown option `--fast`".to_owned()));
    }
}
