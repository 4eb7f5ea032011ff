//! What a command may reach.

use std::path::{Path, PathBuf};

use meerkat_process::{Confinement, Reach};

/// What commands may reach.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Sandbox {
    /// Everything that the user may.
    Off,
    /// They change the workspace and temporary files, read the rest but for secrets, and reach nobody.
    #[default]
    Workspace,
    /// The same, and they reach the network.
    Network,
}

/// Where secrets are, in the user's own folder.
const SECRETS: [&str; 36] = [
    ".ssh",
    ".aws",
    ".gnupg",
    ".azure",
    ".kube",
    ".docker",
    ".netrc",
    ".npmrc",
    ".pypirc",
    ".pgpass",
    ".my.cnf",
    ".git-credentials",
    ".password-store",
    ".vault-token",
    ".terraform.d",
    ".cargo/credentials",
    ".cargo/credentials.toml",
    ".config/gcloud",
    ".config/gh",
    ".config/hub",
    ".config/op",
    ".config/rclone",
    ".config/sops",
    ".config/google-chrome",
    ".config/chromium",
    ".mozilla",
    ".local/share/keyrings",
    ".bash_history",
    ".zsh_history",
    ".claude/.credentials.json",
    ".codex/auth.json",
    ".gemini/oauth_creds.json",
    ".rkat/mcp-tokens",
    ".rkat/mcp.toml",
    ".rkat/trust.json",
    ".local/share/meerkat",
];

/// Where secrets are on the machine.
const MACHINE_SECRETS: [&str; 9] = [
    "/etc/shadow",
    "/etc/shadow-",
    "/etc/gshadow",
    "/etc/gshadow-",
    "/etc/ssl/private",
    "/run/secrets",
    "/run/user",
    "/var/lib/docker",
    "/proc/kcore",
];

/// The places that matter to a sandbox.
#[derive(Debug, Clone, Default)]
pub(super) struct Places {
    pub(super) workspace: PathBuf,
    pub(super) temporary: PathBuf,
    pub(super) home: Option<PathBuf>,
    /// Folders of the host's own.
    pub(super) private: Vec<PathBuf>,
}

impl Sandbox {
    /// Says how a command is confined.
    pub(super) fn confinement(self, places: &Places) -> Option<Confinement> {
        let reach = match self {
            Self::Off => return None,
            Self::Workspace => Reach::Nobody,
            Self::Network => Reach::Internet,
        };
        let home = places.home.as_deref();
        let secrets = SECRETS.iter().filter_map(|secret| Some(home?.join(secret)));
        let machine = MACHINE_SECRETS.iter().map(PathBuf::from).filter(|path| is_readable(path));
        Some(Confinement {
            readable: vec![PathBuf::from("/")],
            writable: vec![places.workspace.clone(), places.temporary.clone()],
            hidden: secrets.chain(machine).chain(places.private.iter().cloned()).collect(),
            reach,
        })
    }
}

/// What nobody could read anyway needs no rule, and its folder can stay open.
fn is_readable(path: &Path) -> bool {
    std::fs::File::open(path).is_ok()
}
