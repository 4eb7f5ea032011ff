//! Composition root of both binaries: builds runtimes and servers from the scope and the environment.

use std::path::PathBuf;
use std::sync::Arc;

use meerkat::skills::{Roots, Trust};
use meerkat::{
    ConfigAccess, Error, McpServers, McpServersOptions, NoticeSink, Realm, RealmOptions, Runtime,
    RuntimeOptions, SecretSource, ServerEnvironment, Skills, SkillsOptions, ToolboxOptions,
};
use meerkat_mcp_server::http::{ClientToken, Listen, ListenError, TokenOptions};
use meerkat_mcp_server::{LazyRuntime, Server};
use meerkat_telemetry::{LineSink, LogFilter, LogFormat, Settings, Telemetry, TelemetryOptions};

use crate::env;
use crate::memory;
use crate::out;
use crate::scope::{Scope, Surface};

/// MCP servers for agents, and the sink for notices.
pub(crate) struct Agents {
    pub(crate) servers: Option<Arc<McpServers>>,
    pub(crate) notify: NoticeSink,
}

/// Opens the realm and creates a runtime.
pub(crate) fn open(scope: &Scope) -> Result<Runtime, Error> {
    open_with(scope, Agents { servers: None, notify: Arc::new(out::stderr_line) })
}

/// Opens the realm to read from it. A named realm must exist.
pub(crate) fn open_known(scope: &Scope) -> Result<Runtime, Error> {
    scope.check_known()?;
    open(scope)
}

/// Like [`open`], for running agents.
pub(crate) fn open_with(scope: &Scope, agents: Agents) -> Result<Runtime, Error> {
    let realm = Realm::open(scope.options()?)?;
    realm.warnings().iter().for_each(out::warn);
    let options = runtime_options(scope, skills(scope)?, agents, ConfigAccess::Owner)?;
    Ok(Runtime::new(realm, options()))
}

/// Returns the runtime of a server, which is opened on first use and never waits for a reader of stderr.
pub(crate) fn lazy_runtime(
    scope: &Scope,
    realm: RealmOptions,
    skills: &Skills,
    access: ConfigAccess,
) -> Result<LazyRuntime, Error> {
    let notify: NoticeSink = Arc::new(out::queue);
    let servers = Some(McpServers::new(server_options(scope, Arc::clone(&notify))));
    let options = runtime_options(scope, skills.clone(), Agents { servers, notify }, access)?;
    Ok(LazyRuntime::on_realm(realm, options, |warning| out::queue(&format!("warning: {warning}"))))
}

/// Returns a function that builds the options of the runtime. A server calls it again if the realm cannot be opened.
fn runtime_options(
    scope: &Scope,
    skills: Skills,
    Agents { servers, notify }: Agents,
    config_access: ConfigAccess,
) -> Result<impl Fn() -> RuntimeOptions + Send + Sync + use<>, Error> {
    let (instance, tools) = (scope.flags.instance.clone(), tools(scope)?);
    let hook_files = Arc::new(scope.hook_files().with_notices(notify));
    Ok(move || RuntimeOptions {
        skills: Some(skills.clone()),
        instance: instance.clone(),
        secrets: Some(secrets()),
        servers: servers.clone(),
        tools: tools.clone(),
        hook_files: Some(Arc::clone(&hook_files)),
        redactor: out::secrets(),
        config_access,
        ..RuntimeOptions::default()
    })
}

/// Returns the source of keys and tokens.
pub(crate) fn secrets() -> SecretSource {
    Arc::new(env::secret)
}

/// Returns the options of the built-in tools, which cannot access stored realms.
fn tools(scope: &Scope) -> Result<ToolboxOptions, Error> {
    Ok(ToolboxOptions {
        workspace: scope.flags.context_root.clone().or_else(|| env::system_dirs().current_dir),
        home: env::home(),
        temp_dir: env::temp_dir(),
        hidden_dirs: vec![scope.state_root()?],
        environment: env::all(),
        supervisor: env::program(),
        time_zone: env::time_zone,
    })
}

