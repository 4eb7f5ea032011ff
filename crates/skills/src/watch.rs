//! Watches for changes: when the file system reports one, the sources are scanned again.
//!
//! Changes in quick succession are handled together. Periodic scans find the changes that the file system does not
//! report.

use std::collections::{BTreeSet, HashMap};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use notify::event::{AccessKind, AccessMode};
use notify::{Config, EventKind, RecommendedWatcher, RecursiveMode, Watcher as _};

use crate::catalog::WatchState;
use crate::{Catalog, Limits, lock};

/// Options for watching.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WatchOptions {
    /// Quiet period before a scan for changes.
    pub quiet: Duration,
    /// Interval of periodic scans.
    pub interval: Duration,
    /// Whether to use file system events.
    pub fs_events: FsEvents,
    /// Maximum number of directories below a watched one. A larger directory is only scanned periodically.
    pub dirs: usize,
}

/// Use of file system events.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FsEvents {
    /// Use them.
    Enabled,
    /// Do not use them; periodic scans find changes.
    Disabled,
}

impl Default for WatchOptions {
    fn default() -> Self {
        Self {
            quiet: Duration::from_millis(200),
            interval: Duration::from_secs(30),
            fs_events: FsEvents::Enabled,
            dirs: Limits::default().dirs,
        }
    }
}

/// Maximum wait for continuous changes to stop before a scan, in quiet periods.
const MAX_QUIET_PERIODS: u32 = 4;

/// Maximum number of changed files that are reported individually per scan.
const MAX_TOUCHED: usize = 4096;

enum Message {
    Event(Vec<PathBuf>),
    Stop,
}

/// Watches for changes until it is dropped. Dropping does not wait: a scan in progress may still complete.
pub struct Watch {
    messages: Sender<Message>,
    link: Arc<Link>,
}

/// State shared between a watch and its thread.
struct Link {
    catalog: Catalog,
    /// `true` once the watch is dropped. From then on its thread reports no changes.
    ended: Mutex<bool>,
}

impl Link {
    fn set_sight(&self, sight: WatchState) {
        let ended = lock(&self.ended);
        if !*ended {
            self.catalog.set_watch_state(sight);
        }
    }

    fn end(&self) {
        let mut ended = lock(&self.ended);
        if !*ended {
            *ended = true;
            self.catalog.set_watch_state(WatchState::Unwatched);
        }
    }

    fn has_ended(&self) -> bool {
        *lock(&self.ended)
    }
}

