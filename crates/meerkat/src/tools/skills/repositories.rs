//! Configured skill repositories, including remote ones, which are updated in the background.
//!
//! Cached skills are served immediately until newer ones are fetched: nothing waits for the network.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use meerkat_core::BoxFuture;
use meerkat_skills::{
    Catalog, Directory, Effect, Fetch, FetchError, Git, GitOptions, Http, HttpOptions, Limits, Problem,
    Provenance, RefKind, Scope, Source, SourceId, Transport,
};
use tokio_util::sync::{CancellationToken, DropGuard};

use super::files::ProblemSource;
use crate::config::{GitRefType, SkillRepository, SkillsConfig};
use crate::secrets::SecretSource;

/// The configured repositories; dropping them stops their updates.
#[derive(Default)]
pub(super) struct Repositories {
    pub(super) sources: Vec<Arc<dyn Source>>,
    pub(super) remotes: Vec<Arc<Update>>,
    _updates: Option<DropGuard>,
}

/// A repository that has to be fetched.
enum Remote {
    Git(Arc<Git>),
    Http(Arc<Http>),
    /// A repository that cannot be fetched because this environment variable is not set.
    NoVariable(String),
}

/// A remote repository and its update interval.
pub(super) struct Update {
    name: String,
    remote: Remote,
    interval: Option<Duration>,
    /// File whose modification time is the time of the last fetch.
    stamp: std::path::PathBuf,
}

/// Creates sources for the configured repositories and starts their background updates.
pub(super) fn repositories(
    config: &SkillsConfig,
    cache: &Path,
    secrets: &SecretSource,
    catalog: &Catalog,
) -> Repositories {
    let mut result = Repositories::default();
    for repository in &config.repositories {
        let builder = SourceBuilder { cache: &cache.join(repository.source_uuid().to_string()), secrets };
        let (source, remote) = builder.build(repository).unwrap_or_else(|MissingVariable(name)| {
            (missing_variable_source(repository, &name), Some((Remote::NoVariable(name), None)))
        });
        result.sources.push(source);
        if let Some((remote, interval)) = remote {
            let (name, stamp) = (repository.name().to_owned(), builder.stamp(repository));
            result.remotes.push(Arc::new(Update { name, remote, interval, stamp }));
        }
    }
    let end = CancellationToken::new();
    for update in &result.remotes {
        let updates = Arc::clone(update).run(catalog.clone());
        tokio::spawn(end.clone().run_until_cancelled_owned(updates));
    }
    result._updates = Some(end.drop_guard());
    result
}

impl Update {
    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// Fetches new skills now.
    pub(super) async fn fetch(&self, catalog: &Catalog) -> Result<(), meerkat_skills::Error> {
        let outcome = match &self.remote {
            Remote::Git(git) => git.update().await,
            Remote::Http(http) => http.update().await,
            Remote::NoVariable(name) => Err(meerkat_skills::Error::NoVariable(name.clone())),
        };
        let (catalog, fetched) = (catalog.clone(), outcome.is_ok().then(|| self.stamp.clone()));
        let record = move || {
            if let Some(stamp) = fetched {
                // Without the stamp, the next process only fetches once more than needed.
                let _ = std::fs::write(stamp, "");
            }
            catalog.refresh();
        };
        // This fails only if a source panicked; the catalog then stays unchanged.
        let _ = tokio::task::spawn_blocking(record).await;
        outcome
    }

    /// Returns the time since the last fetch, if any.
    async fn age(&self) -> Option<Duration> {
        let stamp = self.stamp.clone();
        let modified = move || std::fs::metadata(stamp).and_then(|stamp| stamp.modified());
        let fetched = tokio::task::spawn_blocking(modified).await.ok()?.ok()?;
        SystemTime::now().duration_since(fetched).ok()
    }

    /// Fetches new skills periodically, starting now if an update is due.
    async fn run(self: Arc<Self>, catalog: Catalog) {
        if let Remote::NoVariable(_) = self.remote {
            // The environment variables of a process do not change.
            return;
        }
        let age = self.age().await;
        if let (Some(age), Some(interval)) = (age, self.interval) {
            tokio::time::sleep(interval.saturating_sub(age)).await;
        } else if age.is_some() {
            // A tag or a commit does not move.
            return;
        }
        loop {
            // The source reports a failure along with its cached skills.
            match (self.interval, self.fetch(&catalog).await) {
                (Some(interval), _) => tokio::time::sleep(interval).await,
                (None, Ok(())) => return,
                (None, Err(_)) => tokio::time::sleep(Duration::from_secs(300)).await,
            }
        }
    }
}

