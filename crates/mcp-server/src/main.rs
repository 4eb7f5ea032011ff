//! `rkat-mcp`: Meerkat as an MCP server, over stdio or HTTP.

mod args;
mod env;
mod log;
mod parent;

use std::process::ExitCode;
use std::sync::Arc;

use clap::Parser as _;
use meerkat::{
    ConfigAccess, DefaultRealm, HookFiles, McpServers, McpServersOptions, NoticeSink, RealmOptions, Redactor,
    RuntimeOptions, Skills, SkillsOptions,
};
use meerkat_mcp_server::http::ClientToken;
use meerkat_mcp_server::lifetime::{THREAD_TIMEOUT, TRACE_FLUSH_TIMEOUT};
use meerkat_mcp_server::{LazyRuntime, Server, Stdio, shutdown_signal};

use meerkat_telemetry::{LineSink, Settings, Telemetry, TelemetryOptions};

use crate::args::Args;
use crate::log::Log;

type Failure = Box<dyn std::error::Error>;

fn main() -> ExitCode {
    if let Some(code) = meerkat::supervise(std::env::args_os()) {
        return code;
    }
    let args = Args::parse();
    let redactor = env::secrets();
    match run(&args, &redactor) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            log::write(&redactor.redact(&format!("error: {error}")));
            ExitCode::FAILURE
        }
    }
}

fn run(args: &Args, redactor: &Redactor) -> Result<(), Failure> {
    let skill_roots = args.skill_roots(env::system_dirs())?;
    let (project, home) = args.dirs();
    let scope = args.scope();
    let options = scope.options(DefaultRealm::Isolated, &env::system_dirs(), "rkat-mcp")?;
    let listen = args.listen(env::token(), &options)?;
    let token = listen.as_ref().map(|listen| listen.token.clone());
    token.iter().filter_map(ClientToken::secret).for_each(|secret| redactor.add(secret));
    let config_access = token.as_ref().map_or(ConfigAccess::Client, ClientToken::access);
    let greeting = greeting(&options);
    let tools = env::tools(project.clone(), options.state_root.clone());
    let log = Log::start(redactor.clone());
    let telemetry = telemetry(&log, redactor);
    let (warnings, runs) = (log.clone(), log.clone());
    let hook_files = HookFiles::for_dirs(project.as_deref(), home.clone().or_else(env::home).as_deref());
    let hook_files = Arc::new(hook_files.below(env::home().as_deref()).with_notices(notify(log.clone())));
    let servers = McpServers::new(McpServersOptions {
        notify: Some(notify(log.clone())),
        ..McpServersOptions::for_environment(env::servers(project, home, redactor))
    });
    let instance = scope.instance;
    let shared_redactor = redactor.clone();
    let secrets: meerkat::SecretSource = Arc::new(env::secret);
    let skills = Skills::new(SkillsOptions::from_roots(skill_roots));
    let agent_skills = skills.clone();
    let runtime_options = move || RuntimeOptions {
        skills: Some(agent_skills.clone()),
        instance: instance.clone(),
        secrets: Some(Arc::clone(&secrets)),
        servers: Some(Arc::clone(&servers)),
        tools: tools.clone(),
        hook_files: Some(Arc::clone(&hook_files)),
        redactor: shared_redactor.clone(),
        config_access,
        ..RuntimeOptions::default()
    };
    let host = LazyRuntime::on_realm(options, runtime_options, move |warning| {
        warnings.line(&format!("warning: {warning}"))
    });
    let server = Server::with_skills(host, &skills, move |line| runs.line(line));
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let served = runtime.block_on(async {
        match listen {
            Some(listen) => {
                let token = listen.token.clone();
                let announce = |address| {
                    log::write(&format!("{greeting}, listening on http://{address}/mcp"));
                    // The only line that shows the token; the user configures clients with it.
                    token
                        .connect_line(address)
                        .iter()
                        .for_each(|line| log::write(&format!("rkat-mcp: {line}")));
                };
                Ok(server.listen(listen, announce).await?)
            }
            None => over_stdio(&server, &greeting).await,
        }
    });
    // The reader thread may block forever; it holds nothing that must be saved.
    runtime.shutdown_timeout(THREAD_TIMEOUT);
    if let Some(lost) = telemetry.finish(TRACE_FLUSH_TIMEOUT) {
        log.line(&format!("warning: {lost}"));
    }
    log.finish();
    served
}

/// Starts logging and tracing, if the environment enables them.
fn telemetry(log: &Log, redactor: &Redactor) -> Telemetry {
    let Settings { log: filter, otlp, warnings } = env::telemetry(redactor);
    warnings.iter().for_each(|warning| log.line(&format!("warning: {warning}")));
    let lines = log.clone();
    let sink: LineSink = Arc::new(move |line: &str| lines.line(line));
    let log = filter.map(|filter| (filter, sink));
    Telemetry::start(TelemetryOptions { log, otlp, redactor: redactor.clone() })
}

/// Returns a sink that logs notices about MCP and hook config files.
fn notify(log: Log) -> NoticeSink {
    Arc::new(move |line: &str| log.line(line))
}

/// Returns the first line written to stderr.
fn greeting(options: &RealmOptions) -> String {
    format!("rkat-mcp {}: realm `{}` ({})", env!("CARGO_PKG_VERSION"), options.realm, options.backend())
}

async fn over_stdio(server: &Server, greeting: &str) -> Result<(), Failure> {
    let (terminated, orphaned) = (shutdown_signal(), parent::parent_exited());
    log::write(greeting);
    let stdio = Stdio::from_process()?;
    tokio::select! {
        () = server.serve(stdio) => {}
        () = terminated => server.shutdown().await,
        () = orphaned => server.shutdown().await,
    }
    Ok(())
}
