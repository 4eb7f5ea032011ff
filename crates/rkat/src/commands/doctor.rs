//! `rkat doctor`: what is right and what is not, with what to do. It looks and starts nothing, and tells of secrets only
//! that they are there.

use std::path::Path;
use std::process::ExitCode;

use meerkat::skill::Effect;
use meerkat::{
    Config, HookEntry, HookRuntime, Runtime, SandboxMode, can_cover, check_confinement, key_variables,
};
use serde_json::{Value, json};

use super::{former, open, print_json, skill};
use crate::args::ScopeArgs;
use crate::env;
use crate::error::CliError;
use crate::out;
use crate::servers;

/// How one thing is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Health {
    Ok,
    Warning,
    Fault,
}

#[derive(Debug)]
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

    fn json(&self) -> Value {
        let health = match self.health {
            Health::Ok => "ok",
            Health::Warning => "warning",
            Health::Fault => "fault",
        };
        json!({ "check": self.check, "health": health, "message": self.message, "fix": self.fix })
    }

    fn bad(check: &'static str, health: Health, message: impl Into<String>, fix: &str) -> Self {
        Self { check, health, message: message.into(), fix: Some(fix.to_owned()) }
    }
}

pub(super) async fn doctor(scope: &ScopeArgs, json: bool) -> Result<ExitCode, CliError> {
    let mut findings = vec![keys()];
    match open(scope) {
        Ok(runtime) => {
            findings.push(store(&runtime).await);
            findings.extend(config(&runtime, scope).await);
        }
        Err(CliError::Meerkat(error)) => findings.push(unusable(&error)),
        Err(error) => {
            findings.push(Finding::bad("store", Health::Fault, error.body().message, OTHER_REALM));
        }
    }
    if let Some((message, command)) = former::find(scope) {
        findings.push(Finding::bad("realm", Health::Warning, message, &format!("see them with {command}")));
    }
    findings.extend(mcp_servers(scope));
    findings.extend(skills(scope).await);
    let healthy = findings.iter().all(|finding| finding.health != Health::Fault);
    if json {
        print_json(
            &json!({ "healthy": healthy, "checks": findings.iter().map(Finding::json).collect::<Vec<_>>() }),
        );
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
    let set: Vec<_> = key_variables()
        .into_iter()
        .filter(|(name, _)| env::secret(name).is_some_and(|key| !key.trim().is_empty()))
        .map(|(name, provider)| format!("{provider} ({name})"))
        .collect();
    if set.is_empty() {
        let fix = "set ANTHROPIC_API_KEY, OPENAI_API_KEY or GEMINI_API_KEY";
        return Finding::bad("keys", Health::Warning, "there is no key: the offline model answers", fix);
    }
    Finding::ok("keys", format!("there are keys for {}", set.join(", ")))
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
        Ok(()) => Finding::ok("store", format!("{} is whole and can be written", paths.database.display())),
        Err(error) => unusable(&error),
    }
}

/// What to do where an error does not say it.
const OTHER_REALM: &str = "choose another realm with `--realm`, or another state root with `--state-root`";

/// Reports a store that cannot be used. What is stored may be all there is, so the fix is never to delete it.
fn unusable(error: &meerkat::Error) -> Finding {
    let (mut message, hint) = (error.body().message, error.hint());
    if let Some(hint) = &hint {
        message = message.trim_end_matches(hint.as_str()).trim_end_matches("; ").to_owned();
    }
    if let meerkat::Error::OfSession { id, .. } = error {
        message = format!("session `{id}`: {message}");
    }
    // This is the doctor already.
    let fix = hint.as_deref().and_then(|hint| hint.split("; `rkat doctor`").next());
    Finding::bad("store", Health::Fault, message, fix.unwrap_or(OTHER_REALM))
}

async fn config(runtime: &Runtime, scope: &ScopeArgs) -> Vec<Finding> {
    let current = match runtime.config().get().await {
        Ok(current) => current,
        Err(error) => {
            let fix = "write a config that fits with `rkat config set`";
            return vec![Finding::bad("config", Health::Fault, error.to_string(), fix)];
        }
    };
    let mut findings = vec![Finding::ok("config", format!("generation {} can be read", current.generation))];
    findings.extend(hooks(&current.config, scope));
    findings.push(sandbox(&current.config));
    findings
}

