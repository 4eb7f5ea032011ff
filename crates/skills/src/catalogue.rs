//! The catalog: every source, looked at together, published as one snapshot.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::watch;

use crate::snapshot::{Policy, Snapshot};
use crate::source::{Found, Ignored, Source};
use crate::{Place, Skill};

/// Every source of skills, and what they have. Cheap to clone; all clones are one catalog.
#[derive(Clone)]
pub struct Catalogue {
    shared: Arc<Shared>,
}

struct Shared {
    /// Held for a whole scan, so that there is one at a time. Only threads that may block take it.
    scan: Mutex<()>,
    /// Never locked while files are read.
    state: Mutex<State>,
    snapshot: watch::Sender<Arc<Snapshot>>,
    listeners: Mutex<Vec<Listener>>,
    file_listeners: Mutex<Vec<FileListener>>,
    sight: AtomicU8,
}

/// Hears of a change: what there was, and what there is.
type Listener = Arc<dyn Fn(&Snapshot, &Snapshot) + Send + Sync>;

/// Hears of a file that has changed: the skill it belongs to, and its path in the skill.
type FileListener = Arc<dyn Fn(&Skill, &str) + Send + Sync>;

/// What is known of changes without looking.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Sight {
    /// Nobody tells of changes.
    Blind = 0,
    /// Every change would be told of, and none was since the last look.
    Quiet = 1,
    /// A change was told of.
    Stirred = 2,
    /// A change was told of, and a scan for it has started.
    Scanning = 3,
}

struct State {
    sources: Vec<Arc<dyn Source>>,
    policy: Arc<Policy>,
    found: Vec<Arc<Found>>,
    /// Counts the changes of the sources and the policy.
    revision: u64,
    /// The revision that the latest snapshot was made of.
    published: u64,
}

impl State {
    /// Returns true if the sources or the policy changed since the latest snapshot.
    const fn is_stale(&self) -> bool {
        self.revision != self.published
    }
}

/// A snapshot that replaced another one.
struct Change {
    old: Arc<Snapshot>,
    new: Arc<Snapshot>,
}

/// Whether there was something new.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refreshed {
    /// A new snapshot was published.
    Changed,
    /// Nothing has changed.
    Unchanged,
}

