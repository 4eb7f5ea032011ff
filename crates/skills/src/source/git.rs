//! Skills in a git repository, fetched with the system's git and cached.
//!
//! A commit is added to the cache atomically, and a cached commit stays in use until a newer one is fetched. No hook,
//! filter, or submodule of the repository is ever run.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use base64::Engine as _;
use tokio::process::Command;

use super::{Directory, Ignored, Limits, ScanCache, ScanResult, Source};
use crate::{Error, Provenance, Scope, lock};

/// Kind of a ref.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RefKind {
    /// A branch, which can change.
    Branch,
    /// A tag.
    Tag,
    /// A commit.
    Commit,
    /// A branch or a tag, whichever exists.
    Named,
}

/// Options for a repository.
#[derive(Clone, PartialEq, Eq)]
pub struct GitOptions {
    /// The URL.
    pub url: String,
    /// The branch, tag or commit.
    pub reference: String,
    /// Kind of `reference`.
    pub kind: RefKind,
    /// Directory of skills in the repository; if `None`, the entire repository.
    pub skills_root: Option<PathBuf>,
    /// Token for HTTPS. It is passed to git in its environment and never shown.
    pub token: Option<String>,
    /// Private key for SSH.
    pub ssh_key: Option<PathBuf>,
    /// Number of commits to fetch.
    pub depth: u32,
    /// Timeout of a git command.
    pub timeout: Duration,
    /// Directory for cached repositories.
    pub cache: PathBuf,
}

impl GitOptions {
    /// Creates options for the branch `main` of a repository.
    #[must_use]
    pub fn new(url: impl Into<String>, cache: impl Into<PathBuf>) -> Self {
        Self {
            url: url.into(),
            reference: "main".to_owned(),
            kind: RefKind::Branch,
            skills_root: None,
            token: None,
            ssh_key: None,
            depth: 1,
            timeout: Duration::from_secs(60),
            cache: cache.into(),
        }
    }
}

/// A git repository of skills.
pub struct Git {
    provenance: Arc<Provenance>,
    scope: Scope,
    options: GitOptions,
    limits: Limits,
    state: Mutex<State>,
}

struct State {
    dir: Arc<Directory>,
    scans: ScanCache,
}

impl Git {
    /// Creates a source from a repository. A commit fetched by an earlier process is served at once.
    #[must_use]
    pub fn new(provenance: Provenance, scope: Scope, options: GitOptions, limits: Limits) -> Self {
        let provenance = Arc::new(provenance);
        let commit = fs::read_to_string(pointer(&options)).unwrap_or_default();
        let dir = Arc::new(dir_at(&provenance, scope, &options, commit.trim(), limits));
        let state = Mutex::new(State { dir, scans: ScanCache::default() });
        Self { provenance, scope, options, limits, state }
    }

    /// Fetches the latest commit. A failure is recorded as a problem, and the previous commit stays in use.
    ///
    /// # Errors
    /// Returns an error with git's error message.
    pub async fn update(&self) -> Result<(), Error> {
        let outcome = self.fetch().await;
        let mut state = lock(&self.state);
        let reason = outcome.as_ref().err().map(Error::to_string);
        state.scans = ScanCache::after_update(&self.options.url, reason);
        if let Some(commit) = outcome? {
            let dir = dir_at(&self.provenance, self.scope, &self.options, &commit, self.limits);
            state.dir = Arc::new(dir);
        }
        Ok(())
    }

    /// Fetches the ref, and returns the commit if it is not the one in use.
    async fn fetch(&self) -> Result<Option<String>, Error> {
        let cache = &self.options.cache;
        fs::create_dir_all(cache).map_err(Error::file("create", cache))?;
        let pointer = pointer(&self.options);
        let current = fs::read_to_string(&pointer).unwrap_or_default();
        let fixed = matches!(self.options.kind, RefKind::Tag | RefKind::Commit);
        if fixed && !current.trim().is_empty() && cache.join(current.trim()).is_dir() {
            return Ok(None);
        }
        let fresh = tempfile::Builder::new().prefix("fetch-").tempdir_in(cache);
        let fresh = fresh.map_err(Error::file("create a directory in", cache))?;
        let commit = clone_into(fresh.path(), &self.options).await?;
        let place = cache.join(&commit);
        if !place.is_dir() {
            let path = fresh.keep();
            fs::rename(&path, &place).map_err(Error::file("write", &place))?;
        }
        if current.trim() == commit {
            return Ok(None);
        }
        crate::files::write_atomic(&pointer, commit.as_bytes())?;
        Ok(Some(commit))
    }
}

