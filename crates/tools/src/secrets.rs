//! Locations of secrets: well-known paths of a user and a machine, file names in the workspace, and the owner's
//! additions and exceptions.

use std::path::{Path, PathBuf};

use meerkat_process::SecretNames;

/// Paths of secrets in the home directory.
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

/// Paths of secrets on the machine.
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

/// Names of workspace files that hold secrets, and names that only look like it.
const NAMES: [&str; 7] =
    [".env", ".env.*", "!.env.dist", "!.env.example", "!.env.sample", "!.env.schema", "!.env.template"];

/// Files that tools must not read.
#[derive(Debug, Clone, Default)]
pub(crate) struct Secrets {
    home: Option<PathBuf>,
    places: Vec<PathBuf>,
    names: SecretNames,
}

impl Secrets {
    /// Combines the owner's entries with the defaults: paths that start with `~/` or `/`, or names of files in the
    /// workspace; an entry with `!` before it is not a secret.
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

    /// Returns the existing secret paths. Files that nothing can read anyway need no rule.
    pub(crate) fn existing_paths(&self, workspace: &Path) -> Vec<PathBuf> {
        let own = self.own_dir(workspace);
        let is_own = |place: &Path| own.as_ref().is_some_and(|own| place.starts_with(own));
        let readable = |place: &&PathBuf| !is_own(place) && std::fs::File::open(place).is_ok();
        self.places.iter().filter(readable).cloned().chain(own.clone()).collect()
    }

    /// Returns the user's configuration directory if commands could write to it. It is created if it does not exist:
    /// otherwise, a command could create it, and the next run would start the programs listed there.
    fn own_dir(&self, workspace: &Path) -> Option<PathBuf> {
        let own = self.home.as_ref().filter(|home| home.starts_with(workspace))?.join(".rkat");
        create_private_dir(&own);
        own.is_dir().then_some(own)
    }

    /// Returns the names of secret files in the workspace.
    pub(crate) const fn names(&self) -> &SecretNames {
        &self.names
    }

    /// Returns `true` if a file holds secrets, by its real path.
    pub(crate) fn is_secret_file(&self, file: &Path, workspace: &Path) -> bool {
        let is_named = file.strip_prefix(workspace).is_ok_and(|path| self.names.is_secret(path));
        is_named || self.is_secret_path(file)
    }

    /// Returns `true` if a path is a secret path or inside one.
    pub(crate) fn is_secret_path(&self, path: &Path) -> bool {
        self.places.iter().any(|place| path.starts_with(place))
    }
}

/// Parses an entry as a path; `None` if it is a name.
fn place(path: &str, home: Option<&Path>) -> Option<PathBuf> {
    match path.strip_prefix("~/") {
        // Without a home directory, the path does not exist.
        Some(rest) => Some(home.unwrap_or(Path::new("/nonexistent")).join(rest)),
        None => path.starts_with('/').then(|| path.into()),
    }
}

/// Creates a directory that only the user can enter, regardless of the umask, if the path does not exist.
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
    fn owner_adds_and_removes_secrets() {
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
        let results = table
            .iter()
            .map(|(path, _)| (*path, secrets.is_secret_file(Path::new(path), Path::new("/work"))));
        assert_eq!(results.collect::<Vec<_>>(), table);
    }
}