impl Catalogue {
    /// Makes a catalog of sources, the first of which wins. Nothing is looked at before it is asked for.
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
            sight: AtomicU8::new(Sight::Blind as u8),
        };
        Self { shared: Arc::new(shared) }
    }

    /// Returns the latest snapshot; the first time, the sources are looked at.
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

    /// Returns the latest snapshot. The first time, a thread that may block scans the sources.
    pub async fn load(&self) -> Arc<Snapshot> {
        let latest = self.latest();
        if latest.generation() > 0 {
            return latest;
        }
        let catalogue = self.clone();
        // It fails only if a source panicked; then there are no skills yet.
        tokio::task::spawn_blocking(move || catalogue.snapshot()).await.unwrap_or(latest)
    }

    /// Returns the latest snapshot without scanning. Before the first scan it is empty, with the generation 0.
    #[must_use]
    pub fn latest(&self) -> Arc<Snapshot> {
        Arc::clone(&self.shared.snapshot.borrow())
    }

    /// Looks at the sources, and publishes a new snapshot if something has changed. It reads files: where that
    /// matters, call it on a thread that may wait.
    pub fn refresh(&self) -> Refreshed {
        let scan = lock(&self.shared.scan);
        let change = self.scan();
        drop(scan);
        self.announce(change)
    }

    /// Scans the sources, and publishes a snapshot if something has changed. The caller holds the lock for scans.
    fn scan(&self) -> Option<Change> {
        let (sources, policy, known, revision, stale) = {
            let state = self.state();
            let policy = Arc::clone(&state.policy);
            (state.sources.clone(), policy, state.found.clone(), state.revision, state.is_stale())
        };
        let found: Vec<_> = sources.iter().map(|source| source.look()).collect();
        let same =
            found.len() == known.len() && found.iter().zip(&known).all(|(new, old)| Arc::ptr_eq(new, old));
        if same && !stale {
            return None;
        }
        let generation = self.latest().generation() + 1;
        let sources = sources.iter().map(|source| Arc::clone(source.provenance())).collect();
        let new = Arc::new(Snapshot::new(generation, &found, sources, &policy));
        tracing::debug!(generation, "the skills have changed");
        let old = self.shared.snapshot.send_replace(Arc::clone(&new));
        let mut state = self.state();
        state.found = found;
        state.published = revision;
        Some(Change { old, new })
    }

    /// Calls the listeners. A listener may itself look at the catalog, so nothing is locked meanwhile.
    fn announce(&self, change: Option<Change>) -> Refreshed {
        let Some(Change { old, new }) = change else { return Refreshed::Unchanged };
        let listeners = lock(&self.shared.listeners).clone();
        listeners.iter().for_each(|listener| listener(&old, &new));
        Refreshed::Changed
    }

    /// Makes sure that the snapshot is current. While a watch tells of every change, that costs nothing unless
    /// there was one; a change of the last few milliseconds may be still on its way.
    pub fn catch_up(&self) -> Refreshed {
        // A change during the scan stirs the catalog again.
        let was = self.change_sight(Sight::Stirred, Sight::Scanning);
        if was == Err(Sight::Quiet as u8) && !self.state().is_stale() {
            return Refreshed::Unchanged;
        }
        let refreshed = self.refresh();
        if was.is_ok() {
            // It was stirred again if this fails.
            let _ = self.change_sight(Sight::Scanning, Sight::Quiet);
        }
        refreshed
    }

    /// Says whether catching up would cost nothing.
    #[must_use]
    pub fn is_quiet(&self) -> bool {
        self.shared.sight.load(Ordering::Acquire) == Sight::Quiet as u8 && !self.state().is_stale()
    }

    /// Searches the sources for skill files that none of them loads although nothing is wrong with them. It may take long:
    /// where that matters, call it on a thread that may wait.
    #[must_use]
    pub fn ignored(&self) -> Vec<Ignored> {
        self.refresh();
        let (sources, found) = {
            let state = self.state();
            (state.sources.clone(), state.found.clone())
        };
        let loaded = |skill: &Arc<Skill>| match &skill.place {
            Place::Folder { folder, file } => Some(folder.join(file)),
            Place::Text(_) => None,
        };
        // Another source may load what one ignores, and two may search one directory.
        let mut known: HashSet<_> = found.iter().flat_map(|found| &found.skills).filter_map(loaded).collect();
        let mut groups: Vec<_> = sources.iter().flat_map(|source| source.ignored()).collect();
        for group in &mut groups {
            group.files.retain(|file| known.insert(file.clone()));
        }
        groups.retain(|group| !group.files.is_empty());
        groups
    }

    /// Calls `listener` with what there was and what there is, whenever that changes.
    pub fn on_change(&self, listener: impl Fn(&Snapshot, &Snapshot) + Send + Sync + 'static) {
        lock(&self.shared.listeners).push(Arc::new(listener));
    }

    /// Calls `listener` with a skill and a path in it, whenever a watch is told that the file there has changed. The
    /// SKILL.md itself is not among them: its change is one of the catalog.
    pub fn on_file(&self, listener: impl Fn(&Skill, &str) + Send + Sync + 'static) {
        lock(&self.shared.file_listeners).push(Arc::new(listener));
    }

    /// Tells of those paths that are files of skills.
    pub(crate) fn touched(&self, paths: &BTreeSet<PathBuf>) {
        let listeners = lock(&self.shared.file_listeners).clone();
        if paths.is_empty() || listeners.is_empty() {
            return;
        }
        let snapshot = self.snapshot();
        let folders: HashMap<_, _> = snapshot
            .active()
            .filter_map(|skill| match &skill.place {
                Place::Folder { folder, .. } => Some((folder.as_path(), skill)),
                Place::Text(_) => None,
            })
            .collect();
        for path in paths.iter().filter(|path| !path.is_dir()) {
            let skill = path.ancestors().skip(1).find_map(|folder| folders.get(folder));
            if let Some((skill, file)) = skill.and_then(|skill| Some((skill, skill.file_at(path)?))) {
                listeners.iter().for_each(|listener| listener(skill, &file));
            }
        }
    }

    pub(crate) fn set_sight(&self, sight: Sight) {
        self.shared.sight.store(sight as u8, Ordering::Release);
    }

    /// Notes that something changed. A catalog that is not told of changes looks every time anyway.
    pub(crate) fn stir(&self) {
        for sight in [Sight::Quiet, Sight::Scanning] {
            let _ = self.change_sight(sight, Sight::Stirred);
        }
    }

    fn change_sight(&self, from: Sight, to: Sight) -> Result<u8, u8> {
        let (from, to) = (from as u8, to as u8);
        self.shared.sight.compare_exchange(from, to, Ordering::AcqRel, Ordering::Acquire)
    }

    /// Whoever panicked while holding it left a list that the next look replaces.
    fn state(&self) -> MutexGuard<'_, State> {
        lock(&self.shared.state)
    }

    /// Follows the snapshots. The first one a receiver sees may be empty, with the generation 0.
    #[must_use]
    pub fn subscribe(&self) -> watch::Receiver<Arc<Snapshot>> {
        self.shared.snapshot.subscribe()
    }

    /// Changes what decides which skills there are; the next refresh publishes the outcome.
    pub fn set_policy(&self, policy: Policy) {
        let mut state = self.state();
        if *state.policy != policy {
            state.policy = Arc::new(policy);
            state.revision += 1;
        }
    }

    /// Replaces the sources; the next refresh publishes the outcome.
    pub fn set_sources(&self, sources: Vec<Arc<dyn Source>>) {
        let mut state = self.state();
        let same = state.sources.len() == sources.len()
            && state.sources.iter().zip(&sources).all(|(old, new)| Arc::ptr_eq(old, new));
        if !same {
            state.sources = sources;
            state.revision += 1;
        }
    }

    /// Lists the directories in which a change would matter.
    pub(crate) fn watched(&self) -> Vec<PathBuf> {
        let state = self.state();
        state.found.iter().flat_map(|found| found.watched.iter().cloned()).collect()
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
