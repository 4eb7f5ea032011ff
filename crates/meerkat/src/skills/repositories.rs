//! Places that skills come from besides directories on this machine, kept up to date in the background.
//!
//! What was fetched before is served at once and as long as nothing newer can be had: nobody waits for a network.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use meerkat_core::BoxFuture;
use meerkat_skills::{
    Catalogue, Effect, Fetch, FetchError, Folder, Git, GitOptions, Http, HttpOptions, Limits, Problem,
    Provenance, RefKind, Scope, Source, SourceId, SourceStatus, Transport,
};
use tokio_util::sync::{CancellationToken, DropGuard};

use super::files::Notes;
use crate::SecretSource;
use crate::config::{GitRefType, SkillRepository, SkillsConfig};
use crate::features::Reach;

/// The configured places; dropping them ends their updates.
#[derive(Default)]
pub(super) struct Repositories {
    pub(super) sources: Vec<Arc<dyn Source>>,
    pub(super) remotes: Vec<Arc<Update>>,
    _updates: Option<DropGuard>,
}

/// Something that has to be fetched.
enum Remote {
    Git(Arc<Git>),
    Http(Arc<Http>),
    /// It cannot be asked without this variable.
    NoVariable(String),
}

/// A remote place and how often it is asked.
pub(super) struct Update {
    name: String,
    remote: Remote,
    every: Option<Duration>,
    /// The file that says when it was fetched the last time.
    stamp: std::path::PathBuf,
}

/// Makes sources of the configured places, and starts to keep them up to date.
pub(super) fn repositories(
    config: &SkillsConfig,
    cache: &Path,
    secrets: &SecretSource,
    catalogue: &Catalogue,
) -> Repositories {
    let mut made = Repositories::default();
    for repository in &config.repositories {
        let place = Place { cache: &cache.join(repository.source_uuid().to_string()), secrets };
        let (remote, every) = match place.make(repository) {
            Err(NoVariable(name)) => {
                made.sources.push(without(repository, &name));
                (Remote::NoVariable(name), None)
            }
            Ok(Made::Folder(folder)) => {
                made.sources.push(folder);
                continue;
            }
            Ok(Made::Git(git, every)) => {
                made.sources.push(Arc::clone(&git) as _);
                (Remote::Git(git), every)
            }
            Ok(Made::Http(http, every)) => {
                made.sources.push(Arc::clone(&http) as _);
                (Remote::Http(http), every)
            }
        };
        let (name, stamp) = (repository.name().to_owned(), place.stamp(repository));
        made.remotes.push(Arc::new(Update { name, remote, every, stamp }));
    }
    let end = CancellationToken::new();
    for update in &made.remotes {
        let keep = Arc::clone(update).keep(catalogue.clone());
        tokio::spawn(end.clone().run_until_cancelled_owned(keep));
    }
    made._updates = Some(end.drop_guard());
    made
}

impl Update {
    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// Fetches what is new now.
    pub(super) async fn fetch(&self, catalogue: &Catalogue) -> Result<(), meerkat_skills::Error> {
        let done = match &self.remote {
            Remote::Git(git) => git.update().await,
            Remote::Http(http) => http.update().await,
            Remote::NoVariable(name) => Err(meerkat_skills::Error::NoVariable(name.clone())),
        };
        let (catalogue, fetched) = (catalogue.clone(), done.is_ok().then(|| self.stamp.clone()));
        let note = move || {
            if let Some(stamp) = fetched {
                // Without it, the next process only fetches once more.
                let _ = std::fs::write(stamp, "");
            }
            catalogue.refresh();
        };
        // It fails only if a source panicked; what was known before stays.
        let _ = tokio::task::spawn_blocking(note).await;
        done
    }

    /// Returns how long ago it was fetched the last time, if it was.
    async fn age(&self) -> Option<Duration> {
        let stamp = self.stamp.clone();
        let modified = move || std::fs::metadata(stamp).and_then(|stamp| stamp.modified());
        let fetched = tokio::task::spawn_blocking(modified).await.ok()?.ok()?;
        SystemTime::now().duration_since(fetched).ok()
    }

    /// Fetches what is new, now if it is due and then from time to time.
    async fn keep(self: Arc<Self>, catalogue: Catalogue) {
        if let Remote::NoVariable(_) = self.remote {
            // The variables of a process stay as they are.
            return;
        }
        let age = self.age().await;
        if let (Some(age), Some(every)) = (age, self.every) {
            tokio::time::sleep(every.saturating_sub(age)).await;
        } else if age.is_some() {
            // A tag or a commit does not move.
            return;
        }
        loop {
            // A failure is a problem of the source, which tells it with what it has.
            match (self.every, self.fetch(&catalogue).await) {
                (Some(every), _) => tokio::time::sleep(every).await,
                (None, Ok(())) => return,
                (None, Err(_)) => tokio::time::sleep(Duration::from_secs(300)).await,
            }
        }
    }
}

/// Where a place is kept.
struct Place<'a> {
    cache: &'a Path,
    secrets: &'a SecretSource,
}

enum Made {
    Folder(Arc<Folder>),
    Git(Arc<Git>, Option<Duration>),
    Http(Arc<Http>, Option<Duration>),
}

