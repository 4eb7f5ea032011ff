//! The catalog: every source, scanned together and published as one snapshot.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::timeout;

use crate::snapshot::{Policy, Snapshot};
use crate::source::{Ignored, ScanResult, Source};
use crate::{Skill, SkillLocation, lock};

/// All sources of skills and their contents. Cheap to clone; all clones share one catalog.
#[derive(Clone)]
pub struct Catalog {
    shared: Arc<Shared>,
}

struct Shared {
    /// Held for an entire scan, so that only one runs at a time. Only threads that may block take it.
    scan: Mutex<()>,
    /// Never locked while files are read.
    state: Mutex<State>,
    snapshot: watch::Sender<Arc<Snapshot>>,
    listeners: Mutex<Vec<Listener>>,
    file_listeners: Mutex<Vec<FileListener>>,
    watch_state: AtomicU8,
}

/// Callback for changes, with the old and the new snapshot.
type Listener = Arc<dyn Fn(&Snapshot, &Snapshot) + Send + Sync>;

/// Callback for a changed file, with the skill it belongs to and its path in the skill.
type FileListener = Arc<dyn Fn(&Skill, &str) + Send + Sync>;

/// State of the file system watch since the last scan.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum WatchState {
    /// No watch reports changes.
    Unwatched = 0,
    /// A watch reports every change, and has reported none since the last scan.
    Clean = 1,
    /// The watch reported a change.
    Dirty = 2,
    /// The watch reported a change, and a scan for it has started.
    Scanning = 3,
}

struct State {
    sources: Vec<Arc<dyn Source>>,
    policy: Arc<Policy>,
    found: Vec<Arc<ScanResult>>,
    /// Number of changes to the sources and the policy.
    revision: u64,
    /// Revision that the latest snapshot was built from.
    published: u64,
}

impl State {
    /// Returns `true` if the sources or the policy changed since the latest snapshot.
    const fn is_stale(&self) -> bool {
        self.revision != self.published
    }
}

/// A snapshot and the one it replaced.
struct Change {
    old: Arc<Snapshot>,
    new: Arc<Snapshot>,
}

/// Result of a refresh.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refreshed {
    /// A new snapshot was published.
    Changed,
    /// Nothing changed.
    Unchanged,
}

impl Catalog {
    /// Creates a catalog of sources; earlier sources take precedence. The sources are not scanned until the first use.
    #[must_use]
    pub fn new(sources: Vec<Arc<dyn Source>>, policy: Policy) -> Self {
        let policy = Arc::new(policy);
        let state = State { sources, policy, found: Vec::new(), revision: 1, published: 0 };
        let (snapshot, _) = watch::channel(Arc::new(Snapshot::default()));
        let shared = Shared {
            scan: Mutex::default(),
            state: Mutex::new(state),
            snapshot,
            listeners: Mutex::default(),
            file_listeners: Mutex::default(),
            watch_state: AtomicU8::new(WatchState::Unwatched as u8),
        };
        Self { shared: Arc::new(shared) }
    }

    /// Returns the latest snapshot. The first call scans the sources.
    #[must_use]
    pub fn snapshot(&self) -> Arc<Snapshot> {
        let latest = self.latest();
        if latest.generation() > 0 {
            return latest;
        }
        let scan = lock(&self.shared.scan);
        // Another thread may have scanned meanwhile.
        let change = if self.latest().generation() > 0 { None } else { self.scan() };
        drop(scan);
        self.announce(change);
        self.latest()
    }

    /// Returns the latest snapshot. The first call scans the sources on a thread that may block.
    pub async fn load(&self) -> Arc<Snapshot> {
        let latest = self.latest();
        if latest.generation() > 0 {
            return latest;
        }
        let catalog = self.clone();
        // This fails only if a source panicked; then the snapshot is still empty.
        tokio::task::spawn_blocking(move || catalog.snapshot()).await.unwrap_or(latest)
    }

