//! Running one command.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use meerkat_process::{
    DEFAULT_PATH, Input, SecretMasking, ShutdownMode, Supervision, can_mask_secrets, check_sandbox,
    without_secrets,
};
use tokio::process::{Child, ChildStdin, Command};
use tokio::sync::OnceCell;
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::capture::Capture;
use super::sandbox::Places;
use super::{Policy, Sandbox, ShellError, ShellOptions};
use crate::ToolboxOptions;
use crate::secrets::Secrets;

/// Time for a supervisor to end a command: it sends a signal, waits, and kills.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(8);
/// Time for remaining output to arrive after the command has ended.
const OUTPUT_TIMEOUT: Duration = Duration::from_secs(1);
/// Shells whose language the policy understands.
const KNOWN: [&str; 3] = ["bash", "dash", "sh"];

/// Variables that build tools and language runtimes use, and that hold no secrets.
const TOOLCHAINS: [&str; 16] = [
    "CARGO_HOME",
    "CARGO_TARGET_DIR",
    "CONDA_PREFIX",
    "GOCACHE",
    "GOPATH",
    "GOROOT",
    "JAVA_HOME",
    "LD_LIBRARY_PATH",
    "NODE_PATH",
    "NVM_DIR",
    "PKG_CONFIG_PATH",
    "PYTHONPATH",
    "RUSTUP_HOME",
    "RUSTUP_TOOLCHAIN",
    "VIRTUAL_ENV",
    "XDG_RUNTIME_DIR",
];

/// Environment for running commands.
#[derive(Debug, Default)]
pub(crate) struct CommandRunner {
    environment: BTreeMap<String, String>,
    supervisor: Option<PathBuf>,
    places: Places,
    confinable: OnceLock<bool>,
    hiding: OnceCell<SecretMasking>,
}

/// Options for one command.
pub(super) struct CommandLimits<'a> {
    pub(super) options: &'a ShellOptions,
    pub(super) secrets: &'a Secrets,
    pub(super) limit: Duration,
}

/// Result of a command.
#[derive(Debug)]
pub(super) struct CommandResult {
    pub(super) end: End,
    pub(super) stdout: Capture,
    pub(super) stderr: Capture,
    pub(super) duration: Duration,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    Exited(Option<i32>),
    TimedOut,
    Cancelled,
}

impl CommandRunner {
    pub(crate) fn new(options: &ToolboxOptions, workspace: PathBuf) -> Self {
        let mut environment = without_secrets(&options.environment);
        let more = TOOLCHAINS.iter().filter_map(|name| options.environment.get_key_value(*name));
        environment.extend(more.map(|(name, value)| (name.clone(), value.clone())));
        let path = environment.get("PATH").map(|path| absolute_only(path)).filter(|path| !path.is_empty());
        environment.insert("PATH".to_owned(), path.unwrap_or_else(|| DEFAULT_PATH.to_owned()));
        let temporary = options.temp_dir.clone().unwrap_or_else(|| "/tmp".into());
        environment.insert("TMPDIR".to_owned(), temporary.display().to_string());
        let real = |path: &Path| path.canonicalize().unwrap_or_else(|_| path.to_owned());
        let places = Places { workspace, temporary: real(&temporary) };
        Self { environment, supervisor: options.supervisor.clone(), places, ..Self::default() }
    }

    /// Checks a command before anything starts.
    pub(super) fn check(&self, line: &str, options: &ShellOptions) -> Result<PathBuf, ShellError> {
        let shell = self.shell(options.program.as_deref())?;
        let name = shell.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        if options.policy != Policy::Any && !KNOWN.contains(&name) {
            return Err(ShellError::Language(name.to_owned()));
        }
        options.policy.check(line)?;
        if options.sandbox != Sandbox::Off && !self.confinable.get_or_init(|| check_sandbox().is_ok()) {
            check_sandbox().map_err(ShellError::NoSandbox)?;
        }
        Ok(shell)
    }

    /// Determines, once, how secrets can be hidden on this system.
    async fn hiding(&self) -> SecretMasking {
        let find = async || {
            let Some(supervisor) = self.supervisor.clone() else { return SecretMasking::Rules };
            let tried = tokio::task::spawn_blocking(move || can_mask_secrets(&supervisor)).await;
            if tried.unwrap_or(false) { SecretMasking::Mounts } else { SecretMasking::Rules }
        };
        *self.hiding.get_or_init(find).await
    }

