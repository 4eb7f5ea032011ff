//! Skills from git repositories and HTTP servers, and serving cached skills after failures.

use std::path::Path;
use std::process::Command;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use meerkat_core::BoxFuture;
use meerkat_skills::{
    Catalog, Effect, Error, Fetch, FetchError, Git, GitOptions, Http, HttpOptions, Limits, Policy,
    Provenance, RefKind, Scope, Source, SourceId, SourceStatus, Transport,
};

use crate::tree::{World, names, skill_text};

fn provenance(transport_kind: Transport) -> Provenance {
    Provenance {
        source_uuid: SourceId::from_location("remote"),
        display_name: "team".to_owned(),
        transport_kind,
        fingerprint: "repo-0000000000000000".to_owned(),
        status: SourceStatus::Active,
    }
}

/// Runs git without the user's settings.
fn git(dir: &Path, arguments: &[&str]) -> String {
    let output = Command::new("git")
        .current_dir(dir)
        .args(["-c", "user.name=t", "-c", "user.email=t@example.org", "-c", "commit.gpgsign=false"])
        .args(arguments)
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .env("GIT_CONFIG_SYSTEM", "/dev/null")
        .output()
        .unwrap();
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

fn commit(world: &World) -> String {
    let repository = world.path("repository");
    git(&repository, &["add", "."]);
    git(&repository, &["commit", "--quiet", "-m", "skills"]);
    git(&repository, &["rev-parse", "HEAD"])
}

fn repository() -> World {
    let world = World::new();
    world.skill("repository/skills", "pdf", "First");
    git(&world.path("repository"), &["init", "--quiet", "-b", "main"]);
    commit(&world);
    world
}

fn options(world: &World) -> GitOptions {
    let url = world.path("repository").display().to_string();
    GitOptions { skills_root: Some("skills".into()), ..GitOptions::new(url, world.path("cache")) }
}

fn source(options: GitOptions) -> (Arc<Git>, Catalog) {
    let source = Arc::new(Git::new(provenance(Transport::Git), Scope::User, options, Limits::default()));
    let catalog = Catalog::new(vec![Arc::clone(&source) as Arc<dyn Source>], Policy::default());
    (source, catalog)
}

fn description(catalog: &Catalog) -> String {
    catalog.refresh();
    catalog.snapshot().by_name("pdf").unwrap().description.clone()
}

#[tokio::test]
async fn branch_is_followed_and_commit_is_pinned() {
    let world = repository();
    let first = git(&world.path("repository"), &["rev-parse", "HEAD"]);
    let (branch, followed) = source(options(&world));
    let pinned = GitOptions {
        reference: first,
        kind: RefKind::Commit,
        cache: world.path("pinned"),
        ..options(&world)
    };
    let (commit_source, fixed) = source(pinned);
    assert_eq!(names(&followed.snapshot()), [""; 0]);
    branch.update().await.unwrap();
    commit_source.update().await.unwrap();
    assert_eq!([description(&followed), description(&fixed)], ["First", "First"]);

    world.skill("repository/skills", "pdf", "Second");
    commit(&world);
    branch.update().await.unwrap();
    commit_source.update().await.unwrap();
    assert_eq!([description(&followed), description(&fixed)], ["Second", "First"]);
}

#[tokio::test]
async fn changed_ref_is_fetched_and_served() {
    let world = repository();
    git(&world.path("repository"), &["tag", "v1"]);
    world.skill("repository/skills", "pdf", "Second");
    commit(&world);
    git(&world.path("repository"), &["tag", "v2"]);
    for (reference, expected) in [("v1", "First"), ("v2", "Second"), ("v1", "First")] {
        let pinned = GitOptions { reference: reference.to_owned(), kind: RefKind::Tag, ..options(&world) };
        let (source, catalog) = source(pinned);
        source.update().await.unwrap();
        assert_eq!(description(&catalog), expected, "{reference}");
    }
}

#[cfg(unix)]
#[tokio::test]
async fn symlinks_out_of_a_repository_are_skipped() {
    use std::os::unix::fs::symlink;
    let world = repository();
    world.skill("private", "secret", "Secret");
    world.skill("repository/shared", "common", "Common");
    symlink(world.path("private/secret"), world.path("repository/skills/secret")).unwrap();
    symlink("../shared/common", world.path("repository/skills/common")).unwrap();
    commit(&world);
    let (source, catalog) = source(options(&world));
    source.update().await.unwrap();
    catalog.refresh();
    assert_eq!(names(&catalog.snapshot()), ["common", "pdf"]);
    let reasons: Vec<_> =
        catalog.snapshot().problems().iter().map(|problem| problem.reason.clone()).collect();
    assert_eq!(reasons, ["is a symlink that leads out of its project or repository"]);
}

#[tokio::test]
async fn cached_skills_are_served_without_the_repository() {
    let world = repository();
    let (first, _) = source(options(&world));
    first.update().await.unwrap();
    std::fs::remove_dir_all(world.path("repository")).unwrap();
    let (later, catalog) = source(options(&world));
    assert!(matches!(later.update().await, Err(Error::Git { .. })));
    assert_eq!(description(&catalog), "First");
    let effects: Vec<_> = catalog.snapshot().problems().iter().map(|problem| problem.effect).collect();
    assert_eq!(effects, [Effect::Stale]);
}

#[cfg(unix)]
#[tokio::test]
async fn repository_code_is_never_run() {
    use std::os::unix::fs::PermissionsExt as _;
    let world = repository();
    let mark = world.path("mark");
    let script = format!("#!/bin/sh\ntouch {}\n", mark.display());
    let hook = world.write("hooks/post-checkout", &script);
    std::fs::set_permissions(&hook, std::fs::Permissions::from_mode(0o755)).unwrap();
    // The fetched repository and the template have the hook too.
    let own = world.write("repository/.git/hooks/post-checkout", &script);
    std::fs::set_permissions(&own, std::fs::Permissions::from_mode(0o755)).unwrap();
    let (source, catalog) = source(options(&world));
    source.update().await.unwrap();
    assert_eq!(description(&catalog), "First");
    assert!(!mark.exists());
}

#[tokio::test]
async fn unresponsive_repository_times_out() {
    let world = repository();
    let options = GitOptions { timeout: Duration::ZERO, ..options(&world) };
    let (source, _) = source(options);
    assert!(matches!(source.update().await, Err(Error::TooSlow { .. })));
}

#[tokio::test]
async fn url_secrets_are_not_reported() {
    let world = World::new();
    let url = "http://me:hunter2@127.0.0.1:1/x.git".to_owned();
    let (source, catalog) = source(GitOptions::new(url, world.path("cache")));
    let error = source.update().await.unwrap_err().to_string();
    catalog.refresh();
    let text = format!("{error} {:?}", catalog.snapshot().problems());
    assert!(text.contains("127.0.0.1") && !text.contains("hunter2"), "{text}");
}

/// A URL and its response.
type Page = (String, Result<Vec<u8>, FetchError>);

/// A server with responses set by the test.
#[derive(Default)]
struct Server {
    pages: Mutex<Vec<Page>>,
    seen: Mutex<Vec<(String, String)>>,
}

impl Server {
    fn set(&self, path: &str, answer: Result<&str, FetchError>) {
        let mut pages = self.pages.lock().unwrap();
        let url = format!("https://skills.example{path}");
        pages.retain(|(known, _)| *known != url);
        pages.push((url, answer.map(|text| text.as_bytes().to_vec())));
    }
}

impl Fetch for Server {
    fn get<'a>(
        &'a self,
        url: &'a str,
        headers: &'a [(String, String)],
        _: usize,
    ) -> BoxFuture<'a, Result<Vec<u8>, FetchError>> {
        let sent = headers.iter().map(|(name, value)| format!("{name}: {value}")).collect::<String>();
        self.seen.lock().unwrap().push((url.to_owned(), sent));
        let pages = self.pages.lock().unwrap();
        let page = pages.iter().find(|(known, _)| known == url).map(|(_, answer)| answer.clone());
        Box::pin(async move { page.unwrap_or(Err(FetchError::Status(404))) })
    }
}

