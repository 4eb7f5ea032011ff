//! The catalogue: every source, looked at together, published as one snapshot.

use std::collections::{BTreeSet, HashMap};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::watch;

use crate::snapshot::{Policy, Snapshot};
use crate::source::{Found, Source};
use crate::{Place, Skill};

/// Every source of skills, and what they have. Cheap to clone; all clones are one catalogue.
#[derive(Clone)]
pub struct Catalogue {
    shared: Arc<Shared>,
}

struct Shared {
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
}

struct State {
    sources: Vec<Arc<dyn Source>>,
    policy: Policy,
    found: Vec<Arc<Found>>,
    /// Whether something else than the sources has changed since the last snapshot.
    stale: bool,
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
    /// Makes a catalogue of sources, the first of which wins. Nothing is looked at before it is asked for.
    #[must_use]
    pub fn new(sources: Vec<Arc<dyn Source>>, policy: Policy) -> Self {
        let state = State { sources, policy, found: Vec::new(), stale: true };
        let (snapshot, _) = watch::channel(Arc::new(Snapshot::default()));
        let shared = Shared {
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
        let latest = Arc::clone(&self.shared.snapshot.borrow());
        if latest.generation() > 0 {
            return latest;
        }
        self.refresh();
        Arc::clone(&self.shared.snapshot.borrow())
    }

    /// Looks at the sources, and publishes a new snapshot if something has changed. It reads files: where that
    /// matters, call it on a thread that may wait.
    pub fn refresh(&self) -> Refreshed {
        let mut state = self.state();
        let found: Vec<_> = state.sources.iter().map(|source| source.look()).collect();
        let same = found.len() == state.found.len()
            && found.iter().zip(&state.found).all(|(new, old)| Arc::ptr_eq(new, old));
        if same && !state.stale {
            return Refreshed::Unchanged;
        }
        let generation = self.shared.snapshot.borrow().generation() + 1;
        let sources = state.sources.iter().map(|source| Arc::clone(source.provenance())).collect();
        let snapshot = Snapshot::new(generation, &found, sources, &state.policy);
        state.found = found;
        state.stale = false;
        tracing::debug!(generation, "the skills have changed");
        let new = Arc::new(snapshot);
        let old = self.shared.snapshot.send_replace(Arc::clone(&new));
        drop(state);
        // A listener may itself look at the catalogue, so none is called while it is locked.
        let listeners = lock(&self.shared.listeners).clone();
        listeners.iter().for_each(|listener| listener(&old, &new));
        Refreshed::Changed
    }

    /// Makes sure that the snapshot is current. While a watch tells of every change, that costs nothing unless
    /// there was one; a change of the last few milliseconds may be still on its way.
    pub fn catch_up(&self) -> Refreshed {
        let (quiet, stirred) = (Sight::Quiet as u8, Sight::Stirred as u8);
        // It is quiet again before the look, so that a change during the look is not missed.
        let order = Ordering::AcqRel;
        let was = self.shared.sight.compare_exchange(stirred, quiet, order, Ordering::Acquire);
        if was == Err(quiet) && !self.state().stale {
            return Refreshed::Unchanged;
        }
        self.refresh()
    }

    /// Says whether catching up would cost nothing.
    #[must_use]
    pub fn is_quiet(&self) -> bool {
        self.shared.sight.load(Ordering::Acquire) == Sight::Quiet as u8 && !self.state().stale
    }

    /// Calls `listener` with what there was and what there is, whenever that changes.
    pub fn on_change(&self, listener: impl Fn(&Snapshot, &Snapshot) + Send + Sync + 'static) {
        lock(&self.shared.listeners).push(Arc::new(listener));
    }

    /// Calls `listener` with a skill and a path in it, whenever a watch is told that the file there has changed. The
    /// SKILL.md itself is not among them: its change is one of the catalogue.
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

    /// Notes that something changed, if somebody relies on being told.
    pub(crate) fn stir(&self) {
        let (quiet, stirred) = (Sight::Quiet as u8, Sight::Stirred as u8);
        // Who is blind already looks every time.
        let _ = self.shared.sight.compare_exchange(quiet, stirred, Ordering::AcqRel, Ordering::Acquire);
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
        state.stale |= state.policy != policy;
        state.policy = policy;
    }

    /// Replaces the sources; the next refresh publishes the outcome.
    pub fn set_sources(&self, sources: Vec<Arc<dyn Source>>) {
        let mut state = self.state();
        let same = state.sources.len() == sources.len()
            && state.sources.iter().zip(&sources).all(|(old, new)| Arc::ptr_eq(old, new));
        state.stale |= !same;
        state.sources = sources;
    }

    /// Lists the folders in which a change would matter.
    pub(crate) fn watched(&self) -> Vec<PathBuf> {
        let state = self.state();
        state.found.iter().flat_map(|found| found.watched.iter().cloned()).collect()
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
