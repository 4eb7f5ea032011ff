//! Applies a function to many items on a few threads.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread;

/// Number of items that justifies an additional thread.
const WORTH_A_THREAD: usize = 256;
/// Maximum number of threads. More would only wait for the disk.
const MAX_THREADS: usize = 8;
/// Number of items that a thread takes at once.
const CHUNK: usize = 32;

/// Returns the number of threads to use for `count` items.
fn threads_for(count: usize) -> usize {
    // The system call reads half a dozen files, which takes as long as checking forty items.
    static CORES: OnceLock<usize> = OnceLock::new();
    let worth = (count / WORTH_A_THREAD + 1).min(MAX_THREADS);
    let cores = || thread::available_parallelism().map_or(1, usize::from);
    if worth == 1 { 1 } else { worth.min(*CORES.get_or_init(cores)) }
}

/// Applies `work` to each item; the results are in the order of the items.
pub(crate) fn map<T: Sync, R: Send>(items: &[T], work: impl Fn(&T) -> R + Sync) -> Vec<R> {
    let threads = threads_for(items.len());
    if threads == 1 {
        return items.iter().map(work).collect();
    }
    let next = AtomicUsize::new(0);
    let chunks: Vec<&[T]> = items.chunks(CHUNK).collect();
    let take = || {
        let mut done = Vec::new();
        loop {
            let index = next.fetch_add(1, Ordering::Relaxed);
            let Some(chunk) = chunks.get(index) else { return done };
            done.push((index, chunk.iter().map(&work).collect::<Vec<R>>()));
        }
    };
    let mut done = thread::scope(|scope| {
        let others: Vec<_> = (1..threads).map(|_| scope.spawn(take)).collect();
        let mut done = take();
        for other in others {
            match other.join() {
                Ok(more) => done.extend(more),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
        done
    });
    done.sort_by_key(|(index, _)| *index);
    done.into_iter().flat_map(|(_, results)| results).collect()
}

/// Returns `true` if `holds` is true for every item. It may be called twice for an item.
///
/// Unlike [`map`], this does not wait for the other threads: on a busy machine a thread may be scheduled long after
/// everything is done. Chunks that other threads have started but not finished are checked again on this thread.
pub(crate) fn all<T, F>(items: &Arc<[T]>, holds: F) -> bool
where
    T: Send + Sync + 'static,
    F: Fn(&T) -> bool + Send + Sync + 'static,
{
    let threads = threads_for(items.len());
    if threads == 1 {
        return items.iter().all(holds);
    }
    let chunks = items.len().div_ceil(CHUNK);
    let finished = (0..chunks).map(|_| AtomicBool::new(false)).collect();
    let check = Arc::new(Check {
        items: Arc::clone(items),
        holds,
        next: AtomicUsize::new(0),
        finished,
        failed: AtomicBool::new(false),
    });
    for _ in 1..threads {
        let check = Arc::clone(&check);
        // If the thread cannot be started, the check only takes longer.
        let _ = thread::Builder::new().name("skills-scan".to_owned()).spawn(move || check.take());
    }
    check.take();
    check.finish()
}

/// A check that several threads run on the same items.
struct Check<T, F> {
    items: Arc<[T]>,
    holds: F,
    /// Index of the first chunk that no thread has taken.
    next: AtomicUsize,
    finished: Vec<AtomicBool>,
    failed: AtomicBool,
}

impl<T, F: Fn(&T) -> bool> Check<T, F> {
    /// Checks chunks until none are left, or the result is known.
    fn take(&self) {
        while !self.failed.load(Ordering::Acquire) {
            let index = self.next.fetch_add(1, Ordering::Relaxed);
            let Some(finished) = self.finished.get(index) else { return };
            self.check_chunk(index);
            finished.store(true, Ordering::Release);
        }
    }

    fn check_chunk(&self, index: usize) {
        let chunk = self.items.iter().skip(index * CHUNK).take(CHUNK);
        if !chunk.into_iter().all(&self.holds) {
            self.failed.store(true, Ordering::Release);
        }
    }

    /// Checks the unfinished chunks, and returns the result.
    fn finish(&self) -> bool {
        for (index, finished) in self.finished.iter().enumerate() {
            if !finished.load(Ordering::Acquire) && !self.failed.load(Ordering::Acquire) {
                self.check_chunk(index);
            }
        }
        !self.failed.load(Ordering::Acquire)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::sync::{Arc, Mutex};
    use std::thread;

    #[test]
    fn map_keeps_item_order() {
        let items: Vec<usize> = (0..1000).collect();
        let expected: Vec<usize> = items.iter().map(|item| item * 2).collect();
        assert_eq!(super::map(&items, |item| item * 2), expected);
    }

    #[test]
    fn all_finds_a_failing_item_at_any_position() {
        for count in [1, 10, 257, 1000] {
            let items: Arc<[usize]> = (0..count).collect();
            assert!(super::all(&items, |_| true));
            for bad in [0, count / 2, count - 1] {
                assert!(!super::all(&items, move |item| *item != bad), "{bad} of {count}");
            }
        }
    }

    #[test]
    fn all_does_not_wait_for_other_threads() {
        let here = thread::current().id();
        let items: Arc<[usize]> = (0..1000).collect();
        let checked = Arc::new(Mutex::new(BTreeSet::new()));
        let gate = Arc::new(Mutex::new(()));
        let (others_gate, noted) = (Arc::clone(&gate), Arc::clone(&checked));
        let blocked = gate.lock().unwrap();
        let answer = super::all(&items, move |item| {
            if thread::current().id() == here {
                noted.lock().unwrap().insert(*item);
            } else {
                drop(others_gate.lock());
            }
            true
        });
        drop(blocked);
        assert!(answer);
        assert_eq!(checked.lock().unwrap().len(), items.len());
    }
}
