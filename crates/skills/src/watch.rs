//! Following changes: the file system says that something happened, and the sources are looked at again.
//!
//! Changes that come together are seen together. Where the file system says nothing, and for what it forgets to
//! say, a look from time to time finds what has changed.

use std::collections::{BTreeSet, HashMap};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use notify::event::{AccessKind, AccessMode};
use notify::{Config, EventKind, RecommendedWatcher, RecursiveMode, Watcher as _};

use crate::catalogue::Sight;
use crate::{Catalogue, Limits};

/// How changes are followed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WatchOptions {
    /// How long it must be quiet before a change is looked at.
    pub quiet: Duration,
    /// How often is looked without being told to.
    pub interval: Duration,
    /// Whether the file system is asked to tell.
    pub notices: Notices,
    /// A directory with more directories than this below it is not watched, only looked at.
    pub folders: usize,
}

/// Whether the file system is asked to tell of changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Notices {
    /// It is.
    Asked,
    /// It is not; changes are found by looking.
    Unasked,
}

impl Default for WatchOptions {
    fn default() -> Self {
        Self {
            quiet: Duration::from_millis(200),
            interval: Duration::from_secs(30),
            notices: Notices::Asked,
            folders: Limits::default().folders,
        }
    }
}

/// A change that never comes to rest is looked at all the same after this many quiet times.
const PATIENCE: u32 = 4;

/// More files than this that change at once are not told of one by one.
const MAX_TOUCHED: usize = 4096;

enum Message {
    Event(Vec<PathBuf>),
    Stop,
}

/// Follows changes as long as it lives. Dropping it does not wait: a scan that has started may still be finished.
pub struct Watch {
    messages: Sender<Message>,
    link: Arc<Link>,
}

/// What a watch and its thread share.
struct Link {
    catalogue: Catalogue,
    /// Whether the watch was dropped. From then on its thread says nothing about changes.
    ended: Mutex<bool>,
}

impl Link {
    fn set_sight(&self, sight: Sight) {
        let ended = lock(&self.ended);
        if !*ended {
            self.catalogue.set_sight(sight);
        }
    }

    fn end(&self) {
        let mut ended = lock(&self.ended);
        if !*ended {
            *ended = true;
            self.catalogue.set_sight(Sight::Blind);
        }
    }

    fn has_ended(&self) -> bool {
        *lock(&self.ended)
    }
}

impl Catalogue {
    /// Looks at the sources now, and from then on whenever something changes, on a thread of its own.
    ///
    /// # Errors
    /// Says when the thread could not be started.
    pub fn watch(&self, options: WatchOptions) -> std::io::Result<Watch> {
        let (messages, received) = channel();
        let link = Arc::new(Link { catalogue: self.clone(), ended: Mutex::new(false) });
        let (sender, shared) = (messages.clone(), Arc::clone(&link));
        thread::Builder::new().name("skills-watch".to_owned()).spawn(move || {
            let concern = Arc::new(Mutex::new(Concern::default()));
            let watcher = match options.notices {
                Notices::Asked => notices(sender, shared.catalogue.clone(), Arc::clone(&concern)),
                Notices::Unasked => None,
            };
            let link = Arc::clone(&shared);
            Follower { link, options, watcher, concern }.run(&received);
            shared.end();
        })?;
        Ok(Watch { messages, link })
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.link.end();
        // The thread may have ended already.
        let _ = self.messages.send(Message::Stop);
    }
}

/// Asks the file system for notices. Where it has none to give, looking from time to time remains.
fn notices(
    messages: Sender<Message>,
    catalogue: Catalogue,
    concern: Arc<Mutex<Concern>>,
) -> Option<RecommendedWatcher> {
    let tell = move |event: notify::Result<notify::Event>| {
        let paths = match event {
            Ok(event) if is_change(event.kind) => event.paths,
            // Notices were lost; everything may have changed.
            Ok(event) if event.need_rescan() => Vec::new(),
            Ok(_) => return,
            Err(_) => Vec::new(),
        };
        if !lock(&concern).has(&paths) {
            return;
        }
        catalogue.stir();
        // Nobody receives any more when the watch is over.
        let _ = messages.send(Message::Event(paths));
    };
    // Where links lead to is watched by itself, if it is to be watched at all.
    RecommendedWatcher::new(tell, Config::default().with_follow_symlinks(false)).ok()
}

/// Reading is no change; our own looking would otherwise be noticed.
fn is_change(kind: EventKind) -> bool {
    match kind {
        EventKind::Access(AccessKind::Close(AccessMode::Write)) => true,
        EventKind::Access(_) => false,
        _ => true,
    }
}

/// Which changes have to do with skills.
#[derive(Default)]
struct Concern {
    /// The directories that are watched, and how.
    watched: HashMap<PathBuf, RecursiveMode>,
    /// The directories in which a change matters, there or not.
    roots: Vec<PathBuf>,
}

