//! `rkat doctor`: checks, with suggested fixes. It starts the MCP servers, and of secrets it reports only that they are
//! set.

use std::fmt::Display;
use std::path::Path;
use std::process::ExitCode;

use meerkat::skills::Effect;
use meerkat::{
    Config, HookEntry, HookRuntime, Runtime, SandboxMode, api_key_variables, can_mask_secrets, check_sandbox,
};
use serde::Serialize;
use serde_json::json;

use super::mcp::{are_all_dead, check, start_all};
use super::{former_realms, print_json, skill};
use crate::compose::open;
use crate::env;
use crate::error::CliError;
use crate::out;
use crate::scope::Scope;

/// Result of a check.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum Health {
    Ok,
    Warning,
    Fault,
}

#[derive(Debug, Serialize)]
struct Finding {
    check: &'static str,
    health: Health,
    message: String,
    fix: Option<String>,
}

impl Finding {
    fn ok(check: &'static str, message: impl Into<String>) -> Self {
        Self { check, health: Health::Ok, message: message.into(), fix: None }
    }

    fn fault(check: &'static str, message: impl Display, fix: &str) -> Self {
        Self::bad(check, Health::Fault, message.to_string(), fix)
    }

    fn bad(check: &'static str, health: Health, message: impl Into<String>, fix: &str) -> Self {
        Self { check, health, message: message.into(), fix: Some(fix.to_owned()) }
    }
}