/// Returns the options that MCP servers are started with. Servers call `notify` from async code, so it must not block.
pub(crate) fn server_options(scope: &Scope, notify: NoticeSink) -> McpServersOptions {
    let environment = ServerEnvironment {
        project: scope.project().ok().flatten(),
        home: scope.home(),
        environment: env::all(),
        program: env::program(),
        redactor: out::secrets(),
    };
    McpServersOptions { notify: Some(notify), ..McpServersOptions::for_environment(environment) }
}

/// Returns the skills of agents that run in this process.
pub(crate) fn skills(scope: &Scope) -> Result<Skills, Error> {
    Ok(Skills::new(SkillsOptions::from_roots(skill_roots(scope)?)))
}

/// Returns the directories to search for skills.
pub(crate) fn skill_roots(scope: &Scope) -> Result<Roots, Error> {
    let (project, home) = (scope.project()?, scope.home());
    let files = scope.server_files();
    let trust = if files.trusts_dir()? { Trust::Trusted } else { Trust::Untrusted };
    let (extra, trusted) = (scope.skill_dirs.clone(), files.trusted_dirs()?);
    let roots = Roots { extra, project, home, trust, trusted, ..Roots::default() };
    Ok(roots.in_directory(env::system_dirs().current_dir))
}

/// Returns the token that clients must send, and masks it in all output.
pub(crate) fn client_token(options: TokenOptions) -> Result<ClientToken, ListenError> {
    let token = TokenOptions { value: env::token(), ..options }.resolve()?;
    token.secret().iter().for_each(|secret| out::secrets().add(secret));
    Ok(token)
}

/// Serves clients over HTTP. The greeting, the URL, and the realm's own token are printed once clients can connect. A
/// JSON log goes to a collector, so it gets only the path of the token's file in the realm's directory.
pub(crate) async fn listen(
    server: &Server,
    listen: Listen,
    surface: Surface,
    greeting: &str,
    realm_dir: Option<PathBuf>,
) -> Result<(), ListenError> {
    let token = listen.token.clone();
    let announce = |address| {
        out::stderr_line(&format!("{greeting}, listening on http://{address}/mcp"));
        let Some(line) = token.connect_line(address) else { return };
        match realm_dir {
            _ if !out::is_json() => out::print_token(&format!("{}: {line}", surface.name())),
            Some(dir) => {
                let file = dir.join(meerkat::token::FILE_NAME);
                out::stderr_line(&format!(
                    "{}: clients send the token in `{}`",
                    surface.name(),
                    file.display()
                ));
            }
            None => {
                out::warn("the token of clients is in no file; choose it with RKAT_TOKEN or `--token-file`")
            }
        }
    };
    tokio::select! {
        served = server.listen(listen, announce) => served,
        () = memory::trim_forever() => Ok(()),
    }
}

/// Log of a command if the environment does not configure it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum DefaultLog {
    /// None: a command prints its failures itself.
    Off,
    /// Warnings and errors, for a server.
    Warnings,
}

/// Starts logging and tracing as configured by the environment.
pub(crate) fn telemetry(
    surface: Surface,
    sink: LineSink,
    default_log: DefaultLog,
    format: Option<LogFormat>,
) -> Telemetry {
    let redactor = out::secrets();
    let Settings { log, log_format, otlp, warnings } = env::telemetry(surface.name(), &redactor);
    let log_format = format.or(log_format).unwrap_or_default();
    // Other commands print messages for people.
    if default_log == DefaultLog::Warnings && log_format == LogFormat::Json {
        out::set_json();
    }
    warnings.iter().for_each(out::warn);
    let log = log.or_else(|| (default_log == DefaultLog::Warnings).then(LogFilter::warnings));
    Telemetry::start(TelemetryOptions { log: log.map(|filter| (filter, sink)), log_format, otlp, redactor })
}
