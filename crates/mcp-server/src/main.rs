//! `rkat-mcp`: Meerkat as an MCP server, over stdio or HTTP.

mod args;
mod env;
mod log;
mod parent;

use std::process::ExitCode;
use std::sync::Arc;

use clap::Parser as _;
use meerkat::{
    Backend, HookFiles, Manifest, McpServers, McpServersOptions, Notify, Programs, RealmOptions,
    RuntimeOptions, Skills, SkillsOptions, Unnamed,
};
use meerkat_mcp_server::http::Listen;
use meerkat_mcp_server::lifetime::LAST_THREADS;
use meerkat_mcp_server::{Host, Server, Stdio, terminated};

use crate::args::Args;
use crate::log::Log;

type Failure = Box<dyn std::error::Error>;

fn main() -> ExitCode {
    if let Some(code) = meerkat::supervise(std::env::args_os()) {
        return code;
    }
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
    let skill_roots = args.skill_roots(env::home())?;
    let (project, home) = args.folders();
    let scope = args.scope();
    let options = scope.options(Unnamed::Isolated, &env::surroundings(), "rkat-mcp")?;
    let greeting = greeting(&options);
    let tools = env::tools(project.clone(), options.state_root.clone());
    let log = Log::start();
    let (warnings, runs) = (log.clone(), log.clone());
    let hook_files = HookFiles::of(project.as_deref(), home.clone().or_else(env::home).as_deref());
    let hook_files = Arc::new(hook_files.telling(notify(log.clone())));
    let servers = McpServers::new(McpServersOptions {
        notify: Some(notify(log.clone())),
        programs: programs(listen.as_ref().and_then(|listen| listen.as_ref().ok())),
        ..McpServersOptions::of(env::servers(project, home))
    });
    let instance = scope.instance;
    let secrets: meerkat::SecretSource = Arc::new(env::secret);
    let skills = Skills::new(SkillsOptions::of(skill_roots));
    let agents = skills.clone();
    let runtime_options = move || RuntimeOptions {
        skills: Some(agents.clone()),
        instance: instance.clone(),
        secrets: Some(Arc::clone(&secrets)),
        servers: Some(Arc::clone(&servers)),
        tools: tools.clone(),
        hook_files: Some(Arc::clone(&hook_files)),
        ..RuntimeOptions::default()
    };
    let host = Host::on_realm(options, runtime_options, move |warning| {
        warnings.line(&format!("warning: {warning}"))
    });
    let server = Server::with_skills(host, &skills, move |line| runs.line(line));
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

/// Tells what is wrong with files of MCP servers.
fn notify(log: Log) -> Notify {
    Arc::new(move |line: &str| log.line(line))
}

/// Over HTTP without a token, a caller may be anybody on this machine.
fn programs(listen: Option<&Listen>) -> Programs {
    match listen {
        Some(Listen { token: None, .. }) => Programs::FromFiles,
        _ => Programs::Allowed,
    }
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