impl Source for Git {
    fn provenance(&self) -> &Arc<Provenance> {
        &self.provenance
    }

    fn scan(&self) -> Arc<ScanResult> {
        // An update must not wait for a scan, so the state is not locked meanwhile.
        let dir = Arc::clone(&lock(&self.state).dir);
        let found = dir.scan();
        lock(&self.state).scans.add_problem(found)
    }

    fn ignored(&self) -> Vec<Ignored> {
        let dir = Arc::clone(&lock(&self.state).dir);
        dir.ignored()
    }
}

/// Returns the file with the commit in use. It differs for each URL and ref, so that changing them takes effect.
fn pointer(options: &GitOptions) -> PathBuf {
    let key = format!("{}\0{:?}\0{}", options.url, options.kind, options.reference);
    let digest = crate::Digest::compute(key.as_bytes()).to_string();
    let digest: String = digest.trim_start_matches("sha256:").chars().take(16).collect();
    options.cache.join(format!("current-{digest}"))
}

fn dir_at(
    provenance: &Provenance,
    scope: Scope,
    options: &GitOptions,
    commit: &str,
    limits: Limits,
) -> Directory {
    let commit = if commit.is_empty() { "none" } else { commit };
    let tree = options.cache.join(commit);
    let inner = options.skills_root.iter().flat_map(|root| root.components());
    let plain = inner.filter(|part| matches!(part, std::path::Component::Normal(_)));
    let path = plain.fold(tree.clone(), |path, part| path.join(part));
    Directory::new(provenance.clone(), scope, path, limits).within(tree)
}

/// Checks out the files of a ref into an empty directory, and returns the commit.
pub(crate) async fn clone_into(dir: &Path, options: &GitOptions) -> Result<String, Error> {
    check_url(&options.url)?;
    if options.reference.is_empty() || options.reference.starts_with('-') {
        return Err(Error::BadUrl {
            url: redacted_url(&options.url),
            why: "the ref is empty or starts with a hyphen",
        });
    }
    let git = Runner { dir, options };
    git.run("create a repository", &["init", "--quiet", "--template="]).await?;
    let wanted = match options.kind {
        RefKind::Branch => format!("refs/heads/{}", options.reference),
        RefKind::Tag => format!("refs/tags/{}", options.reference),
        RefKind::Commit | RefKind::Named => options.reference.clone(),
    };
    let depth = format!("--depth={}", options.depth.max(1));
    let fetch = ["fetch", "--quiet", "--no-tags", "--no-recurse-submodules"];
    let shallow = [&fetch[..], &[&depth, "--", &options.url, &wanted]].concat();
    match git.run("fetch the ref", &shallow).await {
        // Not every server allows fetching a single commit; all of them allow fetching branches.
        Err(Error::Git { .. }) if options.kind == RefKind::Commit => {
            let everything =
                [&fetch[..], &["--", &options.url, "+refs/heads/*:refs/remotes/origin/*"]].concat();
            git.run("fetch the branches", &everything).await?;
            git.run("check out the commit", &["checkout", "--quiet", "--detach", &options.reference, "--"])
                .await?;
        }
        outcome => {
            outcome?;
            git.run("check out the ref", &["checkout", "--quiet", "--detach", "FETCH_HEAD", "--"]).await?;
        }
    }
    let commit = git.run("resolve the commit", &["rev-parse", "HEAD"]).await?;
    let repository = dir.join(".git");
    fs::remove_dir_all(&repository).map_err(Error::file("remove", &repository))?;
    Ok(commit.trim().to_owned())
}

/// Rejects URLs that make git run a command.
pub(crate) fn check_url(url: &str) -> Result<(), Error> {
    let refuse = |why| Err(Error::BadUrl { url: redacted_url(url), why });
    if url.is_empty() || url.starts_with('-') || url.chars().any(char::is_control) {
        return refuse("it is not a URL");
    }
    if url.contains("::") {
        return refuse("URLs with a remote helper are not allowed");
    }
    Ok(())
}

/// Returns a URL without credentials and query.
pub(crate) fn redacted_url(url: &str) -> String {
    let bounded: String = url.chars().take(300).collect();
    match bounded.split_once("://") {
        Some((scheme, rest)) => {
            let (host, path) = rest.split_once('/').unwrap_or((rest, ""));
            let host = host.rsplit_once('@').map_or(host, |(_, host)| host);
            let path = path.split(['?', '#']).next().unwrap_or_default();
            format!("{scheme}://{host}/{path}")
        }
        None => bounded,
    }
}