impl Concern {
    /// Says whether a change can have to do with skills: in a directory above a root that does not exist yet, only
    /// what lies on the way to the root does.
    fn has(&self, paths: &[PathBuf]) -> bool {
        paths.is_empty()
            || paths.iter().any(|path| {
                let inside = |(folder, mode): (&PathBuf, &RecursiveMode)| {
                    *mode == RecursiveMode::Recursive && path.starts_with(folder)
                };
                self.watched.iter().any(inside) || self.roots.iter().any(|root| root.starts_with(path))
            })
    }
}

struct Follower {
    link: Arc<Link>,
    options: WatchOptions,
    watcher: Option<RecommendedWatcher>,
    concern: Arc<Mutex<Concern>>,
}

impl Follower {
    fn run(mut self, messages: &Receiver<Message>) {
        let catalogue = self.link.catalogue.clone();
        catalogue.refresh();
        self.arrange();
        // Something may have changed between the look and the watch.
        catalogue.refresh();
        while !self.link.has_ended() {
            let mut touched = BTreeSet::new();
            match messages.recv_timeout(self.options.interval) {
                Ok(Message::Stop) | Err(RecvTimeoutError::Disconnected) => return,
                Ok(Message::Event(paths)) => {
                    touched.extend(paths);
                    if !self.settle(messages, &mut touched) {
                        return;
                    }
                }
                Err(RecvTimeoutError::Timeout) => {}
            }
            catalogue.refresh();
            if self.arrange() {
                catalogue.refresh();
            }
            catalogue.touched(&touched);
        }
    }

    /// Waits until it is quiet, noting what changes meanwhile; returns whether to go on.
    fn settle(&self, messages: &Receiver<Message>, touched: &mut BTreeSet<PathBuf>) -> bool {
        let end = Instant::now() + self.options.quiet * PATIENCE;
        loop {
            let left = end.saturating_duration_since(Instant::now()).min(self.options.quiet);
            match messages.recv_timeout(left) {
                Ok(Message::Event(paths)) => {
                    touched.extend(paths.into_iter().take(MAX_TOUCHED.saturating_sub(touched.len())));
                    if left.is_zero() {
                        return true;
                    }
                }
                Err(RecvTimeoutError::Timeout) => return true,
                Ok(Message::Stop) | Err(RecvTimeoutError::Disconnected) => return false,
            }
        }
    }

    /// Watches the directories that matter now, and no others. Returns whether one was added.
    fn arrange(&mut self) -> bool {
        let Some(watcher) = &mut self.watcher else { return false };
        let roots = self.link.catalogue.watched();
        let wanted = places(&roots);
        // It is not locked while the watcher works, which may itself be telling of a change.
        let mut watched = lock(&self.concern).watched.clone();
        for (old, _) in watched.iter().filter(|(old, mode)| wanted.get(*old) != Some(*mode)) {
            // It may be gone already, and its watch with it.
            let _ = watcher.unwatch(old);
        }
        watched.retain(|path, mode| wanted.get(path) == Some(mode));
        let (mut added, mut complete) = (false, true);
        for (path, mode) in wanted {
            if watched.contains_key(&path) {
                continue;
            }
            // A directory that cannot be watched is still looked at from time to time.
            let fits = mode == RecursiveMode::NonRecursive || has_at_most(&path, self.options.folders);
            if fits && watcher.watch(&path, mode).is_ok() {
                watched.insert(path, mode);
                added = true;
            } else {
                complete = false;
            }
        }
        *lock(&self.concern) = Concern { watched, roots };
        // Whoever arranges looks afterwards if something was added, so nothing is missed in between.
        self.link.set_sight(if complete { Sight::Stirred } else { Sight::Blind });
        added
    }
}

/// A thread that panicked while holding one of the locks left a value that is still true.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Says whether there are at most so many directories below one.
fn has_at_most(folder: &Path, limit: usize) -> bool {
    let (mut open, mut seen) = (vec![folder.to_owned()], 0);
    while let Some(folder) = open.pop() {
        // What cannot be read is not watched either.
        let Ok(entries) = std::fs::read_dir(&folder) else { continue };
        for entry in entries.flatten() {
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                seen += 1;
                open.push(entry.path());
            }
            if seen > limit {
                return false;
            }
        }
    }
    true
}

/// Where to watch so that nothing in the roots is missed. A directory that is both a root and above one is watched
/// whole.
fn places(roots: &[PathBuf]) -> HashMap<PathBuf, RecursiveMode> {
    let mut places = HashMap::new();
    for (path, mode) in roots.iter().filter_map(|root| place(root)) {
        let known = places.entry(path).or_insert(mode);
        if mode == RecursiveMode::Recursive {
            *known = mode;
        }
    }
    places
}

/// A root that is not there yet is seen coming from the nearest directory above it that is.
fn place(root: &Path) -> Option<(PathBuf, RecursiveMode)> {
    if let Ok(path) = root.canonicalize() {
        return Some((path, RecursiveMode::Recursive));
    }
    let above = root.ancestors().skip(1).find(|path| path.is_dir())?;
    Some((above.to_owned(), RecursiveMode::NonRecursive))
}
