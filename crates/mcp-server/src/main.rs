//! `rkat-mcp`: Meerkat as an MCP server, over stdio or HTTP.

mod args;
mod env;
mod log;
mod parent;

use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use clap::Parser as _;
use meerkat::{Backend, Manifest, RealmOptions, RuntimeOptions, Unnamed};
use meerkat_mcp_server::{Host, Server, Stdio, terminated};

use crate::args::Args;
use crate::log::Log;

/// How long threads that still work are waited for: those that matter have committed by then.
const LAST_THREADS: Duration = Duration::from_millis(100);

type Failure = Box<dyn std::error::Error>;

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

fn run(args: Args) -> Result<(), Failure> {
    let listen = args.listen(env::token());
    let scope = args.scope();
    let options = scope.options(Unnamed::Isolated, &env::surroundings(), "rkat-mcp")?;
    let greeting = greeting(&options);
    let log = Log::start();
    let (warnings, runs) = (log.clone(), log.clone());
    let instance = scope.instance;
    let secrets: meerkat::SecretSource = Arc::new(env::secret);
    let runtime_options = move || RuntimeOptions {
        instance: instance.clone(),
        secrets: Some(Arc::clone(&secrets)),
        ..RuntimeOptions::default()
    };
    let host = Host::on_realm(options, runtime_options, move |warning| {
        warnings.line(&format!("warning: {warning}"))
    });
    let server = Server::new(host, move |line| runs.line(line));
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let served = runtime.block_on(async {
        match listen {
            Some(listen) => {
                let announce =
                    |address| log::write(&format!("{greeting}, listening on http://{address}/mcp"));
                Ok(server.listen(listen?, announce).await?)
            }
            None => over_stdio(&server, &greeting).await,
        }
    });
    // The reading thread may block for ever; it holds nothing that must be saved.
    runtime.shutdown_timeout(LAST_THREADS);
    log.finish();
    served
}

/// The first line on stderr.
fn greeting(options: &RealmOptions) -> String {
    // A realm that is there keeps its backend; whatever is wrong with it is told when it is opened.
    let found = Manifest::read(&options.state_root, &options.realm).map(|manifest| manifest.backend);
    let backend = found.unwrap_or_else(|_| options.backend_hint.unwrap_or(Backend::Sqlite));
    format!("rkat-mcp {}: realm `{}` ({backend})", env!("CARGO_PKG_VERSION"), options.realm)
}

async fn over_stdio(server: &Server, greeting: &str) -> Result<(), Failure> {
    let (terminated, orphaned) = (terminated(), parent::gone());
    log::write(greeting);
    let stdio = Stdio::of_process()?;
    tokio::select! {
        () = server.serve(stdio) => {}
        () = terminated => server.shutdown().await,
        () = orphaned => server.shutdown().await,
    }
    Ok(())
}
