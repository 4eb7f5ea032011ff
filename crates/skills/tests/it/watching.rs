//! Changes are seen by themselves: new, changed and deleted skills, and roots that come later.

use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use meerkat_skills::{
    Catalogue, Found, Limits, Notices, Policy, Provenance, Refreshed, Roots, Snapshot, Source, Watch,
    WatchOptions, standard_roots,
};
use tokio::sync::watch::Receiver;

use crate::tree::{World, names, skill_text};

/// A test that waits longer has failed.
const PATIENCE: Duration = Duration::from_secs(60);

struct Observer {
    snapshots: Receiver<Arc<Snapshot>>,
    _watch: Watch,
}

impl Observer {
    fn new(catalogue: &Catalogue, notices: Notices) -> Self {
        let snapshots = catalogue.subscribe();
        let interval = match notices {
            // Only a notice can bring a change in time.
            Notices::Asked => PATIENCE * 10,
            Notices::Unasked => Duration::from_millis(20),
        };
        let quiet = Duration::from_millis(20);
        let options = WatchOptions { quiet, interval, notices, ..WatchOptions::default() };
        Self { snapshots, _watch: catalogue.watch(options).unwrap() }
    }

    /// Waits for a snapshot that is as it should be.
    async fn see(&mut self, what: &str, wanted: impl Fn(&Snapshot) -> bool) {
        let seen = self.snapshots.wait_for(|snapshot| wanted(snapshot));
        assert!(tokio::time::timeout(PATIENCE, seen).await.is_ok(), "{what} was not seen");
    }
}

async fn all_changes_are_seen(notices: Notices) {
    let world = World::new();
    world.skill("project/.agent/skills", "first", "First");
    let catalogue = world.catalogue();
    let mut observer = Observer::new(&catalogue, notices);
    observer.see("the first look", |snapshot| names(snapshot) == ["first"]).await;

    world.skill("project/.agent/skills", "second", "Second");
    observer.see("a new skill", |snapshot| names(snapshot) == ["first", "second"]).await;

    world.write("project/.agent/skills/second/SKILL.md", skill_text("second", "Changed"));
    let changed =
        |snapshot: &Snapshot| snapshot.by_name("second").is_ok_and(|skill| skill.description == "Changed");
    observer.see("a changed skill", changed).await;

    fs::remove_dir_all(world.path("project/.agent/skills/first")).unwrap();
    observer.see("a deleted skill", |snapshot| names(snapshot) == ["second"]).await;

    world.skill("home/.claude/skills", "third", "Third");
    observer.see("a root that came later", |snapshot| names(snapshot) == ["second", "third"]).await;

    world.skill("home/.claude/skills", "fourth", "Fourth");
    observer.see("a skill in that root", |snapshot| snapshot.by_name("fourth").is_ok()).await;

    fs::remove_dir_all(world.path("home/.claude")).unwrap();
    observer.see("a root that went away", |snapshot| names(snapshot) == ["second"]).await;

    world.skill("home/.claude/skills", "fifth", "Fifth");
    observer.see("a root that came back", |snapshot| names(snapshot) == ["fifth", "second"]).await;
}

#[tokio::test]
async fn changes_are_seen_by_notices() {
    all_changes_are_seen(Notices::Asked).await;
}

#[tokio::test]
async fn changes_are_seen_by_looking() {
    all_changes_are_seen(Notices::Unasked).await;
}

#[cfg(unix)]
#[tokio::test]
async fn changes_behind_a_link_are_seen() {
    let world = World::new();
    world.skill("elsewhere", "linked", "Linked");
    fs::create_dir_all(world.path("home/.agent/skills")).unwrap();
    let link = world.path("home/.agent/skills/linked");
    std::os::unix::fs::symlink(world.path("elsewhere/linked"), link).unwrap();
    let catalogue = world.catalogue();
    let mut observer = Observer::new(&catalogue, Notices::Asked);
    observer.see("the linked skill", |snapshot| names(snapshot) == ["linked"]).await;
    world.write("elsewhere/linked/SKILL.md", skill_text("linked", "Changed"));
    let changed =
        |snapshot: &Snapshot| snapshot.by_name("linked").is_ok_and(|skill| skill.description == "Changed");
    observer.see("the change", changed).await;
}

