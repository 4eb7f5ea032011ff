//! Watching: new, changed, and deleted skills, and roots that are created later.

use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use meerkat_skills::{
    Catalog, FsEvents, Limits, Policy, Provenance, Refreshed, Roots, ScanResult, Snapshot, Source, Watch,
    WatchOptions, standard_roots,
};
use tokio::sync::watch::Receiver;

use crate::tree::{World, names, skill_text};

/// Timeout of each wait.
const TIMEOUT: Duration = Duration::from_secs(60);

struct Observer {
    snapshots: Receiver<Arc<Snapshot>>,
    _watch: Watch,
}

impl Observer {
    fn new(catalog: &Catalog, notices: FsEvents) -> Self {
        let snapshots = catalog.subscribe();
        let interval = match notices {
            // Only an event can report a change in time.
            FsEvents::Enabled => TIMEOUT * 10,
            FsEvents::Disabled => Duration::from_millis(20),
        };
        let quiet = Duration::from_millis(20);
        let options = WatchOptions { quiet, interval, fs_events: notices, ..WatchOptions::default() };
        Self { snapshots, _watch: catalog.watch(options).unwrap() }
    }

    /// Waits for a snapshot that satisfies `expected`.
    async fn wait_for(&mut self, what: &str, expected: impl Fn(&Snapshot) -> bool) {
        let observed = self.snapshots.wait_for(|snapshot| expected(snapshot));
        assert!(tokio::time::timeout(TIMEOUT, observed).await.is_ok(), "{what} was not observed");
    }
}

async fn check_all_changes(notices: FsEvents) {
    let world = World::new();
    world.skill("project/.agent/skills", "first", "First");
    let catalog = world.catalog();
    let mut observer = Observer::new(&catalog, notices);
    observer.wait_for("the first scan", |snapshot| names(snapshot) == ["first"]).await;

    world.skill("project/.agent/skills", "second", "Second");
    observer.wait_for("a new skill", |snapshot| names(snapshot) == ["first", "second"]).await;

    world.write("project/.agent/skills/second/SKILL.md", skill_text("second", "Changed"));
    let changed =
        |snapshot: &Snapshot| snapshot.by_name("second").is_ok_and(|skill| skill.description == "Changed");
    observer.wait_for("a changed skill", changed).await;

    fs::remove_dir_all(world.path("project/.agent/skills/first")).unwrap();
    observer.wait_for("a deleted skill", |snapshot| names(snapshot) == ["second"]).await;

    world.skill("home/.claude/skills", "third", "Third");
    observer.wait_for("a new root", |snapshot| names(snapshot) == ["second", "third"]).await;

    world.skill("home/.claude/skills", "fourth", "Fourth");
    observer.wait_for("a skill in that root", |snapshot| snapshot.by_name("fourth").is_ok()).await;

    fs::remove_dir_all(world.path("home/.claude")).unwrap();
    observer.wait_for("a removed root", |snapshot| names(snapshot) == ["second"]).await;

    world.skill("home/.claude/skills", "fifth", "Fifth");
    observer.wait_for("a recreated root", |snapshot| names(snapshot) == ["fifth", "second"]).await;
}

#[tokio::test]
async fn file_system_events_report_changes() {
    check_all_changes(FsEvents::Enabled).await;
}

#[tokio::test]
async fn periodic_scans_find_changes() {
    check_all_changes(FsEvents::Disabled).await;
}

#[cfg(unix)]
#[tokio::test]
async fn changes_behind_a_symlink_are_found() {
    let world = World::new();
    world.skill("elsewhere", "linked", "Linked");
    fs::create_dir_all(world.path("home/.agent/skills")).unwrap();
    let link = world.path("home/.agent/skills/linked");
    std::os::unix::fs::symlink(world.path("elsewhere/linked"), link).unwrap();
    let catalog = world.catalog();
    let mut observer = Observer::new(&catalog, FsEvents::Enabled);
    observer.wait_for("the linked skill", |snapshot| names(snapshot) == ["linked"]).await;
    world.write("elsewhere/linked/SKILL.md", skill_text("linked", "Changed"));
    let changed =
        |snapshot: &Snapshot| snapshot.by_name("linked").is_ok_and(|skill| skill.description == "Changed");
    observer.wait_for("the change", changed).await;
}

