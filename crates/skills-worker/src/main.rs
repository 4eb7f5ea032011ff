//! `skills`: serves the registry of skills and prompts on an iii engine until a signal arrives.

use std::io::IsTerminal as _;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;
use meerkat_core::escape_text;
use meerkat_skills_worker::{DEFAULT_URL, Worker, manifest, read, target};

/// Serve skills and prompts that workers register, on an iii engine.
#[derive(Debug, Parser)]
#[command(name = "skills")]
struct Args {
    /// Path to config.yaml
    #[arg(long, value_name = "PATH", default_value = "./config.yaml")]
    config: PathBuf,
    /// WebSocket URL of the iii engine
    #[arg(long, value_name = "URL", default_value = DEFAULT_URL)]
    url: String,
    /// Output the module manifest as JSON and exit
    #[arg(long)]
    manifest: bool,
}

#[tokio::main]
async fn main() -> ExitCode {
    let args = Args::parse();
    if args.manifest {
        print(&format!("{:#}", manifest(&target())));
        return ExitCode::SUCCESS;
    }
    let options = read(&args.config).unwrap_or_else(|error| {
        print_error(&format!("warning: `{}`: {error}; using defaults", args.config.display()));
        meerkat_registry::Options::default()
    });
    let worker = Worker::start(&args.url, options);
    print_error(&format!("skills: connecting to the engine at {}", args.url));
    shutdown_signal().await;
    worker.stop().await;
    ExitCode::SUCCESS
}

/// Waits for a shutdown signal.
async fn shutdown_signal() {
    #[cfg(unix)]
    {
        use tokio::signal::unix::{SignalKind, signal};
        if let Ok(mut terminate) = signal(SignalKind::terminate()) {
            tokio::select! {
                _ = tokio::signal::ctrl_c() => {}
                _ = terminate.recv() => {}
            }
            return;
        }
    }
    // If signals are unavailable, only ctrl-c can stop the process.
    let _ = tokio::signal::ctrl_c().await;
}

#[expect(clippy::print_stdout, reason = "the manifest is the output")]
fn print(text: &str) {
    println!("{text}");
}

#[expect(clippy::print_stderr, reason = "diagnostics go to stderr")]
fn print_error(text: &str) {
    // Text from a file or an engine must not contain terminal control sequences.
    let text = if std::io::stderr().is_terminal() { escape_text(text) } else { text.into() };
    eprintln!("{text}");
}
