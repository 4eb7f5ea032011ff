//! `skills`: the registry of skills and prompts on an iii engine, until a signal ends it.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;
use meerkat_skills_worker::{DEFAULT_URL, Worker, manifest, read};

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
        say(&format!("warning: `{}`: {error}; the defaults are used", args.config.display()));
        meerkat_registry::Options::default()
    });
    let worker = Worker::start(&args.url, options);
    say(&format!("skills: on the engine at {}", args.url));
    ended().await;
    worker.stop().await;
    ExitCode::SUCCESS
}

/// The platform that this was built for.
fn target() -> String {
    let environment = if cfg!(target_env = "musl") { "musl" } else { "gnu" };
    match std::env::consts::OS {
        "linux" => format!("{}-unknown-linux-{environment}", std::env::consts::ARCH),
        "macos" => format!("{}-apple-darwin", std::env::consts::ARCH),
        "windows" => format!("{}-pc-windows-msvc", std::env::consts::ARCH),
        other => format!("{}-unknown-{other}", std::env::consts::ARCH),
    }
}

/// Returns when the process is asked to end.
async fn ended() {
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
    // Where signals cannot be listened for, there is nothing to wait for either.
    let _ = tokio::signal::ctrl_c().await;
}

#[expect(clippy::print_stdout, reason = "it is the result")]
fn print(text: &str) {
    println!("{text}");
}

#[expect(clippy::print_stderr, reason = "it is a program")]
fn say(text: &str) {
    eprintln!("{text}");
}