/// Builds the source of a repository.
struct SourceBuilder<'a> {
    cache: &'a Path,
    secrets: &'a SecretSource,
}

/// A source, and how it is fetched if it is remote.
type BuiltSource = (Arc<dyn Source>, Option<(Remote, Option<Duration>)>);

impl SourceBuilder<'_> {
    /// Returns the path of the stamp. It depends on the URL and ref, so a changed repository counts as not fetched.
    fn stamp(&self, repository: &SkillRepository) -> std::path::PathBuf {
        self.cache.join(format!("fetched-{}", digest(&locator(repository))))
    }

    fn build(&self, repository: &SkillRepository) -> Result<BuiltSource, MissingVariable> {
        let (provenance, limits) = (provenance(repository), Limits::default());
        Ok(match repository {
            SkillRepository::Filesystem { path, .. } => {
                (Arc::new(Directory::new(provenance, Scope::User, path.clone(), limits)), None)
            }
            SkillRepository::Git {
                url,
                git_ref,
                ref_type,
                skills_root,
                auth_token,
                ssh_key,
                refresh_seconds,
                depth,
                ..
            } => {
                let options = GitOptions {
                    reference: git_ref.clone(),
                    kind: match ref_type {
                        GitRefType::Branch => RefKind::Branch,
                        GitRefType::Tag => RefKind::Tag,
                        GitRefType::Commit => RefKind::Commit,
                    },
                    skills_root: skills_root.clone(),
                    token: auth_token.as_deref().map(|token| self.expand(token)).transpose()?,
                    ssh_key: ssh_key.clone(),
                    depth: *depth,
                    ..GitOptions::new(self.expand(url)?, self.cache)
                };
                let moves = *ref_type == GitRefType::Branch;
                let interval = moves.then(|| Duration::from_secs((*refresh_seconds).max(1)));
                let git = Arc::new(Git::new(provenance, Scope::User, options, limits));
                (Arc::clone(&git) as _, Some((Remote::Git(git), interval)))
            }
            SkillRepository::Http {
                url, auth_header, auth_token, refresh_seconds, timeout_seconds, ..
            } => {
                let header = |token: &String| {
                    let token = self.expand(token)?;
                    Ok(match auth_header {
                        Some(name) => (name.clone(), token),
                        None => ("authorization".to_owned(), format!("Bearer {token}")),
                    })
                };
                let options = HttpOptions {
                    url: self.expand(url)?,
                    headers: auth_token.iter().map(header).collect::<Result<_, MissingVariable>>()?,
                    timeout: Duration::from_secs(*timeout_seconds),
                    cache: self.cache.to_owned(),
                };
                let fetch = Arc::new(Fetcher(meerkat_fetch::Http::default()));
                let interval = Some(Duration::from_secs((*refresh_seconds).max(1)));
                let http = Arc::new(Http::new(provenance, Scope::User, options, fetch));
                (Arc::clone(&http) as _, Some((Remote::Http(http), interval)))
            }
        })
    }

    /// Expands `${NAME}` to environment variables. Returns an error for an unset variable, so that a placeholder is
    /// never sent in place of a value.
    fn expand(&self, text: &str) -> Result<String, MissingVariable> {
        let mut parts = text.split("${");
        let mut expanded = parts.next().unwrap_or_default().to_owned();
        for part in parts {
            let Some((name, rest)) = part.split_once('}') else {
                expanded.push_str("${");
                expanded.push_str(part);
                continue;
            };
            let value = (self.secrets)(name).ok_or_else(|| MissingVariable(name.to_owned()))?;
            expanded.push_str(&value);
            expanded.push_str(rest);
        }
        Ok(expanded)
    }
}

/// A required environment variable that is not set.
#[derive(Debug, PartialEq, Eq)]
struct MissingVariable(String);