    fn shell(&self, program: Option<&str>) -> Result<PathBuf, ShellError> {
        let path = self.environment.get("PATH").map_or(DEFAULT_PATH, String::as_str);
        let find = |name: &str| {
            let dirs = path.split(':').map(Path::new).filter(|dir| dir.is_absolute());
            dirs.map(|dir| dir.join(name)).find(|file| file.is_file())
        };
        let found = match program {
            Some(program) if Path::new(program).is_absolute() => Some(PathBuf::from(program)),
            Some(program) => find(program),
            None => find("bash").or_else(|| find("sh")),
        };
        found.ok_or_else(|| ShellError::NoShell(program.unwrap_or("sh").to_owned()))
    }

    /// Runs a command until it ends, times out, or is cancelled. Dropping the future also ends it.
    pub(super) async fn run(
        &self,
        line: &str,
        dir: &Path,
        CommandLimits { options, secrets, limit }: CommandLimits<'_>,
        cancelled: impl Future<Output = ()> + Send,
    ) -> Result<CommandResult, ShellError> {
        let shell = self.check(line, options)?;
        let hiding = if options.sandbox == Sandbox::Off { SecretMasking::Rules } else { self.hiding().await };
        let supervision = Supervision {
            input: Input::Nothing,
            ending: ShutdownMode::Prompt,
            confinement: options.sandbox.confinement(&self.places, secrets, hiding),
        };
        let started = Instant::now();
        let mut running = self.start(&shell, line, dir, &supervision)?;
        let end = tokio::select! {
            status = running.child.wait() => End::Exited(status.ok().and_then(|status| status.code())),
            () = tokio::time::sleep(limit) => End::TimedOut,
            () = cancelled => End::Cancelled,
        };
        running.end(end).await;
        let Running { stdout, stderr, .. } = running;
        Ok(CommandResult { end, stdout, stderr, duration: started.elapsed() })
    }

    fn start(
        &self,
        shell: &Path,
        line: &str,
        dir: &Path,
        supervision: &Supervision,
    ) -> Result<Running, ShellError> {
        let supervisor = self.supervisor.as_ref().ok_or(ShellError::NoSupervisor)?;
        let mut command = Command::new(supervisor);
        command.args(supervision.arguments(shell)).args(["-c", line]).current_dir(dir);
        command.env_clear().envs(&self.environment).env("PWD", dir);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let failed = |source| ShellError::NotStarted { program: supervisor.clone(), source };
        let mut child = command.spawn().map_err(failed)?;
        let (stdout, stderr) = (Capture::default(), Capture::default());
        let mut readers = JoinSet::new();
        if let Some(stream) = child.stdout.take() {
            readers.spawn(stdout.clone().fill(stream));
        }
        if let Some(stream) = child.stderr.take() {
            readers.spawn(stderr.clone().fill(stream));
        }
        let lifeline = child.stdin.take();
        Ok(Running { child, lifeline, readers, stdout, stderr })
    }
}

/// Returns a search path without relative entries: a workspace file must not shadow a program.
fn absolute_only(path: &str) -> String {
    path.split(':').filter(|dir| Path::new(dir).is_absolute()).collect::<Vec<_>>().join(":")
}

/// A command under its supervisor, which ends it when the lifeline is dropped.
struct Running {
    child: Child,
    lifeline: Option<ChildStdin>,
    readers: JoinSet<()>,
    stdout: Capture,
    stderr: Capture,
}

impl Running {
    async fn end(&mut self, end: End) {
        if !matches!(end, End::Exited(_)) {
            self.lifeline = None;
            if timeout(SHUTDOWN_TIMEOUT, self.child.wait()).await.is_err() {
                let _ = self.child.kill().await;
            }
        }
        let rest = async { while self.readers.join_next().await.is_some() {} };
        let _ = timeout(OUTPUT_TIMEOUT, rest).await;
    }
}

#[cfg(test)]
mod tests {
    use super::absolute_only;

    #[test]
    fn relative_directories_are_removed_from_path() {
        let table = [
            ("/usr/bin:/bin", "/usr/bin:/bin"),
            (":/usr/bin:", "/usr/bin"),
            (".:/usr/bin:bin:../x:/bin", "/usr/bin:/bin"),
            ("", ""),
        ];
        assert_eq!(table.map(|(path, _)| absolute_only(path)), table.map(|(_, kept)| kept));
    }
}