#[tokio::test]
async fn a_folder_that_is_also_above_other_roots_is_watched_whole() {
    let world = World::new();
    let roots = Roots { extra: vec![world.path("project")], ..world.roots() };
    let catalogue = Catalogue::new(standard_roots(&roots, Limits::default()), Policy::default());
    let mut observer = Observer::new(&catalogue, Notices::Asked);
    observer.see("the first look", |snapshot| snapshot.generation() > 0).await;
    world.skill("project/group", "deep", "Deep");
    observer.see("a new skill", |snapshot| names(snapshot) == ["deep"]).await;
    world.write("project/group/deep/SKILL.md", skill_text("deep", "Changed"));
    let changed =
        |snapshot: &Snapshot| snapshot.by_name("deep").is_ok_and(|skill| skill.description == "Changed");
    observer.see("the change", changed).await;
}

#[tokio::test]
async fn a_folder_with_too_many_folders_is_looked_at_instead() {
    let world = World::new();
    for name in ["a", "b", "c"] {
        world.skill("project/.agent/skills", name, "One");
    }
    let catalogue = world.catalogue();
    let mut snapshots = catalogue.subscribe();
    let (quiet, interval) = (Duration::from_millis(20), Duration::from_millis(20));
    let options = WatchOptions { quiet, interval, notices: Notices::Asked, folders: 2 };
    let _watch = catalogue.watch(options).unwrap();
    let first = snapshots.wait_for(|snapshot| names(snapshot).len() == 3);
    assert!(tokio::time::timeout(PATIENCE, first).await.is_ok());
    world.skill("project/.agent/skills", "d", "New");
    let seen = snapshots.wait_for(|snapshot| names(snapshot).len() == 4);
    assert!(tokio::time::timeout(PATIENCE, seen).await.is_ok());
    catalogue.catch_up();
    assert!(!catalogue.is_quiet(), "nobody may rely on notices");
}