    /// Returns the latest snapshot. Waits for the first scan, up to a limit; the scan then continues.
    pub async fn load_within(&self, limit: Duration) -> Option<Arc<Snapshot>> {
        if self.latest().generation() == 0 && self.shared.scan.try_lock().is_err() {
            // Do not block another thread until the scan ends.
            let mut snapshots = self.subscribe();
            let scanned =
                timeout(limit, snapshots.wait_for(|snapshot| snapshot.generation() > 0)).await.ok()?;
            return scanned.ok().map(|snapshot| Arc::clone(&snapshot));
        }
        timeout(limit, self.load()).await.ok()
    }

    /// Returns the latest snapshot without scanning. Before the first scan it is empty, with the generation 0.
    #[must_use]
    pub fn latest(&self) -> Arc<Snapshot> {
        Arc::clone(&self.shared.snapshot.borrow())
    }

    /// Scans the sources, and publishes a new snapshot if something changed. It reads files, so call it on a thread
    /// that may block.
    pub fn refresh(&self) -> Refreshed {
        let scan = lock(&self.shared.scan);
        let change = self.scan();
        drop(scan);
        self.announce(change)
    }

    /// Scans the sources, and publishes a snapshot if something changed. The caller holds the scan lock.
    fn scan(&self) -> Option<Change> {
        let (sources, policy, known, revision, stale) = {
            let state = lock(&self.shared.state);
            let policy = Arc::clone(&state.policy);
            (state.sources.clone(), policy, state.found.clone(), state.revision, state.is_stale())
        };
        let found: Vec<_> = sources.iter().map(|source| source.scan()).collect();
        let same =
            found.len() == known.len() && found.iter().zip(&known).all(|(new, old)| Arc::ptr_eq(new, old));
        if same && !stale {
            return None;
        }
        let generation = self.latest().generation() + 1;
        let sources = sources.iter().map(|source| Arc::clone(source.provenance())).collect();
        let new = Arc::new(Snapshot::new(generation, &found, sources, &policy));
        tracing::debug!(generation, "skills changed");
        let old = self.shared.snapshot.send_replace(Arc::clone(&new));
        let mut state = lock(&self.shared.state);
        state.found = found;
        state.published = revision;
        Some(Change { old, new })
    }

    /// Calls the listeners. A listener may itself use the catalog, so no lock is held meanwhile.
    fn announce(&self, change: Option<Change>) -> Refreshed {
        let Some(Change { old, new }) = change else { return Refreshed::Unchanged };
        let listeners = lock(&self.shared.listeners).clone();
        listeners.iter().for_each(|listener| listener(&old, &new));
        Refreshed::Changed
    }

    /// Ensures that the snapshot is current. While a watch reports every change, this is free unless there was one; a
    /// change within the last few milliseconds may not have been reported yet.
    pub fn refresh_if_stale(&self) -> Refreshed {
        // A change during the scan marks the catalog as dirty again.
        let started = self.change_watch_state(WatchState::Dirty, WatchState::Scanning);
        if started == Err(WatchState::Clean as u8) && !lock(&self.shared.state).is_stale() {
            return Refreshed::Unchanged;
        }
        let refreshed = self.refresh();
        if started.is_ok() {
            // If this fails, another change was reported during the scan.
            let _ = self.change_watch_state(WatchState::Scanning, WatchState::Clean);
        }
        refreshed
    }

    /// Returns `true` if the snapshot is current, so that no scan is needed.
    #[must_use]
    pub fn is_up_to_date(&self) -> bool {
        self.shared.watch_state.load(Ordering::Acquire) == WatchState::Clean as u8
            && !lock(&self.shared.state).is_stale()
    }