fn http(world: &World, server: &Arc<Server>) -> (Arc<Http>, Catalog) {
    let options = HttpOptions {
        url: "https://skills.example".to_owned(),
        headers: vec![("Authorization".to_owned(), "Bearer t0ken".to_owned())],
        timeout: Duration::from_secs(15),
        cache: world.path("cache"),
    };
    let fetch = Arc::clone(server) as Arc<dyn Fetch>;
    let source = Arc::new(Http::new(provenance(Transport::Http), Scope::User, options, fetch));
    let catalog = Catalog::new(vec![Arc::clone(&source) as Arc<dyn Source>], Policy::default());
    (source, catalog)
}

#[tokio::test]
async fn server_skills_are_fetched_and_cached() {
    let world = World::new();
    let server = Arc::new(Server::default());
    server.set("", Ok(r#"{"skills": [{"name": "pdf"}, {"name": "xlsx"}, {"name": "../evil"}]}"#));
    server.set("/skills/pdf", Ok(&skill_text("pdf", "First")));
    server.set("/skills/xlsx", Ok(&skill_text("xlsx", "Tables")));
    let (source, catalog) = http(&world, &server);
    source.update().await.unwrap();
    catalog.refresh();
    assert_eq!(names(&catalog.snapshot()), ["pdf", "xlsx"]);
    let seen = server.seen.lock().unwrap().clone();
    assert!(seen.iter().all(|(url, sent)| !url.contains("evil") && sent == "Authorization: Bearer t0ken"));

    // One skill fails, and the other one is new: the first keeps its cached text.
    server.set("/skills/pdf", Err(FetchError::Status(500)));
    server.set("/skills/xlsx", Ok(&skill_text("xlsx", "New tables")));
    source.update().await.unwrap();
    assert_eq!(description(&catalog), "First");
    assert_eq!(catalog.snapshot().by_name("xlsx").unwrap().description, "New tables");
    assert_eq!(catalog.snapshot().problems()[0].reason, "these skills could not be fetched: pdf");

    // The server is unavailable: all cached skills are served, also by a later process.
    server.set("", Err(FetchError::Unreachable("refused".to_owned())));
    let (later, again) = http(&world, &server);
    let error = later.update().await.unwrap_err();
    assert_eq!(
        error.to_string(),
        "cannot fetch skills from `https://skills.example/`: the server cannot be reached: refused"
    );
    assert_eq!(names(&again.snapshot()), ["pdf", "xlsx"]);
    assert_eq!(again.snapshot().problems()[0].effect, Effect::Stale);

    // A skill that the server no longer lists is removed.
    server.set("", Ok(r#"["xlsx"]"#));
    later.update().await.unwrap();
    again.refresh();
    assert_eq!((names(&again.snapshot()), again.snapshot().problems().len()), (vec!["xlsx".to_owned()], 0));
}

#[tokio::test]
async fn server_skill_names_may_have_any_characters() {
    let world = World::new();
    let server = Arc::new(Server::default());
    server.set("", Ok(r#"["CI/CD", "", "..", "a/../b"]"#));
    server.set("/skills/CI%2FCD", Ok(&skill_text("CI/CD", "Pipelines")));
    let (source, catalog) = http(&world, &server);
    source.update().await.unwrap();
    catalog.refresh();
    assert_eq!(names(&catalog.snapshot()), ["CI/CD"]);
    let urls: Vec<_> = server.seen.lock().unwrap().iter().map(|(url, _)| url.clone()).collect();
    assert_eq!(urls, ["https://skills.example", "https://skills.example/skills/CI%2FCD"]);
}

#[tokio::test]
async fn response_without_a_list_is_rejected() {
    let world = World::new();
    let server = Arc::new(Server::default());
    let (source, _) = http(&world, &server);
    for answer in ["<html>", "{}", "\"pdf\""] {
        server.set("", Ok(answer));
        assert!(matches!(source.update().await, Err(Error::BadCatalog { .. })), "{answer}");
    }
}