#[tokio::test]
async fn root_above_other_roots_is_watched_recursively() {
    let world = World::new();
    let roots = Roots { extra: vec![world.path("project")], ..world.roots() };
    let catalog = Catalog::new(standard_roots(&roots, Limits::default()), Policy::default());
    let mut observer = Observer::new(&catalog, FsEvents::Enabled);
    observer.wait_for("the first scan", |snapshot| snapshot.generation() > 0).await;
    world.skill("project/group", "deep", "Deep");
    observer.wait_for("a new skill", |snapshot| names(snapshot) == ["deep"]).await;
    world.write("project/group/deep/SKILL.md", skill_text("deep", "Changed"));
    let changed =
        |snapshot: &Snapshot| snapshot.by_name("deep").is_ok_and(|skill| skill.description == "Changed");
    observer.wait_for("the change", changed).await;
}

#[tokio::test]
async fn too_many_directories_are_scanned_periodically() {
    let world = World::new();
    for name in ["a", "b", "c"] {
        world.skill("project/.agent/skills", name, "One");
    }
    let catalog = world.catalog();
    let mut snapshots = catalog.subscribe();
    let (quiet, interval) = (Duration::from_millis(20), Duration::from_millis(20));
    let options = WatchOptions { quiet, interval, fs_events: FsEvents::Enabled, dirs: 2 };
    let _watch = catalog.watch(options).unwrap();
    let first = snapshots.wait_for(|snapshot| names(snapshot).len() == 3);
    assert!(tokio::time::timeout(TIMEOUT, first).await.is_ok());
    world.skill("project/.agent/skills", "d", "New");
    let seen = snapshots.wait_for(|snapshot| names(snapshot).len() == 4);
    assert!(tokio::time::timeout(TIMEOUT, seen).await.is_ok());
    catalog.refresh_if_stale();
    assert!(!catalog.is_up_to_date(), "events are incomplete");
}