struct Runner<'a> {
    dir: &'a Path,
    options: &'a GitOptions,
}

/// Git settings that prevent running anything in a repository.
const SAFE: [&str; 7] = [
    "core.hooksPath=/dev/null",
    "core.fsmonitor=false",
    "core.autocrlf=false",
    "protocol.ext.allow=never",
    "filter.lfs.smudge=",
    "filter.lfs.process=",
    "filter.lfs.required=false",
];

impl Runner<'_> {
    async fn run(&self, doing: &'static str, arguments: &[&str]) -> Result<String, Error> {
        let mut command = Command::new("git");
        command.current_dir(self.dir).kill_on_drop(true);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command.args(SAFE.iter().flat_map(|setting| ["-c", setting]));
        command.args(arguments);
        self.environment(&mut command);
        let output = tokio::time::timeout(self.options.timeout, command.output()).await;
        let seconds = self.options.timeout.as_secs();
        let output = output.map_err(|_| Error::TooSlow { doing: "git", seconds })?.map_err(Error::NoGit)?;
        if !output.status.success() {
            let stderr = String::from_utf8_lossy(&output.stderr);
            let stderr = stderr.replace(&self.options.url, &redacted_url(&self.options.url));
            let what: String = stderr.trim().chars().take(500).collect();
            return Err(Error::Git { doing, what });
        }
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }

    fn environment(&self, command: &mut Command) {
        for name in ["GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_OBJECT_DIRECTORY", "GIT_TEMPLATE_DIR"]
        {
            command.env_remove(name);
        }
        command.env("GIT_TERMINAL_PROMPT", "0").env("GIT_ASKPASS", "").env("LC_ALL", "C");
        if let Some(token) = &self.options.token {
            let pair = base64::engine::general_purpose::STANDARD.encode(format!("x-access-token:{token}"));
            // Send the token only to this URL, even if git is redirected to another one.
            let key = format!("http.{}.extraHeader", self.options.url);
            command.env("GIT_CONFIG_COUNT", "1").env("GIT_CONFIG_KEY_0", key);
            command.env("GIT_CONFIG_VALUE_0", format!("Authorization: Basic {pair}"));
        }
        let ssh = match &self.options.ssh_key {
            Some(key) => {
                let key = key.display().to_string().replace('\'', r"'\''");
                format!("ssh -i '{key}' -o IdentitiesOnly=yes -o BatchMode=yes")
            }
            None => "ssh -o BatchMode=yes".to_owned(),
        };
        command.env("GIT_SSH_COMMAND", ssh);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_that_run_commands_are_rejected() {
        for bad in ["", "--upload-pack=x", "ext::sh -c x", "a\nb"] {
            assert!(check_url(bad).is_err(), "{bad:?}");
        }
        for good in ["https://example.org/a.git", "git@example.org:a.git", "/srv/a", "file:///srv/a"] {
            assert!(check_url(good).is_ok(), "{good}");
        }
    }

    #[test]
    fn token_is_sent_only_to_its_url() {
        let url = "https://example.org/a.git";
        let options = GitOptions { token: Some("t0ken".to_owned()), ..GitOptions::new(url, "cache") };
        let mut command = Command::new("git");
        Runner { dir: Path::new("."), options: &options }.environment(&mut command);
        let variables: Vec<_> = command
            .as_std()
            .get_envs()
            .filter(|(name, _)| name.to_string_lossy().starts_with("GIT_CONFIG_"))
            .filter_map(|(name, value)| Some((name.to_str()?, value?.to_str()?)))
            .collect();
        let expected = [
            ("GIT_CONFIG_COUNT", "1"),
            ("GIT_CONFIG_KEY_0", "http.https://example.org/a.git.extraHeader"),
            ("GIT_CONFIG_VALUE_0", "Authorization: Basic eC1hY2Nlc3MtdG9rZW46dDBrZW4="),
        ];
        assert_eq!(variables, expected);
    }

    #[test]
    fn secrets_in_urls_are_redacted() {
        assert_eq!(redacted_url("https://me:secret@example.org/a.git?token=x"), "https://example.org/a.git");
        assert_eq!(redacted_url("git@example.org:a.git"), "git@example.org:a.git");
    }
}