pub(super) async fn doctor(scope: &Scope, json: bool) -> Result<ExitCode, CliError> {
    let mut findings = vec![keys()];
    match open(scope) {
        Ok(runtime) => {
            findings.push(store(&runtime).await);
            findings.extend(config(&runtime, scope).await);
        }
        Err(error) => findings.push(unusable(&error)),
    }
    if let Some((message, fix)) = former_realms::find(scope) {
        findings.push(Finding::bad("realm", Health::Warning, message, &fix));
    }
    findings.extend(mcp_servers(scope).await);
    findings.extend(skills(scope).await);
    let healthy = findings.iter().all(|finding| finding.health != Health::Fault);
    if json {
        print_json(&json!({ "healthy": healthy, "checks": findings }));
    } else {
        findings.iter().for_each(print);
    }
    Ok(if healthy { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn print(finding: &Finding) {
    let mark = match finding.health {
        Health::Ok => "ok     ",
        Health::Warning => "warning",
        Health::Fault => "fault  ",
    };
    out::line(&format!("{mark}  {}: {}", finding.check, finding.message));
    if let Some(fix) = &finding.fix {
        out::line(&format!("         fix: {fix}"));
    }
}

fn keys() -> Finding {
    let set: Vec<_> = api_key_variables()
        .into_iter()
        .filter(|(name, _)| env::secret(name).is_some_and(|key| !key.trim().is_empty()))
        .map(|(name, provider)| format!("{provider} ({name})"))
        .collect();
    if set.is_empty() {
        let fix = "set ANTHROPIC_API_KEY, OPENAI_API_KEY, or GEMINI_API_KEY";
        return Finding::bad("keys", Health::Warning, "no API key; using the offline model", fix);
    }
    Finding::ok("keys", format!("API keys set for {}", set.join(", ")))
}

async fn store(runtime: &Runtime) -> Finding {
    let Some(paths) = runtime.realm().paths() else {
        return Finding::ok("store", format!("realm `{}` is in memory", runtime.realm().id()));
    };
    let checked = async {
        if paths.database.exists() {
            meerkat::check_database(&paths.database)?;
        }
        runtime.check_records().await?;
        runtime.check_writable().await
    };
    match checked.await {
        Ok(()) => Finding::ok("store", format!("{} is intact and writable", paths.database.display())),
        Err(error) => unusable(&error),
    }
}

/// Fix for errors without a hint.
const OTHER_REALM: &str = "choose another realm with `--realm`, or another state root with `--state-root`";

/// Reports an unusable store. The data may exist nowhere else, so the fix is never to delete it.
fn unusable(error: &meerkat::Error) -> Finding {
    let (mut message, hint) = (error.body().message, error.hint());
    if let Some(hint) = &hint {
        message = message.trim_end_matches(hint.as_str()).trim_end_matches("; ").to_owned();
    }
    if let meerkat::Error::InSession { id, .. } = error {
        message = format!("session `{id}`: {message}");
    }
    // The hint must not suggest `rkat doctor` itself.
    let fix = hint.as_deref().and_then(|hint| hint.split("; `rkat doctor`").next());
    Finding::fault("store", message, fix.unwrap_or(OTHER_REALM))
}

async fn config(runtime: &Runtime, scope: &Scope) -> Vec<Finding> {
    let current = match runtime.config().get().await {
        Ok(current) => current,
        Err(error) => {
            return vec![Finding::fault("config", error, "write a valid config with `rkat config set`")];
        }
    };
    let mut findings = vec![Finding::ok("config", format!("generation {} is readable", current.generation))];
    findings.extend(hooks(&current.config, scope));
    findings.push(sandbox(&current.config));
    findings
}

/// Checks the hooks in files and in the config.
fn hooks(config: &Config, scope: &Scope) -> Vec<Finding> {
    let loaded = match scope.hook_files().load() {
        Ok(loaded) => loaded,
        Err(error) => return vec![Finding::fault("hooks", error, "fix the file; no run starts until then")],
    };
    let warning = |notice: &String| {
        let message = notice.split_once(": ").map_or(notice.as_str(), |(_, message)| message);
        Finding::bad("hooks", Health::Warning, message, "see `docs/hooks.md`")
    };
    let missing = |hook: &HookEntry| {
        let missing = match &hook.runtime {
            HookRuntime::Command { command, .. } if !is_found(command) => {
                format!("command `{command}` of the hook `{}` not found", hook.id)
            }
            HookRuntime::InProcess { name } => {
                format!("hook `{}` uses the function `{name}`, which is not available in `rkat`", hook.id)
            }
            HookRuntime::Command { .. } | HookRuntime::Http { .. } => return None,
        };
        let fix = "install it, or change the hook with `rkat config` or in `.rkat/config.toml`";
        Some(Finding::fault("hooks", missing, fix))
    };
    let all = loaded.entries.iter().chain(&config.hooks.entries).filter(|hook| hook.enabled);
    loaded.notices.iter().map(warning).chain(all.filter_map(missing)).collect()
}

/// Checks the sandbox for shell commands.
fn sandbox(config: &Config) -> Finding {
    if config.shell.sandbox == SandboxMode::Off {
        let fix = "set `shell.sandbox` to `workspace`";
        let message = "shell commands run without a sandbox, because `shell.sandbox` is `off`";
        return Finding::bad("sandbox", Health::Warning, message, fix);
    }
    if let Err(error) = check_sandbox() {
        let health = if config.tools.shell_enabled { Health::Fault } else { Health::Warning };
        let fix = "use Linux 6.2 or newer with Landlock and seccomp, or set `shell.sandbox` to `off`";
        return Finding::bad("sandbox", health, format!("shell commands are rejected: {error}"), fix);
    }
    if env::program().is_some_and(|program| can_mask_secrets(&program)) {
        return Finding::ok("sandbox", "shell commands run in a sandbox, and secrets are masked");
    }
    let message = "shell commands run in a sandbox without separate mounts: a file that a command creates in a directory with \
                   a secret file can be read only by the next command";
    let fix = "allow user namespaces, or list files that are not secret in `tools.secrets`";
    Finding::bad("sandbox", Health::Warning, message, fix)
}

fn is_found(command: &str) -> bool {
    if command.contains('/') {
        return Path::new(command).is_file();
    }
    let path = env::secret("PATH").unwrap_or_default();
    path.split(':').filter(|dir| !dir.is_empty()).any(|dir| Path::new(dir).join(command).is_file())
}

async fn mcp_servers(scope: &Scope) -> Vec<Finding> {
    let loaded = match scope.server_files().load() {
        Ok(loaded) => loaded,
        Err(error) => {
            return vec![Finding::fault(
                "servers",
                error,
                "fix the file, or recreate it with `rkat mcp add`",
            )];
        }
    };
    let mut findings =
        vec![Finding::ok("servers", format!("{} MCP servers configured", loaded.entries.servers.len()))];
    let fix = "fix the entry; `rkat mcp test NAME` tests a server";
    let problems = &loaded.entries.problems;
    findings.extend(problems.iter().map(|problem| Finding::fault("servers", problem, fix)));
    let checked = check(&loaded, None, &start_all(scope).await);
    for server in &checked {
        let Some(reason) = &server.error else { continue };
        let name = &server.name;
        findings.push(match server.required {
            true => {
                let message = format!("runs do not start without `{name}`, which is not ready: {reason}");
                Finding::fault("servers", message, fix)
            }
            false => {
                let message = format!("runs start without `{name}`, which is not ready: {reason}");
                Finding::bad("servers", Health::Warning, message, fix)
            }
        });
    }
    if are_all_dead(&checked) {
        findings.push(Finding::fault("servers", "no MCP server is ready", fix));
    }
    findings
}

async fn skills(scope: &Scope) -> Vec<Finding> {
    let catalog = match skill::catalog(scope).await {
        Ok(catalog) => catalog,
        Err(error) => return vec![Finding::fault("skills", error.body().message, "see `rkat skill list`")],
    };
    let snapshot = catalog.load().await;
    let mut findings = vec![Finding::ok("skills", format!("{} skills available", snapshot.active().count()))];
    // A bundled skill whose capability is disabled is not a problem.
    let problems = snapshot.problems().iter().filter(|problem| problem.effect != Effect::Withheld);
    findings.extend(problems.map(|problem| {
        let message = format!("{}: {}", problem.path.display(), problem.reason);
        Finding::bad("skills", Health::Warning, message, &problem.fix)
    }));
    let ignored = skill::ignored(catalog).await;
    findings.extend(
        ignored.iter().map(|group| Finding::bad("skills", Health::Warning, group.summary(), group.fix)),
    );
    findings
}