impl Place<'_> {
    /// Another address or ref was not fetched yet, whatever was fetched before.
    fn stamp(&self, repository: &SkillRepository) -> std::path::PathBuf {
        self.cache.join(format!("fetched-{}", digest(&locator(repository))))
    }

    fn make(&self, repository: &SkillRepository) -> Result<Made, NoVariable> {
        let limits = Limits::default();
        Ok(match repository {
            SkillRepository::Filesystem { path, .. } => {
                let provenance = provenance(repository);
                Made::Folder(Arc::new(Folder::new(provenance, Scope::User, path.clone(), limits)))
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
                    token: auth_token.as_deref().map(|token| self.expanded(token)).transpose()?,
                    ssh_key: ssh_key.clone(),
                    depth: *depth,
                    ..GitOptions::new(self.expanded(url)?, self.cache)
                };
                let provenance = provenance(repository);
                let moves = *ref_type == GitRefType::Branch;
                let every = moves.then(|| Duration::from_secs((*refresh_seconds).max(1)));
                Made::Git(Arc::new(Git::new(provenance, Scope::User, options, limits)), every)
            }
            SkillRepository::Http {
                url, auth_header, auth_token, refresh_seconds, timeout_seconds, ..
            } => {
                let header = |token: &String| {
                    let token = self.expanded(token)?;
                    Ok(match auth_header {
                        Some(name) => (name.clone(), token),
                        None => ("authorization".to_owned(), format!("Bearer {token}")),
                    })
                };
                let options = HttpOptions {
                    url: self.expanded(url)?,
                    headers: auth_token.iter().map(header).collect::<Result<_, NoVariable>>()?,
                    timeout: Duration::from_secs(*timeout_seconds),
                    cache: self.cache.to_owned(),
                };
                let provenance = provenance(repository);
                let fetch = Arc::new(Fetcher(Reach::default()));
                let every = Some(Duration::from_secs((*refresh_seconds).max(1)));
                Made::Http(Arc::new(Http::new(provenance, Scope::User, options, fetch)), every)
            }
        })
    }

    /// Puts variables in place of `${NAME}`. Nothing is sent with a name where a value should be.
    fn expanded(&self, text: &str) -> Result<String, NoVariable> {
        let mut parts = text.split("${");
        let mut expanded = parts.next().unwrap_or_default().to_owned();
        for part in parts {
            let Some((name, rest)) = part.split_once('}') else {
                expanded.push_str("${");
                expanded.push_str(part);
                continue;
            };
            let value = (self.secrets)(name).ok_or_else(|| NoVariable(name.to_owned()))?;
            expanded.push_str(&value);
            expanded.push_str(rest);
        }
        Ok(expanded)
    }
}

/// A variable that is needed and not set.
#[derive(Debug, PartialEq, Eq)]
struct NoVariable(String);

/// A place that cannot be asked without a variable, and says so.
fn without(repository: &SkillRepository, variable: &str) -> Arc<dyn Source> {
    let problem = Problem {
        effect: Effect::Unreadable,
        path: repository.name().into(),
        line: None,
        reason: format!("the variable `{variable}` of its address or token is not set"),
        fix: "set it, or take the repository out of the config".to_owned(),
    };
    Notes::of(provenance(repository), vec![problem])
}

/// What tells a place from others, as it is written in the config.
fn locator(repository: &SkillRepository) -> String {
    match repository {
        SkillRepository::Filesystem { path, .. } => path.display().to_string(),
        SkillRepository::Git { url, git_ref, ref_type: GitRefType::Branch, .. } => format!("{url}#{git_ref}"),
        SkillRepository::Git { url, git_ref, ref_type, .. } => format!("{url}#{ref_type:?}#{git_ref}"),
        SkillRepository::Http { url, .. } => url.clone(),
    }
}

fn digest(text: &str) -> String {
    let digest = meerkat_skills::Digest::of(text.as_bytes()).to_string();
    digest.trim_start_matches("sha256:").chars().take(16).collect()
}

/// Names a place; what tells it from others is made of its locator.
fn provenance(repository: &SkillRepository) -> Provenance {
    let transport_kind = match repository {
        SkillRepository::Filesystem { .. } => Transport::Filesystem,
        SkillRepository::Git { .. } => Transport::Git,
        SkillRepository::Http { .. } => Transport::Http,
    };
    Provenance {
        source_uuid: SourceId::from_uuid(repository.source_uuid()),
        display_name: repository.name().to_owned(),
        transport_kind,
        fingerprint: format!("repo-{}", digest(&locator(repository))),
        status: SourceStatus::Active,
    }
}

/// Asks servers with the client that reaches providers.
struct Fetcher(Reach);

impl Fetch for Fetcher {
    fn get<'a>(
        &'a self,
        url: &'a str,
        headers: &'a [(String, String)],
        limit: usize,
    ) -> BoxFuture<'a, Result<Vec<u8>, FetchError>> {
        Box::pin(crate::features::fetch(&self.0, url, headers, limit))
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
    fn a_variable_that_is_not_set_is_told_by_its_name() {
        let secrets: SecretSource = Arc::new(|name: &str| (name == "GROUP").then(|| "us".to_owned()));
        let place = Place { cache: Path::new("cache"), secrets: &secrets };
        assert_eq!(place.expanded("a/${GROUP}/b"), Ok("a/us/b".to_owned()));
        assert_eq!(place.make(&repository("v1")).err(), Some(NoVariable("TOKEN".to_owned())));
        let told = without(&repository("v1"), "TOKEN").look().problems[0].to_string();
        let reason = "the variable `TOKEN` of its address or token is not set";
        assert_eq!(told, format!("team: {reason}; set it, or take the repository out of the config"));
    }

    #[test]
    fn another_ref_was_not_fetched_yet() {
        let secrets: SecretSource = Arc::new(|_: &str| None);
        let place = Place { cache: Path::new("cache"), secrets: &secrets };
        assert_eq!(place.stamp(&repository("v1")), place.stamp(&repository("v1")));
        assert_ne!(place.stamp(&repository("v1")), place.stamp(&repository("v2")));
    }
}
