//! Starting a server: command lookup, environment, and process group.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use meerkat_process::{DEFAULT_PATH, Supervision, without_secrets};
use tokio::process::{Child, Command};

/// Options for starting servers.
#[derive(Debug, Clone, Default)]
pub struct Launcher {
    /// Environment of the host; a server gets only variables without secrets.
    pub environment: BTreeMap<String, String>,
    /// Directory that servers are started in; the host's current directory if `None`.
    pub dir: Option<PathBuf>,
    /// Executable that calls [`supervise`](crate::supervise) first; usually the host's own.
    pub supervisor: Option<PathBuf>,
}

/// Error of a server that could not be started.
#[derive(Debug, thiserror::Error)]
pub enum SpawnError {
    /// Command not found.
    #[error(
        "the command `{command}` was not found in {searched}; install it, or set `command` to its full path"
    )]
    NotFound {
        /// The command.
        command: String,
        /// Searched locations.
        searched: String,
    },
    /// The operating system could not start the command.
    #[error("cannot start the command `{}`", .program.display())]
    NotStarted {
        /// Path of the executable.
        program: PathBuf,
        /// Error of the operating system.
        #[source]
        source: io::Error,
    },
}

/// A started process.
#[derive(Debug)]
pub(super) struct StartedProcess {
    pub(super) child: Child,
    /// Whether a supervisor stops it when its stdin is closed.
    pub(super) supervised: bool,
}

impl Launcher {
    pub(super) fn start(
        &self,
        command: &str,
        args: &[String],
        env: &BTreeMap<String, String>,
    ) -> Result<StartedProcess, SpawnError> {
        let environment = self.environment_with(env);
        let path = environment.get("PATH").map_or(DEFAULT_PATH, String::as_str);
        let program = self.find(command, path)?;
        let mut process = match &self.supervisor {
            Some(supervisor) => {
                let mut process = Command::new(supervisor);
                process.args(Supervision::default().arguments(&program));
                process
            }
            None => Command::new(&program),
        };
        process.args(args).env_clear().envs(&environment).process_group(0);
        process.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        if let Some(dir) = &self.dir {
            process.current_dir(dir);
        }
        let child = process.spawn().map_err(|source| SpawnError::NotStarted { program, source })?;
        Ok(StartedProcess { child, supervised: self.supervisor.is_some() })
    }

    fn environment_with(&self, env: &BTreeMap<String, String>) -> BTreeMap<String, String> {
        let mut passed = without_secrets(&self.environment);
        passed.extend(env.clone());
        passed
    }

    fn find(&self, command: &str, path: &str) -> Result<PathBuf, SpawnError> {
        let base = self.dir.as_deref().unwrap_or(Path::new("."));
        let (found, searched) = if command.contains('/') {
            let program = base.join(command);
            let searched = format!("`{}`", program.display());
            (Some(program).filter(|program| is_program(program)), searched)
        } else {
            let dirs = path.split(':').filter(|dir| !dir.is_empty());
            let mut programs = dirs.map(|dir| base.join(dir).join(command));
            (programs.find(|program| is_program(program)), format!("PATH `{path}`"))
        };
        found
            .map(|program| absolute(&program))
            .ok_or_else(|| SpawnError::NotFound { command: command.to_owned(), searched })
    }
}

/// Returns an absolute path, because a command relative to the host's directory is started in the server's.
fn absolute(program: &Path) -> PathBuf {
    std::path::absolute(program).unwrap_or_else(|_| program.to_owned())
}

fn is_program(path: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt as _;
    path.metadata().is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0)
}

#[cfg(test)]
mod tests {
    use super::Launcher;
    use std::collections::BTreeMap;

    fn map(entries: &[(&str, &str)]) -> BTreeMap<String, String> {
        entries.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
    }

    #[test]
    fn server_gets_no_unconfigured_secrets() {
        let launcher = Launcher {
            environment: map(&[("PATH", "/bin"), ("ANTHROPIC_API_KEY", "secret"), ("HOME", "/root")]),
            ..Launcher::default()
        };
        let environment = launcher.environment_with(&map(&[("MINE", "1"), ("HOME", "/elsewhere")]));
        assert_eq!(environment, map(&[("PATH", "/bin"), ("HOME", "/elsewhere"), ("MINE", "1")]));
    }

    #[test]
    fn missing_command_error_names_searched_path() {
        let launcher = Launcher::default();
        let error = launcher.find("no-such-server", "/usr/bin:/nowhere").unwrap_err();
        assert_eq!(
            error.to_string(),
            "the command `no-such-server` was not found in PATH `/usr/bin:/nowhere`; install it, or set `command` to \
             its full path"
        );
        let error = launcher.find("/no/such", "/usr/bin").unwrap_err();
        assert_eq!(
            error.to_string(),
            "the command `/no/such` was not found in `/no/such`; install it, or set `command` to its full path"
        );
    }
}
