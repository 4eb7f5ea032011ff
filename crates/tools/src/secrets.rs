//! What holds secrets: the usual places of a user and of a machine, names of files in the workspace, and what the owner
//! adds or takes away.

use std::path::{Path, PathBuf};

use meerkat_process::SecretNames;

/// Where secrets are, in the user's own directory.
const SECRETS: [&str; 37] = [
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
    ".rkat/config.toml",
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

/// Files of a workspace that hold secrets, and those that only look like it.
const NAMES: [&str; 7] =
    [".env", ".env.*", "!.env.dist", "!.env.example", "!.env.sample", "!.env.schema", "!.env.template"];

/// What tools must not read.
#[derive(Debug, Clone, Default)]
pub(crate) struct Secrets {
    home: Option<PathBuf>,
    places: Vec<PathBuf>,
    names: SecretNames,
}

impl Secrets {
    /// Lays what the owner says over what is known: paths that begin with `~/` or `/`, or names of files in the
    /// workspace; one with `!` before it is no secret.
    pub(crate) fn new(owner: &[String], home: Option<&Path>, private: &[PathBuf]) -> Self {
        let known = SECRETS.iter().filter_map(|secret| Some(home?.join(secret)));
        let machine = MACHINE_SECRETS.iter().map(PathBuf::from);
        let mut places: Vec<_> = known.chain(machine).collect();
        let mut names: Vec<_> = NAMES.iter().map(|name| (*name).to_owned()).collect();
        for entry in owner {
            let (mark, path) = entry.strip_prefix('!').map_or(("", entry.as_str()), |rest| ("!", rest));
            match place(path, home) {
                None => names.push(entry.clone()),
                Some(place) if mark == "!" => places.retain(|known| *known != place),
                Some(place) => places.push(place),
            }
        }
        places.extend(private.iter().cloned());
        let real: Vec<_> = places.iter().filter_map(|place| place.canonicalize().ok()).collect();
        places.extend(real);
        places.sort();
        places.dedup();
        let home = home.and_then(|home| home.canonicalize().ok());
        Self { home, places, names: SecretNames::new(names) }
    }

    /// The places of secrets that are there. What nobody could read anyway needs no rule.
    pub(crate) fn places(&self, workspace: &Path) -> Vec<PathBuf> {
        let own = self.own_folder(workspace);
        let is_own = |place: &Path| own.as_ref().is_some_and(|own| place.starts_with(own));
        let readable = |place: &&PathBuf| !is_own(place) && std::fs::File::open(place).is_ok();
        self.places.iter().filter(readable).cloned().chain(own.clone()).collect()
    }

    /// The directory in which the user says what programs to start, where commands could write to it. It is made if it is
    /// not there: else a command would make it, and the next run would start what it says.
    fn own_folder(&self, workspace: &Path) -> Option<PathBuf> {
        let own = self.home.as_ref().filter(|home| home.starts_with(workspace))?.join(".rkat");
        create_private_dir(&own);
        own.is_dir().then_some(own)
    }

    /// The names of files in the workspace.
    pub(crate) const fn names(&self) -> &SecretNames {
        &self.names
    }

    /// Says whether a file holds secrets, by its real path.
    pub(crate) fn hold(&self, file: &Path, workspace: &Path) -> bool {
        let is_named = file.strip_prefix(workspace).is_ok_and(|path| self.names.hold(path));
        is_named || self.lie_at(file)
    }

    /// Says whether a path is one of the places of secrets or in one.
    pub(crate) fn lie_at(&self, path: &Path) -> bool {
        self.places.iter().any(|place| path.starts_with(place))
    }
}

/// Reads an entry as a place; `None` if it is a name.
fn place(path: &str, home: Option<&Path>) -> Option<PathBuf> {
    match path.strip_prefix("~/") {
        // Without a home there is nothing there.
        Some(rest) => Some(home.unwrap_or(Path::new("/nonexistent")).join(rest)),
        None => path.starts_with('/').then(|| path.into()),
    }
}

/// Creates a directory that only the user can enter, whatever the umask, unless something is there.
fn create_private_dir(path: &Path) {
    if std::fs::create_dir(path).is_ok() {
        #[cfg(unix)]
        let _ = std::fs::set_permissions(path, std::os::unix::fs::PermissionsExt::from_mode(0o700));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_owner_adds_secrets_and_takes_some_away() {
        let owner = ["/srv/keys", "~/.npmrc.work", "!~/.npmrc", "deploy.json", "!.env.test"];
        let owner: Vec<_> = owner.iter().map(|entry| (*entry).to_owned()).collect();
        let secrets = Secrets::new(&owner, Some(Path::new("/home/ada")), &["/realms".into()]);
        let table = [
            ("/home/ada/.ssh/id_ed25519", true),
            ("/home/ada/.npmrc", false),
            ("/home/ada/.npmrc.work", true),
            ("/srv/keys/a", true),
            ("/realms/state", true),
            ("/work/.env", true),
            ("/work/web/.env.local", true),
            ("/work/.env.example", false),
            ("/work/.env.test", false),
            ("/work/web/deploy.json", true),
            ("/elsewhere/deploy.json", false),
            ("/work/readme.md", false),
        ];
        let told = table.iter().map(|(path, _)| (*path, secrets.hold(Path::new(path), Path::new("/work"))));
        assert_eq!(told.collect::<Vec<_>>(), table);
    }
}
