//! A scene with a workspace, a home directory, secrets, and a file outside; and programs in it.

use std::fs::File;
use std::io::Read as _;
use std::os::fd::AsRawFd as _;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;
use std::time::Duration;

use meerkat_sandbox::{
    Control, Denial, Limit, Limits, Names, Network, Plan, Profile, Program, Refusal, Report, SandboxPolicy,
};

pub(crate) const PROFILES: [Profile; 3] = [Profile::Namespaces, Profile::SharedProc, Profile::Landlock];

/// Returns the profiles of this system. The others refuse to start programs, and tests of them are skipped.
pub(crate) fn profiles() -> &'static [Profile] {
    static FOUND: OnceLock<Vec<Profile>> = OnceLock::new();
    FOUND.get_or_init(|| {
        let found: Vec<_> = PROFILES.into_iter().filter(|profile| starts(*profile)).collect();
        assert!(!found.is_empty() || may_be_missing(), "no sandbox: set MEERKAT_WITHOUT_SANDBOX=1 to skip");
        found
    })
}

fn starts(profile: Profile) -> bool {
    let scene = Scene::new();
    let mut running = scene.start(profile, "true");
    let report = running.control.next_report().unwrap().expect("the helper reports");
    running.child.wait().unwrap();
    if report != Report::Ready {
        eprintln!("NOT TESTED: {profile:?}: {report:?}");
    }
    report == Report::Ready
}

#[expect(clippy::disallowed_methods, reason = "who runs the tests says so in the environment")]
fn may_be_missing() -> bool {
    std::env::var_os("MEERKAT_WITHOUT_SANDBOX").is_some()
}

/// Time for a program that is expected to end by itself.
const PATIENCE: Duration = Duration::from_secs(60);

/// The directories of a test.
pub(crate) struct Scene {
    base: tempfile::TempDir,
    listeners: Vec<UnixListener>,
    pub(crate) policy: SandboxPolicy,
}

/// The end of a program.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Outcome {
    pub(crate) code: u8,
    pub(crate) output: String,
    pub(crate) limit: Option<Limit>,
    pub(crate) denials: Vec<Denial>,
}

impl Scene {
    pub(crate) fn new() -> Self {
        let base = scratch();
        let root = base.path().canonicalize().unwrap();
        for dir in ["work/src", "home/.ssh", "home/.config", "temporary", "outside"] {
            std::fs::create_dir_all(root.join(dir)).unwrap();
        }
        for (file, text) in [
            ("work/.env", "TOKEN=hidden"),
            ("work/.env.example", "TOKEN="),
            ("work/readme", "hello"),
            ("home/.ssh/id", "hidden"),
            ("home/.config/tool", "plain"),
            ("outside/file", "outside"),
            ("outside/.env", "TOKEN=hidden"),
        ] {
            std::fs::write(root.join(file), text).unwrap();
        }
        let policy = SandboxPolicy {
            home: Some(root.join("home")),
            temporary: root.join("temporary"),
            names: Names {
                roots: vec![root.join("work")],
                places: vec![root.join("home/.ssh")],
                patterns: [".env", ".env.*", "!.env.example"].map(str::to_owned).to_vec(),
                ..Names::default()
            },
            network: Network::Own { loopback: Vec::new() },
            sockets: Vec::new(),
            devices: Vec::new(),
            limits: Limits { free_disk: 0, ..Limits::default() },
        };
        Self { base, listeners: Vec::new(), policy }
    }

    pub(crate) fn root(&self) -> PathBuf {
        self.base.path().canonicalize().unwrap()
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.root().join(name)
    }

    /// Listens on a socket, as a program outside.
    pub(crate) fn listen(&mut self, name: &str) {
        // The path may be too long for an address.
        let at = |directory: &File| {
            format!("/proc/self/fd/{}/{}", directory.as_raw_fd(), name.rsplit('/').next().unwrap())
        };
        let directory = File::open(self.path(name).parent().unwrap()).unwrap();
        self.listeners.push(UnixListener::bind(at(&directory)).unwrap());
    }

    /// Turns the workspace into a git repository, which a program in the sandbox cannot.
    pub(crate) fn init_git(&self) {
        assert!(self.run_outside("git init -q . && touch .git/config.worktree"));
    }

