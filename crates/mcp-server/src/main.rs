//! `rkat-mcp`: Meerkat as an MCP server over stdio.

mod args;
mod env;
mod log;

use std::process::ExitCode;

use clap::Parser as _;
use meerkat::{Backend, Manifest, Realm, Runtime, RuntimeOptions, Unnamed};
use meerkat_mcp_server::{Host, Server, Stdio, serve};

use crate::args::Args;

fn main() -> ExitCode {
    let args = Args::parse();
    match run(args) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            log::write(&format!("error: {error}"));
            ExitCode::FAILURE
        }
    }
}

fn run(args: Args) -> Result<(), Box<dyn std::error::Error>> {
    let scope = args.scope();
    let options = scope.options(Unnamed::Isolated, &env::surroundings(), "rkat-mcp")?;
    // A realm that is there keeps its backend; whatever is wrong with it is told when it is opened.
    let found = Manifest::read(&options.state_root, &options.realm).map(|manifest| manifest.backend);
    let backend = found.unwrap_or_else(|_| options.backend_hint.unwrap_or(Backend::Sqlite));
    log::write(&format!("rkat-mcp {}: realm `{}` ({backend})", env!("CARGO_PKG_VERSION"), options.realm));
    let log = log::Log::start();
    let (warnings, last) = (log.clone(), log.clone());
    let instance = scope.instance;
    let host = Host::new(move || {
        let realm = Realm::open(options.clone())?;
        for warning in realm.warnings() {
            warnings.line(&format!("warning: {warning}"));
        }
        let secrets: meerkat::SecretSource = std::sync::Arc::new(env::secret);
        let options = RuntimeOptions {
            instance: instance.clone(),
            secrets: Some(secrets),
            ..RuntimeOptions::default()
        };
        Ok(Runtime::new(realm, options))
    });
    let server = Server::new(host, move |line| log.line(line));
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let served = runtime.block_on(async {
        tokio::select! {
            served = serve(server.clone(), Stdio::new(std::io::stdin(), std::io::stdout())) => served,
            () = terminated() => {
                server.shutdown().await;
                Ok(())
            }
        }
    });
    // The reading thread may block for ever; it holds nothing that must be saved.
    runtime.shutdown_timeout(std::time::Duration::from_millis(200));
    last.finish();
    Ok(served?)
}

/// Returns when the process is asked to end.
async fn terminated() {
    #[cfg(unix)]
    {
        use tokio::signal::unix::{SignalKind, signal};
        if let (Ok(mut terminate), Ok(mut hangup)) =
            (signal(SignalKind::terminate()), signal(SignalKind::hangup()))
        {
            tokio::select! {
                _ = tokio::signal::ctrl_c() => {}
                _ = terminate.recv() => {}
                _ = hangup.recv() => {}
            }
            return;
        }
    }
    let _ = tokio::signal::ctrl_c().await;
}
