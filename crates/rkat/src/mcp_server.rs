//! `rkat-mcp`: Meerkat as an MCP server, over stdio or HTTP. Stdout belongs to the protocol; everything else goes to
//! stderr. Exit codes: 0 success, 1 failure, 2 invalid command line.

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use clap::Parser as _;
use meerkat::{ConfigAccess, RealmOrigin};
use meerkat_mcp_server::http::{Listen, ListenError, TokenOptions};
use meerkat_mcp_server::lifetime::{THREAD_TIMEOUT, TRACE_FLUSH_TIMEOUT};
use meerkat_mcp_server::{Server, Stdio, shutdown_signal};

use crate::args::McpServerArgs;
use crate::compose::{self, DefaultLog};
use crate::out;
use crate::parent;
use crate::scope::Surface;

type Failure = Box<dyn std::error::Error>;

/// Runs `rkat-mcp`.
#[must_use]
pub fn main() -> ExitCode {
    if let Some(code) = meerkat::supervise(std::env::args_os()) {
        return code;
    }
    let args = McpServerArgs::parse();
    out::register_secrets();
    match run(args) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            out::stderr_line(&format!("error: {error}"));
            ExitCode::FAILURE
        }
    }
}

fn run(args: McpServerArgs) -> Result<(), Failure> {
    let telemetry = compose::telemetry(
        Surface::RkatMcp,
        Arc::new(out::queue_log_line),
        DefaultLog::Warnings,
        args.log_format,
    );
    let scope = args.scope();
    let skills = compose::skills(&scope)?;
    let options = scope.options()?;
    // A new, unnamed realm is never opened again, so its token need not be stored.
    let token_dir = options.dir().filter(|_| options.origin != RealmOrigin::Generated);
    let listen = listen(args, token_dir.clone())?;
    let access = listen.as_ref().map_or(ConfigAccess::Client, |listen| listen.token.access());
    let greeting =
        format!("rkat-mcp {}: realm `{}` ({})", env!("CARGO_PKG_VERSION"), options.realm, options.backend());
    let host = compose::lazy_runtime(&scope, options, &skills, access)?;
    let server = Server::with_skills(host, &skills, out::queue);
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let served = runtime.block_on(async {
        match listen {
            Some(listen) => {
                Ok(compose::listen(&server, listen, Surface::RkatMcp, &greeting, token_dir).await?)
            }
            None => over_stdio(&server, &greeting).await,
        }
    });
    // The reader thread may block forever; it holds nothing that must be saved.
    runtime.shutdown_timeout(THREAD_TIMEOUT);
    if let Some(lost) = telemetry.finish(TRACE_FLUSH_TIMEOUT) {
        out::queue(&format!("warning: {lost}"));
    }
    out::flush_queue();
    served
}

/// Returns where to serve HTTP, or `None` for stdio.
fn listen(args: McpServerArgs, token_dir: Option<PathBuf>) -> Result<Option<Listen>, ListenError> {
    let Some(address) = args.http else { return Ok(None) };
    let token = compose::client_token(TokenOptions {
        no_token: args.no_token,
        file: args.token_file,
        realm_dir: token_dir,
        ..TokenOptions::default()
    })?;
    Ok(Some(Listen { address, token, hosts: args.allow_host, origins: args.allow_origin }))
}

async fn over_stdio(server: &Server, greeting: &str) -> Result<(), Failure> {
    let (terminated, orphaned) = (shutdown_signal(), parent::parent_exited());
    out::stderr_line(greeting);
    let stdio = Stdio::from_process()?;
    tokio::select! {
        () = server.serve(stdio) => {}
        () = terminated => server.shutdown().await,
        () = orphaned => server.shutdown().await,
    }
    Ok(())
}
