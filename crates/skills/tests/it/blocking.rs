//! Operations that never wait for a scan: async tasks, changes to settings, and dropping a watch.

use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use meerkat_skills::{
    Catalog, FsEvents, Policy, Provenance, Refreshed, ScanResult, Source, SourceId, SourceStatus, Transport,
    WatchOptions,
};

/// Timeout of each wait.
const TIMEOUT: Duration = Duration::from_secs(60);

/// A source whose scan lasts until the test ends it.
struct SlowSource {
    provenance: Arc<Provenance>,
    started: Sender<()>,
    may_end: Mutex<Receiver<()>>,
    found: Arc<ScanResult>,
}

/// Handle of the test for controlling a slow source.
struct Control {
    started: Receiver<()>,
    may_end: Sender<()>,
}

impl Control {
    fn wait_for_scan(&self) {
        self.started.recv_timeout(TIMEOUT).expect("a scan starts");
    }

    fn end_scan(&self) {
        self.may_end.send(()).expect("the source still exists");
    }
}

impl SlowSource {
    fn new() -> (Arc<Self>, Control) {
        let (started, is_started) = channel();
        let (end, may_end) = channel();
        let provenance = Provenance {
            source_uuid: SourceId::from_location("slow"),
            display_name: "slow".to_owned(),
            transport_kind: Transport::Filesystem,
            fingerprint: "slow".to_owned(),
            status: SourceStatus::Active,
        };
        let source = Self {
            provenance: Arc::new(provenance),
            started,
            may_end: Mutex::new(may_end),
            found: Arc::default(),
        };
        (Arc::new(source), Control { started: is_started, may_end: end })
    }

    fn catalog() -> (Catalog, Control) {
        let (source, control) = Self::new();
        (Catalog::new(vec![source], Policy::default()), control)
    }
}

impl Source for SlowSource {
    fn provenance(&self) -> &Arc<Provenance> {
        &self.provenance
    }

    fn scan(&self) -> Arc<ScanResult> {
        // The test may have ended.
        let _ = self.started.send(());
        self.may_end.lock().unwrap().recv_timeout(TIMEOUT).expect("the scan may end");
        Arc::clone(&self.found)
    }
}

/// Runs `work` on another thread and returns its result. Panics on a timeout.
fn run_with_timeout<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    let (done, finished) = channel();
    thread::spawn(move || done.send(work()));
    finished.recv_timeout(TIMEOUT / 2).expect("it does not wait for the scan")
}

#[tokio::test]
async fn first_scan_does_not_block_its_task() {
    let (catalog, control) = SlowSource::catalog();
    // The runtime has one thread, so the scan can end only if it runs on another one.
    let (snapshot, ()) = tokio::join!(catalog.load(), async { control.end_scan() });
    assert_eq!(snapshot.generation(), 1);
    assert_eq!(catalog.load().await.generation(), 1, "the second call does not scan");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn wait_for_the_first_scan_is_bounded() {
    let (catalog, control) = SlowSource::catalog();
    assert!(catalog.load_within(Duration::ZERO).await.is_none());
    control.wait_for_scan();
    assert!(catalog.load_within(Duration::from_millis(1)).await.is_none(), "a scan that is running");
    let (snapshot, ()) = tokio::join!(catalog.load_within(TIMEOUT), async { control.end_scan() });
    assert_eq!(snapshot.map(|snapshot| snapshot.generation()), Some(1));
    assert!(control.started.try_recv().is_err(), "one scan");
}

#[test]
fn concurrent_first_snapshots_scan_once() {
    let (catalog, control) = SlowSource::catalog();
    let first = thread::spawn({
        let catalog = catalog.clone();
        move || catalog.snapshot().generation()
    });
    control.wait_for_scan();
    let second = thread::spawn(move || catalog.snapshot().generation());
    control.end_scan();
    assert_eq!((first.join().unwrap(), second.join().unwrap()), (1, 1));
    assert!(control.started.try_recv().is_err());
}

#[test]
fn settings_do_not_wait_for_a_scan() {
    let (catalog, control) = SlowSource::catalog();
    let scan = thread::spawn({
        let catalog = catalog.clone();
        move || catalog.refresh()
    });
    control.wait_for_scan();
    let generation = run_with_timeout({
        let catalog = catalog.clone();
        move || {
            catalog.set_policy(Policy { capabilities: ["shell".to_owned()].into(), ..Policy::default() });
            catalog.set_sources(Vec::new());
            assert!(!catalog.is_up_to_date());
            catalog.latest().generation()
        }
    });
    assert_eq!(generation, 0);
    control.end_scan();
    assert_eq!(scan.join().unwrap(), Refreshed::Changed);
    assert_eq!(catalog.snapshot().sources().len(), 1, "the scan uses the sources from its start");
    assert_eq!(catalog.refresh(), Refreshed::Changed);
    assert_eq!(catalog.snapshot().sources().len(), 0);
    assert_eq!(catalog.refresh(), Refreshed::Unchanged);
}

#[test]
fn dropping_a_watch_does_not_block() {
    let (catalog, control) = SlowSource::catalog();
    let options = WatchOptions { fs_events: FsEvents::Disabled, ..WatchOptions::default() };
    let watch = catalog.watch(options).unwrap();
    control.wait_for_scan();
    run_with_timeout(move || drop(watch));
    assert_eq!(catalog.latest().generation(), 0);
    // The thread may scan once more before it ends.
    control.end_scan();
    control.end_scan();
}
