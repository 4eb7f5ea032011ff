//! `shell`.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use meerkat_core::{Redactor, SessionId, ToolImpact};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use super::jobs::{Jobs, State};
use super::process::{CommandLimits, CommandResult, CommandRunner, End};
use super::{Sandbox, ShellOptions};
use crate::builtin::{Builtin, Reply, reply};
use crate::files::Root;
use crate::storage::ToolStorage;

/// Maximum time limit of a command, in seconds.
const MAX_TIMEOUT: u64 = 24 * 3600;

pub(crate) struct Shell {
    pub(crate) host: Arc<CommandRunner>,
    pub(crate) root: Arc<Root>,
    pub(crate) shelf: Arc<dyn ToolStorage>,
    pub(crate) jobs: Arc<Jobs>,
    pub(crate) redactor: Redactor,
    pub(crate) options: ShellOptions,
}

/// The command to run.
#[derive(Deserialize, JsonSchema)]
pub(crate) struct Arguments {
    /// The command line.
    command: String,
    /// Working directory, relative to the workspace; the workspace itself if omitted.
    working_dir: Option<String>,
    /// Time limit in seconds.
    timeout_secs: Option<u64>,
    /// Run it as a job: the call returns at once, and you are notified when it has finished.
    #[serde(default)]
    background: bool,
}

impl Builtin for Shell {
    const NAME: &'static str = "shell";
    const DESCRIPTION: &'static str = "Run a shell command in the workspace. By default it can only modify workspace \
        and temporary files and has no network access. Child processes end with the command; use `background` for \
        long-running work.";
    const IMPACT: ToolImpact = ToolImpact::Destructive;
    type Arguments = Arguments;

    async fn run(&self, arguments: Arguments, session: SessionId) -> Reply {
        let place = self.root.parse_path(arguments.working_dir.as_deref().unwrap_or("."))?;
        let dir = self.root.dir(&place)?;
        let limit = arguments.timeout_secs.map_or(self.options.timeout, Duration::from_secs);
        let limit = limit.clamp(Duration::from_secs(1), Duration::from_secs(MAX_TIMEOUT));
        self.host.check(&arguments.command, &self.options)?;
        if arguments.background {
            return self.begin(session, arguments.command, dir, limit);
        }
        let never = std::future::pending();
        let terms = CommandLimits { options: &self.options, secrets: self.root.secrets(), limit };
        let ended = self.host.run(&arguments.command, &dir, terms, never).await?;
        reply(&self.reply(ended).await)
    }
}

impl Shell {
    async fn reply(&self, ended: CommandResult) -> Value {
        let CommandResult { end, stdout, stderr, duration } = ended;
        let stdout = stdout.to_visible(&*self.shelf, &self.redactor).await;
        let stderr = stderr.to_visible(&*self.shelf, &self.redactor).await;
        let mut reply = json!({
            "exit_code": if let End::Exited(code) = end { code } else { None },
            "stdout": stdout.text,
            "stderr": stderr.text,
            "timed_out": end == End::TimedOut,
            "duration_secs": duration.as_secs_f64(),
            "stdout_lossy": stdout.lossy,
            "stderr_lossy": stderr.lossy,
        });
        if self.options.sandbox == Sandbox::Off {
            reply["sandbox"] = json!("off");
        }
        reply
    }

    fn begin(&self, session: SessionId, command: String, dir: PathBuf, limit: Duration) -> Reply {
        let (host, shelf, options) = (Arc::clone(&self.host), Arc::clone(&self.shelf), self.options.clone());
        let (root, redactor) = (Arc::clone(&self.root), self.redactor.clone());
        let about = (dir.display().to_string(), limit.as_secs());
        let record = self.jobs.start(session, command, about, |record| async move {
            let cancelled = record.cancel.notified();
            let terms = CommandLimits { options: &options, secrets: root.secrets(), limit };
            let ended = host.run(&record.command, &dir, terms, cancelled).await;
            record.finish(State::from_result(ended, &*shelf, &redactor).await);
        })?;
        reply(&json!({
            "job_id": record.id,
            "status": "running",
            "message": "you are notified when it has finished; use shell_job_status to see its output",
        }))
    }
}