    /// Searches the sources for skill files that none of them loads, although the files have no errors. This may take
    /// long, so call it on a thread that may block.
    #[must_use]
    pub fn ignored(&self) -> Vec<Ignored> {
        self.refresh();
        let (sources, found) = {
            let state = lock(&self.shared.state);
            (state.sources.clone(), state.found.clone())
        };
        let loaded = |skill: &Arc<Skill>| match &skill.place {
            SkillLocation::Directory { dir, file } => Some(dir.join(file)),
            SkillLocation::Text(_) => None,
        };
        // One source may load a file that another ignores, and two sources may search the same directory.
        let mut known: HashSet<_> = found.iter().flat_map(|found| &found.skills).filter_map(loaded).collect();
        let mut groups: Vec<_> = sources.iter().flat_map(|source| source.ignored()).collect();
        for group in &mut groups {
            group.files.retain(|file| known.insert(file.clone()));
        }
        groups.retain(|group| !group.files.is_empty());
        groups
    }

    /// Calls `listener` with the old and the new snapshot on every change.
    pub fn on_change(&self, listener: impl Fn(&Snapshot, &Snapshot) + Send + Sync + 'static) {
        lock(&self.shared.listeners).push(Arc::new(listener));
    }

    /// Calls `listener` with a skill and a path in it whenever a watch reports that the file changed. SKILL.md itself
    /// is excluded, because a change to it is a change of the catalog.
    pub fn on_file(&self, listener: impl Fn(&Skill, &str) + Send + Sync + 'static) {
        lock(&self.shared.file_listeners).push(Arc::new(listener));
    }

    /// Calls the file listeners for those paths that are files of skills.
    pub(crate) fn notify_file_listeners(&self, paths: &BTreeSet<PathBuf>) {
        let listeners = lock(&self.shared.file_listeners).clone();
        if paths.is_empty() || listeners.is_empty() {
            return;
        }
        let snapshot = self.snapshot();
        let dirs: HashMap<_, _> = snapshot
            .active()
            .filter_map(|skill| match &skill.place {
                SkillLocation::Directory { dir, .. } => Some((dir.as_path(), skill)),
                SkillLocation::Text(_) => None,
            })
            .collect();
        for path in paths.iter().filter(|path| !path.is_dir()) {
            let skill = path.ancestors().skip(1).find_map(|dir| dirs.get(dir));
            if let Some((skill, file)) = skill.and_then(|skill| Some((skill, skill.file_at(path)?))) {
                listeners.iter().for_each(|listener| listener(skill, &file));
            }
        }
    }

    pub(crate) fn set_watch_state(&self, sight: WatchState) {
        self.shared.watch_state.store(sight as u8, Ordering::Release);
    }

    /// Records that something changed. An unwatched catalog scans every time anyway.
    pub(crate) fn mark_dirty(&self) {
        for sight in [WatchState::Clean, WatchState::Scanning] {
            let _ = self.change_watch_state(sight, WatchState::Dirty);
        }
    }

    fn change_watch_state(&self, from: WatchState, to: WatchState) -> Result<u8, u8> {
        let (from, to) = (from as u8, to as u8);
        self.shared.watch_state.compare_exchange(from, to, Ordering::AcqRel, Ordering::Acquire)
    }

    /// Returns a receiver of snapshots. The first one may be empty, with the generation 0.
    #[must_use]
    pub fn subscribe(&self) -> watch::Receiver<Arc<Snapshot>> {
        self.shared.snapshot.subscribe()
    }

    /// Replaces the policy; the next refresh publishes the result.
    pub fn set_policy(&self, policy: Policy) {
        let mut state = lock(&self.shared.state);
        if *state.policy != policy {
            state.policy = Arc::new(policy);
            state.revision += 1;
        }
    }

    /// Replaces the sources; the next refresh publishes the result.
    pub fn set_sources(&self, sources: Vec<Arc<dyn Source>>) {
        let mut state = lock(&self.shared.state);
        let same = state.sources.len() == sources.len()
            && state.sources.iter().zip(&sources).all(|(old, new)| Arc::ptr_eq(old, new));
        if !same {
            state.sources = sources;
            state.revision += 1;
        }
    }

    /// Lists the directories to watch for changes.
    pub(crate) fn watched(&self) -> Vec<PathBuf> {
        let state = lock(&self.shared.state);
        state.found.iter().flat_map(|found| found.watched.iter().cloned()).collect()
    }
}
