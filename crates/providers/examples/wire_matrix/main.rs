//! Sends requests of every kind, in every wire format, to a server that checks them.
//!
//! `wire_matrix list` prints the cases, one per line. `wire_matrix run BASE_URL` sends them all. The URL of a case
//! includes its name, `BASE_URL/CASE/…`, so that the name is not part of what is checked. A case whose response
//! could not be decoded is printed with the reason, and makes the run fail.

mod history;
mod nasty;
mod single;
mod talk;
mod wires;
mod words;

use std::io::Write as _;
use std::process::ExitCode;

use meerkat_fetch::Http;

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        ["list"] => {
            let singles = single::cases().into_iter().map(|case| case.name);
            let talks = talk::talks().into_iter().flat_map(|talk| talk.names());
            print(singles.chain(talks));
            ExitCode::SUCCESS
        }
        ["run", base_url] => {
            let failures = run(base_url).await;
            let outcome = if failures.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE };
            print(failures);
            outcome
        }
        _ => {
            print(["usage: wire_matrix list | wire_matrix run BASE_URL".to_owned()]);
            ExitCode::from(2)
        }
    }
}

/// Sends everything; returns `CASE: reason` for each response that could not be decoded.
async fn run(base_url: &str) -> Vec<String> {
    let http = Http::default();
    let mut failures = Vec::new();
    for case in single::cases() {
        let model = case.wire.model(&format!("{base_url}/{}", case.name), &http);
        if let Err(failure) = model.generate(&case.request, &|_| {}).await {
            failures.push(format!("{}: {failure}", case.name));
        }
    }
    for talk in talk::talks() {
        failures.extend(talk.run(base_url, &http).await);
    }
    failures
}

fn print(lines: impl IntoIterator<Item = String>) {
    let mut out = std::io::stdout().lock();
    for line in lines {
        // A reader that disconnected has read enough.
        let _ = writeln!(out, "{line}");
    }
}