impl Catalog {
    /// Scans the sources now and whenever something changes, on a separate thread.
    ///
    /// # Errors
    /// Returns an error if the thread cannot be started.
    pub fn watch(&self, options: WatchOptions) -> std::io::Result<Watch> {
        let (messages, received) = channel();
        let link = Arc::new(Link { catalog: self.clone(), ended: Mutex::new(false) });
        let (sender, shared) = (messages.clone(), Arc::clone(&link));
        thread::Builder::new().name("skills-watch".to_owned()).spawn(move || {
            let concern = Arc::new(Mutex::new(WatchScope::default()));
            let watcher = match options.fs_events {
                FsEvents::Enabled => start_watcher(sender, shared.catalog.clone(), Arc::clone(&concern)),
                FsEvents::Disabled => None,
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

/// Subscribes to file system events. If they are not available, only periodic scans find changes.
fn start_watcher(
    messages: Sender<Message>,
    catalog: Catalog,
    concern: Arc<Mutex<WatchScope>>,
) -> Option<RecommendedWatcher> {
    let on_event = move |event: notify::Result<notify::Event>| {
        let paths = match event {
            Ok(event) if is_change(event.kind) => event.paths,
            // Events were lost; anything may have changed.
            Ok(event) if event.need_rescan() => Vec::new(),
            Ok(_) => return,
            Err(_) => Vec::new(),
        };
        if !lock(&concern).has(&paths) {
            return;
        }
        catalog.mark_dirty();
        // The receiver may be gone because the watch was dropped.
        let _ = messages.send(Message::Event(paths));
    };
    // Targets of symlinks are watched separately if needed.
    RecommendedWatcher::new(on_event, Config::default().with_follow_symlinks(false)).ok()
}

/// Returns `true` unless the event is a read. Otherwise the watch would react to its own scans.
fn is_change(kind: EventKind) -> bool {
    !matches!(kind, EventKind::Access(access) if access != AccessKind::Close(AccessMode::Write))
}

/// Paths whose changes may affect skills.
#[derive(Default)]
struct WatchScope {
    /// The watched directories and their modes.
    watched: HashMap<PathBuf, RecursiveMode>,
    /// The directories of skills, which may not exist yet.
    roots: Vec<PathBuf>,
}

impl WatchScope {
    /// Returns `true` if a change may affect skills. In a directory above a root that does not exist yet, only changes
    /// on the path to the root do.
    fn has(&self, paths: &[PathBuf]) -> bool {
        paths.is_empty()
            || paths.iter().any(|path| {
                let inside = |(dir, mode): (&PathBuf, &RecursiveMode)| {
                    *mode == RecursiveMode::Recursive && path.starts_with(dir)
                };
                self.watched.iter().any(inside) || self.roots.iter().any(|root| root.starts_with(path))
            })
    }
}

struct Follower {
    link: Arc<Link>,
    options: WatchOptions,
    watcher: Option<RecommendedWatcher>,
    concern: Arc<Mutex<WatchScope>>,
}

impl Follower {
    fn run(mut self, messages: &Receiver<Message>) {
        let catalog = self.link.catalog.clone();
        catalog.refresh();
        self.arrange();
        // Something may have changed between the scan and the start of the watch.
        catalog.refresh();
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
            catalog.refresh();
            if self.arrange() {
                catalog.refresh();
            }
            catalog.notify_file_listeners(&touched);
        }
    }

    /// Waits for a quiet period and collects the changes meanwhile. Returns `false` if the watch has ended.
    fn settle(&self, messages: &Receiver<Message>, touched: &mut BTreeSet<PathBuf>) -> bool {
        let end = Instant::now() + self.options.quiet * MAX_QUIET_PERIODS;
        loop {
            let wait = end.saturating_duration_since(Instant::now()).min(self.options.quiet);
            match messages.recv_timeout(wait) {
                Ok(Message::Event(paths)) => {
                    touched.extend(paths.into_iter().take(MAX_TOUCHED.saturating_sub(touched.len())));
                    if wait.is_zero() {
                        return true;
                    }
                }
                Err(RecvTimeoutError::Timeout) => return true,
                Ok(Message::Stop) | Err(RecvTimeoutError::Disconnected) => return false,
            }
        }
    }

    /// Watches exactly the directories that are currently relevant. Returns `true` if one was added.
    fn arrange(&mut self) -> bool {
        let Some(watcher) = &mut self.watcher else { return false };
        let roots = self.link.catalog.watched();
        let wanted = watch_points(&roots);
        // Do not hold the lock while the watcher works, because the watcher may be reporting a change.
        let mut watched = lock(&self.concern).watched.clone();
        for (old, _) in watched.iter().filter(|(old, mode)| wanted.get(*old) != Some(*mode)) {
            // The directory may have been removed, together with its watch.
            let _ = watcher.unwatch(old);
        }
        watched.retain(|path, mode| wanted.get(path) == Some(mode));
        let (mut added, mut complete) = (false, true);
        for (path, mode) in wanted {
            if watched.contains_key(&path) {
                continue;
            }
            // A directory that cannot be watched is still scanned periodically.
            let fits = mode == RecursiveMode::NonRecursive || has_at_most(&path, self.options.dirs);
            if fits && watcher.watch(&path, mode).is_ok() {
                watched.insert(path, mode);
                added = true;
            } else {
                complete = false;
            }
        }
        *lock(&self.concern) = WatchScope { watched, roots };
        // The caller scans again if a directory was added, so no change is missed in between.
        self.link.set_sight(if complete { WatchState::Dirty } else { WatchState::Unwatched });
        added
    }
}

/// Returns `true` if there are at most `limit` directories below a directory.
fn has_at_most(dir: &Path, limit: usize) -> bool {
    let (mut open, mut seen) = (vec![dir.to_owned()], 0);
    while let Some(dir) = open.pop() {
        // Unreadable directories are not watched either.
        let Ok(entries) = std::fs::read_dir(&dir) else { continue };
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

/// Returns the directories to watch so that no change in the roots is missed. A directory that is both a root and above
/// one is watched recursively.
fn watch_points(roots: &[PathBuf]) -> HashMap<PathBuf, RecursiveMode> {
    let mut watch_points = HashMap::new();
    for (path, mode) in roots.iter().filter_map(|root| watch_point(root)) {
        let known = watch_points.entry(path).or_insert(mode);
        if mode == RecursiveMode::Recursive {
            *known = mode;
        }
    }
    watch_points
}

/// Returns the directory to watch for a root: the root itself, or its nearest existing ancestor.
fn watch_point(root: &Path) -> Option<(PathBuf, RecursiveMode)> {
    if let Ok(path) = root.canonicalize() {
        return Some((path, RecursiveMode::Recursive));
    }
    let above = root.ancestors().skip(1).find(|path| path.is_dir())?;
    Some((above.to_owned(), RecursiveMode::NonRecursive))
}
