//! Doing the same to many things on a few threads.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread;

/// Fewer things than this are done faster on the spot.
const WORTH_A_THREAD: usize = 256;
/// More threads than this only wait for the disk.
const MAX_THREADS: usize = 8;
/// How many things a thread takes at once.
const CHUNK: usize = 32;

/// Says how many threads so many things are worth.
fn threads_for(count: usize) -> usize {
    // Asking the system reads half a dozen files, which takes as long as looking at forty.
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

/// Says whether `holds` is true of every item. It may be asked of an item twice.
///
/// Unlike for a walk, nothing is waited for: on a busy machine a thread may get its turn only long after everything
/// is done. What the others have begun and not finished is done again here.
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
        // Without the thread it only takes longer.
        let _ = thread::Builder::new().name("skills-look".to_owned()).spawn(move || check.take());
    }
    check.take();
    check.finish()
}

/// A question that several threads ask of the same items.
struct Check<T, F> {
    items: Arc<[T]>,
    holds: F,
    /// The chunk that nobody has begun yet.
    next: AtomicUsize,
    finished: Vec<AtomicBool>,
    failed: AtomicBool,
}

impl<T, F: Fn(&T) -> bool> Check<T, F> {
    /// Takes chunks until there are none, or the answer is known.
    fn take(&self) {
        while !self.failed.load(Ordering::Acquire) {
            let index = self.next.fetch_add(1, Ordering::Relaxed);
            let Some(finished) = self.finished.get(index) else { return };
            self.ask(index);
            finished.store(true, Ordering::Release);
        }
    }

    fn ask(&self, index: usize) {
        let chunk = self.items.iter().skip(index * CHUNK).take(CHUNK);
        if !chunk.into_iter().all(&self.holds) {
            self.failed.store(true, Ordering::Release);
        }
    }

    /// Does what is not done yet, and returns the answer.
    fn finish(&self) -> bool {
        for (index, finished) in self.finished.iter().enumerate() {
            if !finished.load(Ordering::Acquire) && !self.failed.load(Ordering::Acquire) {
                self.ask(index);
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
    fn results_are_in_the_order_of_the_items() {
        let items: Vec<usize> = (0..1000).collect();
        let expected: Vec<usize> = items.iter().map(|item| item * 2).collect();
        assert_eq!(super::map(&items, |item| item * 2), expected);
    }

    #[test]
    fn one_item_that_differs_is_seen_wherever_it_is() {
        for count in [1, 10, 257, 1000] {
            let items: Arc<[usize]> = (0..count).collect();
            assert!(super::all(&items, |_| true));
            for odd in [0, count / 2, count - 1] {
                assert!(!super::all(&items, move |item| *item != odd), "{odd} of {count}");
            }
        }
    }

    #[test]
    fn an_answer_does_not_wait_for_the_other_threads() {
        let here = thread::current().id();
        let items: Arc<[usize]> = (0..1000).collect();
        let asked = Arc::new(Mutex::new(BTreeSet::new()));
        let turn = Arc::new(Mutex::new(()));
        let (others_turn, noted) = (Arc::clone(&turn), Arc::clone(&asked));
        let nobody_else = turn.lock().unwrap();
        let answer = super::all(&items, move |item| {
            if thread::current().id() == here {
                noted.lock().unwrap().insert(*item);
            } else {
                drop(others_turn.lock());
            }
            true
        });
        drop(nobody_else);
        assert!(answer);
        assert_eq!(asked.lock().unwrap().len(), items.len());
    }
}