/// Creates a source that reports that a required environment variable is not set.
fn missing_variable_source(repository: &SkillRepository, variable: &str) -> Arc<dyn Source> {
    let reason = format!("the environment variable `{variable}` in its URL or token is not set");
    let fix = "set it, or remove the repository from the config";
    let problem = Problem::new(Effect::Unreadable, repository.name(), reason, fix);
    ProblemSource::with_provenance(Arc::new(provenance(repository)), vec![problem])
}

/// Returns the part of the config that identifies a repository.
fn locator(repository: &SkillRepository) -> String {
    match repository {
        SkillRepository::Filesystem { path, .. } => path.display().to_string(),
        SkillRepository::Git { url, git_ref, ref_type: GitRefType::Branch, .. } => format!("{url}#{git_ref}"),
        SkillRepository::Git { url, git_ref, ref_type, .. } => format!("{url}#{ref_type:?}#{git_ref}"),
        SkillRepository::Http { url, .. } => url.clone(),
    }
}

fn digest(text: &str) -> String {
    let digest = meerkat_skills::Digest::compute(text.as_bytes()).to_string();
    digest.trim_start_matches("sha256:").chars().take(16).collect()
}

/// Returns the provenance of a repository; its fingerprint is derived from its locator.
fn provenance(repository: &SkillRepository) -> Provenance {
    let transport_kind = match repository {
        SkillRepository::Filesystem { .. } => Transport::Filesystem,
        SkillRepository::Git { .. } => Transport::Git,
        SkillRepository::Http { .. } => Transport::Http,
    };
    let id = SourceId::from_uuid(repository.source_uuid());
    let fingerprint = format!("repo-{}", digest(&locator(repository)));
    Provenance::new(id, repository.name(), transport_kind, fingerprint)
}

/// Fetches over the HTTP client used for providers.
struct Fetcher(meerkat_fetch::Http);

impl Fetch for Fetcher {
    fn get<'a>(
        &'a self,
        url: &'a str,
        headers: &'a [(String, String)],
        limit: usize,
    ) -> BoxFuture<'a, Result<Vec<u8>, FetchError>> {
        Box::pin(async move {
            use meerkat_fetch::FetchError as HttpError;
            self.0.fetch(url, headers, limit).await.map_err(|error| match error {
                HttpError::Unreachable(reason) => FetchError::Unreachable(reason),
                HttpError::Status(status) => FetchError::Status(status),
                HttpError::TooLong(limit) => FetchError::TooLong(limit),
                HttpError::NotCompiled => FetchError::Unreachable(error.to_string()),
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn repository(reference: &str) -> SkillRepository {
        SkillRepository::Git {
            name: "team".to_owned(),
            source_uuid: uuid::Uuid::from_u128(1),
            url: "https://git.example/${GROUP}/skills".to_owned(),
            git_ref: reference.to_owned(),
            ref_type: GitRefType::Tag,
            skills_root: None,
            auth_token: Some("${TOKEN}".to_owned()),
            ssh_key: None,
            refresh_seconds: 300,
            depth: 1,
        }
    }

    #[test]
    fn unset_variable_is_reported_by_name() {
        let secrets: SecretSource = Arc::new(|name: &str| (name == "GROUP").then(|| "us".to_owned()));
        let builder = SourceBuilder { cache: Path::new("cache"), secrets: &secrets };
        assert_eq!(builder.expand("a/${GROUP}/b"), Ok("a/us/b".to_owned()));
        assert_eq!(builder.build(&repository("v1")).err(), Some(MissingVariable("TOKEN".to_owned())));
        let problem = missing_variable_source(&repository("v1"), "TOKEN").scan().problems[0].to_string();
        let reason = "the environment variable `TOKEN` in its URL or token is not set";
        assert_eq!(problem, format!("team: {reason}; set it, or remove the repository from the config"));
    }

    #[test]
    fn changed_ref_counts_as_not_fetched() {
        let secrets: SecretSource = Arc::new(|_: &str| None);
        let builder = SourceBuilder { cache: Path::new("cache"), secrets: &secrets };
        assert_eq!(builder.stamp(&repository("v1")), builder.stamp(&repository("v1")));
        assert_ne!(builder.stamp(&repository("v1")), builder.stamp(&repository("v2")));
    }
}