/// Looks at the hooks of files and of the config.
fn hooks(config: &Config, scope: &ScopeArgs) -> Vec<Finding> {
    let loaded = match servers::hook_files(scope).load() {
        Ok(loaded) => loaded,
        Err(error) => {
            let fix = "mend the file; until then nothing is run";
            return vec![Finding::bad("hooks", Health::Fault, error.to_string(), fix)];
        }
    };
    let told = |notice: &String| {
        let message = notice.split_once(": ").map_or(notice.as_str(), |(_, message)| message);
        Finding::bad("hooks", Health::Warning, message, "see `docs/hooks.md`")
    };
    let missing = |hook: &HookEntry| {
        let missing = match &hook.runtime {
            HookRuntime::Command { command, .. } if !is_found(command) => {
                format!("the program `{command}` of the hook `{}` is not there", hook.id)
            }
            HookRuntime::InProcess { name } => {
                format!("the hook `{}` is the function `{name}`, which this program does not have", hook.id)
            }
            HookRuntime::Command { .. } | HookRuntime::Http { .. } => return None,
        };
        let fix = "install it, or change the hook where it is written: `rkat config`, or `.rkat/config.toml`";
        Some(Finding::bad("hooks", Health::Fault, missing, fix))
    };
    let all = loaded.entries.iter().chain(&config.hooks.entries).filter(|hook| hook.enabled);
    loaded.notices.iter().map(told).chain(all.filter_map(missing)).collect()
}

/// Says how shell commands would be run.
fn sandbox(config: &Config) -> Finding {
    if config.shell.sandbox == SandboxMode::Off {
        let fix = "set `shell.sandbox` to `workspace`";
        let message = "shell commands run without a sandbox, because `shell.sandbox` is `off`";
        return Finding::bad("sandbox", Health::Warning, message, fix);
    }
    if let Err(error) = check_confinement() {
        let health = if config.tools.shell_enabled { Health::Fault } else { Health::Warning };
        let fix = "use Linux 6.2 or newer with Landlock and seccomp, or set `shell.sandbox` to `off`";
        return Finding::bad("sandbox", health, format!("shell commands are refused: {error}"), fix);
    }
    if env::program().is_some_and(|program| can_cover(&program)) {
        return Finding::ok("sandbox", "shell commands run in a sandbox, and secrets are covered");
    }
    let message = "shell commands run in a sandbox without mounts of its own: what a command makes in a directory that \
                   holds a secret file can be read by the next command only";
    let fix = "allow user namespaces, or say with `tools.secrets` what is no secret";
    Finding::bad("sandbox", Health::Warning, message, fix)
}

fn is_found(command: &str) -> bool {
    if command.contains('/') {
        return Path::new(command).is_file();
    }
    let path = env::secret("PATH").unwrap_or_default();
    path.split(':')
        .filter(|folder| !folder.is_empty())
        .any(|folder| Path::new(folder).join(command).is_file())
}

fn mcp_servers(scope: &ScopeArgs) -> Vec<Finding> {
    let loaded = match servers::files(scope).load() {
        Ok(loaded) => loaded,
        Err(error) => {
            let fix = "mend the file, or write it anew with `rkat mcp add`";
            return vec![Finding::bad("servers", Health::Fault, error.to_string(), fix)];
        }
    };
    let mut findings =
        vec![Finding::ok("servers", format!("{} MCP servers are known", loaded.entries.servers.len()))];
    let fix = "mend the entry; `rkat mcp test NAME` tries a server";
    findings.extend(
        loaded
            .entries
            .problems
            .iter()
            .map(|problem| Finding::bad("servers", Health::Fault, problem.to_string(), fix)),
    );
    findings
}

async fn skills(scope: &ScopeArgs) -> Vec<Finding> {
    let catalogue = match skill::catalogue(scope).await {
        Ok(catalogue) => catalogue,
        Err(error) => {
            let fix = "see `rkat skill list`";
            return vec![Finding::bad("skills", Health::Fault, error.body().message, fix)];
        }
    };
    let snapshot = catalogue.load().await;
    let mut findings =
        vec![Finding::ok("skills", format!("{} skills can be used", snapshot.active().count()))];
    // What came with the program and needs what is switched off is as it should be.
    let wrong = snapshot.problems().iter().filter(|problem| problem.effect != Effect::Withheld);
    findings.extend(wrong.map(|problem| {
        let message = format!("{}: {}", problem.path.display(), problem.reason);
        Finding::bad("skills", Health::Warning, message, &problem.fix)
    }));
    let ignored = skill::ignored(catalogue).await;
    findings.extend(
        ignored.iter().map(|group| Finding::bad("skills", Health::Warning, group.summary(), group.fix)),
    );
    findings
}