    fn program(&self, script: &str) -> Program {
        let variable = |name: &str, value: &Path| (name.into(), value.as_os_str().to_owned());
        Program {
            path: "/bin/sh".into(),
            arguments: vec!["-c".into(), script.into()],
            environment: vec![
                variable("PATH", Path::new("/usr/local/bin:/usr/bin:/bin")),
                variable("HOME", &self.path("home")),
                variable("TMPDIR", &self.path("temporary")),
                variable("BASE", &self.root()),
            ],
            directory: self.path("work"),
        }
    }

    /// Starts a script in the workspace.
    pub(crate) fn start(&self, profile: Profile, script: &str) -> Running {
        self.start_with(profile, script, Command::new(helper()))
    }

    /// Starts a script with a command that runs the helper.
    pub(crate) fn start_with(&self, profile: Profile, script: &str, helper: Command) -> Running {
        start(&self.plan(profile, script), helper)
    }

    pub(crate) fn plan(&self, profile: Profile, script: &str) -> Plan {
        Plan { profile, policy: self.policy.clone(), program: self.program(script) }
    }

    /// Returns why a program is not started.
    pub(crate) fn refusal(&self, plan: &Plan) -> Refusal {
        let mut running = start(plan, Command::new(helper()));
        let report = running.control.next_report().unwrap();
        assert_eq!(running.child.wait().unwrap().code(), Some(125));
        let Some(Report::Refused(refusal)) = report else { panic!("started: {report:?}") };
        refusal
    }

    /// Runs a script in the workspace to its end.
    pub(crate) fn run(&self, profile: Profile, script: &str) -> Outcome {
        self.start(profile, script).finish()
    }

    /// Runs a script in the same place without a sandbox, and returns whether it succeeds.
    pub(crate) fn run_outside(&self, script: &str) -> bool {
        let program = self.program(script);
        let mut command = Command::new(program.path);
        command.args(program.arguments).env_clear().envs(program.environment).current_dir(program.directory);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).status().unwrap().success()
    }
}

fn start(plan: &Plan, mut helper: Command) -> Running {
    let (output, writer) = std::io::pipe().unwrap();
    helper.stdout(writer.try_clone().unwrap()).stderr(writer);
    let (child, control) = plan.start(helper).unwrap();
    control.set_timeout(PATIENCE).unwrap();
    Running { child, control, output }
}

/// A program that was started.
pub(crate) struct Running {
    pub(crate) child: std::process::Child,
    pub(crate) control: Control,
    pub(crate) output: std::io::PipeReader,
}

impl Running {
    /// Waits for the end.
    pub(crate) fn finish(mut self) -> Outcome {
        let first = self.control.next_report().unwrap().expect("the helper reports");
        assert_eq!(first, Report::Ready, "the sandbox is set up");
        let reader = std::thread::spawn(move || {
            let mut output = String::new();
            self.output.read_to_string(&mut output).map(|_| output)
        });
        let Some(Report::Ended { code, limit, denials }) = self.control.next_report().unwrap() else {
            panic!("the helper exited without a report");
        };
        let status = self.child.wait().unwrap();
        assert_eq!(status.code(), Some(code.into()));
        Outcome { code, output: reader.join().unwrap().unwrap(), limit, denials }
    }
}

/// Returns the helper, which Cargo builds next to the tests.
pub(crate) fn helper() -> PathBuf {
    let test = std::env::current_exe().unwrap();
    test.parent().unwrap().parent().unwrap().join("examples/sandbox_host")
}

/// Creates a directory that is not below a directory for temporary files, which a sandbox replaces, if the user can.
#[expect(clippy::disallowed_methods, reason = "an ordinary user cannot write to the directory of the build")]
fn scratch() -> tempfile::TempDir {
    let home = std::env::home_dir().unwrap_or_default();
    let candidates = [PathBuf::from(env!("CARGO_TARGET_TMPDIR")), home, PathBuf::from("/opt")];
    let lasting = candidates.iter().filter(|dir| !dir.starts_with("/tmp") && !dir.starts_with("/var/tmp"));
    let mut dirs = lasting.cloned().chain([std::env::temp_dir()]);
    dirs.find_map(|dir| tempfile::tempdir_in(dir).ok()).expect("a writable directory")
}