#[tokio::test]
async fn unrelated_changes_do_not_delay_scans() {
    let world = World::new();
    let scans = Arc::new(AtomicUsize::new(0));
    let counted =
        |inner| Arc::new(Counted { inner, scans: Arc::clone(&scans), only: None }) as Arc<dyn Source>;
    let sources: Vec<_> =
        standard_roots(&world.roots(), Limits::default()).into_iter().map(counted).collect();
    let first = sources.len() * 3;
    let catalog = Catalog::new(sources, Policy::default());
    let (quiet, interval) = (Duration::from_millis(20), Duration::from_millis(500));
    let options = WatchOptions { quiet, interval, ..WatchOptions::default() };
    let _watch = catalog.watch(options).unwrap();
    let busy = async {
        let mut times = 0;
        while scans.load(Ordering::SeqCst) <= first {
            times += 1;
            world.write("project/unrelated.txt", times.to_string());
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    assert!(tokio::time::timeout(TIMEOUT, busy).await.is_ok(), "the periodic scan never ran");
}

#[tokio::test]
async fn changed_bundled_file_is_reported() {
    let world = World::new();
    world.skill("project/.agent/skills", "pdf", "PDFs");
    world.write("project/.agent/skills/pdf/references/a.md", "A.");
    let catalog = world.catalog();
    let (sender, mut changes) = tokio::sync::mpsc::unbounded_channel();
    catalog.on_file(move |skill, file| {
        let _ = sender.send((skill.name.clone(), file.to_owned()));
    });
    let mut observer = Observer::new(&catalog, FsEvents::Enabled);
    observer.wait_for("the first scan", |snapshot| names(snapshot) == ["pdf"]).await;
    let quiet = async {
        while !catalog.is_up_to_date() {
            catalog.refresh_if_stale();
            tokio::task::yield_now().await;
        }
    };
    assert!(tokio::time::timeout(TIMEOUT, quiet).await.is_ok(), "the watch never started");
    world.write("project/.agent/skills/pdf/.env", "hidden");
    world.write("project/.agent/skills/pdf/references/a.md", "B.");
    let change = tokio::time::timeout(TIMEOUT, changes.recv()).await.unwrap();
    assert_eq!(change, Some(("pdf".to_owned(), "references/a.md".to_owned())));
}

/// The ended thread of a watch no longer holds the sources of its catalog.
#[tokio::test]
async fn dropped_watch_ends_its_thread() {
    let world = World::new();
    let catalog = world.catalog();
    let mut observer = Observer::new(&catalog, FsEvents::Enabled);
    observer.wait_for("the first scan", |snapshot| snapshot.generation() > 0).await;
    let marker = Arc::new(());
    let held = Arc::clone(&marker);
    catalog.on_change(move |_, _| drop(Arc::clone(&held)));
    drop(observer);
    drop(catalog);
    let ended = async {
        while Arc::strong_count(&marker) > 1 {
            tokio::task::yield_now().await;
        }
    };
    assert!(tokio::time::timeout(TIMEOUT, ended).await.is_ok(), "the thread is still running");
}

/// A source that counts its scans, by any thread or only by one, because a watch scans on its own thread.
struct Counted {
    inner: Arc<dyn Source>,
    scans: Arc<AtomicUsize>,
    only: Option<std::thread::ThreadId>,
}

impl Source for Counted {
    fn provenance(&self) -> &Arc<Provenance> {
        self.inner.provenance()
    }

    fn scan(&self) -> Arc<ScanResult> {
        if self.only.is_none_or(|thread| thread == std::thread::current().id()) {
            self.scans.fetch_add(1, Ordering::SeqCst);
        }
        self.inner.scan()
    }
}

#[tokio::test]
async fn watched_catalog_is_not_scanned_without_changes() {
    let world = World::new();
    world.skill("project/.agent/skills", "first", "First");
    let scans = Arc::new(AtomicUsize::new(0));
    let only = Some(std::thread::current().id());
    let counted = |inner| Arc::new(Counted { inner, scans: Arc::clone(&scans), only }) as Arc<dyn Source>;
    let sources = standard_roots(&world.roots(), Limits::default()).into_iter().map(counted).collect();
    let catalog = Catalog::new(sources, Policy::default());
    let mut observer = Observer::new(&catalog, FsEvents::Enabled);
    observer.wait_for("the first scan", |snapshot| names(snapshot) == ["first"]).await;
    let quiet = async {
        while !catalog.is_up_to_date() {
            catalog.refresh_if_stale();
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(TIMEOUT, quiet).await.expect("the watch becomes quiet");
    let before = scans.load(Ordering::SeqCst);
    assert!((0..100).all(|_| catalog.refresh_if_stale() == Refreshed::Unchanged));
    assert_eq!(scans.load(Ordering::SeqCst), before);

    world.skill("project/.agent/skills", "second", "Second");
    observer.wait_for("a new skill", |snapshot| names(snapshot) == ["first", "second"]).await;

    drop(observer);
    let before = scans.load(Ordering::SeqCst);
    catalog.refresh_if_stale();
    assert!(scans.load(Ordering::SeqCst) > before, "without a watch, every refresh scans");
}

#[test]
fn listener_gets_old_and_new_snapshot() {
    let world = World::new();
    let catalog = world.catalog();
    let changes = Arc::new(std::sync::Mutex::new(Vec::new()));
    let log = Arc::clone(&changes);
    catalog.on_change(move |old, new| log.lock().unwrap().push((names(old), names(new))));
    catalog.refresh();
    world.skill("home/.rkat/skills", "first", "First");
    catalog.refresh();
    catalog.refresh();
    let none: Vec<String> = Vec::new();
    let expected = [(none.clone(), none.clone()), (none, vec!["first".to_owned()])];
    assert_eq!(*changes.lock().unwrap(), expected);
}