#[tokio::test]
async fn changes_that_do_not_matter_put_off_no_look() {
    let world = World::new();
    let looks = Arc::new(AtomicUsize::new(0));
    let counted =
        |inner| Arc::new(Counted { inner, looks: Arc::clone(&looks), only: None }) as Arc<dyn Source>;
    let sources: Vec<_> =
        standard_roots(&world.roots(), Limits::default()).into_iter().map(counted).collect();
    let first = sources.len() * 3;
    let catalogue = Catalogue::new(sources, Policy::default());
    let (quiet, interval) = (Duration::from_millis(20), Duration::from_millis(500));
    let options = WatchOptions { quiet, interval, ..WatchOptions::default() };
    let _watch = catalogue.watch(options).unwrap();
    let busy = async {
        let mut times = 0;
        while looks.load(Ordering::SeqCst) <= first {
            times += 1;
            world.write("project/unrelated.txt", times.to_string());
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    assert!(tokio::time::timeout(PATIENCE, busy).await.is_ok(), "the look from time to time never came");
}

#[tokio::test]
async fn a_changed_file_beside_a_skill_is_told_of() {
    let world = World::new();
    world.skill("project/.agent/skills", "pdf", "PDFs");
    world.write("project/.agent/skills/pdf/references/a.md", "A.");
    let catalogue = world.catalogue();
    let (tell, mut told) = tokio::sync::mpsc::unbounded_channel();
    catalogue.on_file(move |skill, file| {
        let _ = tell.send((skill.name.clone(), file.to_owned()));
    });
    let mut observer = Observer::new(&catalogue, Notices::Asked);
    observer.see("the first look", |snapshot| names(snapshot) == ["pdf"]).await;
    let quiet = async {
        while !catalogue.is_quiet() {
            catalogue.catch_up();
            tokio::task::yield_now().await;
        }
    };
    assert!(tokio::time::timeout(PATIENCE, quiet).await.is_ok(), "the watch never began");
    world.write("project/.agent/skills/pdf/.env", "hidden");
    world.write("project/.agent/skills/pdf/references/a.md", "B.");
    let heard = tokio::time::timeout(PATIENCE, told.recv()).await.unwrap();
    assert_eq!(heard, Some(("pdf".to_owned(), "references/a.md".to_owned())));
}

/// A watch whose thread has ended holds the sources of its catalog no longer.
#[tokio::test]
async fn a_watch_that_is_dropped_ends() {
    let world = World::new();
    let catalogue = world.catalogue();
    let mut observer = Observer::new(&catalogue, Notices::Asked);
    observer.see("the first look", |snapshot| snapshot.generation() > 0).await;
    let marker = Arc::new(());
    let held = Arc::clone(&marker);
    catalogue.on_change(move |_, _| drop(Arc::clone(&held)));
    drop(observer);
    drop(catalogue);
    let ended = async {
        while Arc::strong_count(&marker) > 1 {
            tokio::task::yield_now().await;
        }
    };
    assert!(tokio::time::timeout(PATIENCE, ended).await.is_ok(), "the thread still runs");
}

/// A source that counts how often it is looked at, by anybody or by one thread: a watch looks on its own.
struct Counted {
    inner: Arc<dyn Source>,
    looks: Arc<AtomicUsize>,
    only: Option<std::thread::ThreadId>,
}

impl Source for Counted {
    fn provenance(&self) -> &Arc<Provenance> {
        self.inner.provenance()
    }

    fn look(&self) -> Arc<Found> {
        if self.only.is_none_or(|thread| thread == std::thread::current().id()) {
            self.looks.fetch_add(1, Ordering::SeqCst);
        }
        self.inner.look()
    }
}

#[tokio::test]
async fn while_every_change_would_be_told_of_nobody_looks() {
    let world = World::new();
    world.skill("project/.agent/skills", "first", "First");
    let looks = Arc::new(AtomicUsize::new(0));
    let only = Some(std::thread::current().id());
    let counted = |inner| Arc::new(Counted { inner, looks: Arc::clone(&looks), only }) as Arc<dyn Source>;
    let sources = standard_roots(&world.roots(), Limits::default()).into_iter().map(counted).collect();
    let catalogue = Catalogue::new(sources, Policy::default());
    let mut observer = Observer::new(&catalogue, Notices::Asked);
    observer.see("the first look", |snapshot| names(snapshot) == ["first"]).await;
    let quiet = async {
        while !catalogue.is_quiet() {
            catalogue.catch_up();
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(PATIENCE, quiet).await.expect("it is quiet at last");
    let before = looks.load(Ordering::SeqCst);
    assert!((0..100).all(|_| catalogue.catch_up() == Refreshed::Unchanged));
    assert_eq!(looks.load(Ordering::SeqCst), before);

    world.skill("project/.agent/skills", "second", "Second");
    observer.see("a new skill", |snapshot| names(snapshot) == ["first", "second"]).await;

    drop(observer);
    let before = looks.load(Ordering::SeqCst);
    catalogue.catch_up();
    assert!(looks.load(Ordering::SeqCst) > before, "nobody tells of changes any more");
}

#[test]
fn a_listener_hears_what_there_was_and_what_there_is() {
    let world = World::new();
    let catalogue = world.catalogue();
    let heard = Arc::new(std::sync::Mutex::new(Vec::new()));
    let log = Arc::clone(&heard);
    catalogue.on_change(move |old, new| log.lock().unwrap().push((names(old), names(new))));
    catalogue.refresh();
    world.skill("home/.rkat/skills", "first", "First");
    catalogue.refresh();
    catalogue.refresh();
    let none: Vec<String> = Vec::new();
    let expected = [(none.clone(), none.clone()), (none, vec!["first".to_owned()])];
    assert_eq!(*heard.lock().unwrap(), expected);
}
