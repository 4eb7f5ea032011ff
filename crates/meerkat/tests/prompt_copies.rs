//! A long prompt is moved from the request to the stored message. This is a test program of its own because it counts
//! the bytes that it allocates.
#![expect(unsafe_code, reason = "an allocator is unsafe")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering};

use meerkat::{Content, NewSessionOptions, RunControl, RunInput, RunRequest, Runtime, Target, TurnOptions};

const MIB: usize = 1024 * 1024;
const PROMPT: usize = 8 * MIB;

static LIVE: AtomicUsize = AtomicUsize::new(0);
static PEAK: AtomicUsize = AtomicUsize::new(0);

struct Counting;

fn add(bytes: usize) {
    let live = LIVE.fetch_add(bytes, Ordering::Relaxed) + bytes;
    PEAK.fetch_max(live, Ordering::Relaxed);
}

// SAFETY: every call is forwarded to the system's allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        add(layout.size());
        // SAFETY: the caller's guarantees are those of the system's allocator.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        LIVE.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: the caller's guarantees are those of the system's allocator.
        unsafe { System.dealloc(block, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn request(target: Target, prompt: Content) -> RunRequest {
    let input = RunInput { prompt, ..RunInput::default() };
    let turn = TurnOptions { input, ..TurnOptions::default() };
    RunRequest { target, turn, control: RunControl::default() }
}

#[tokio::test]
async fn long_prompt_is_not_copied_before_it_is_durable() {
    // The encoded message, whose buffer is moved to one of twice the size.
    const BOUND: usize = 3 * PROMPT + MIB;
    let runtime = Runtime::builder().build().unwrap();
    let new = || Target::New(NewSessionOptions::default());
    let short = runtime.sessions().run(request(new(), Content::text("hi"))).await.unwrap();
    let session = short.outcome().await.unwrap().session_id;
    for target in [new(), Target::Existing(session)] {
        let long = request(target.clone(), Content::text("x".repeat(PROMPT)));
        let before = LIVE.load(Ordering::Relaxed);
        PEAK.store(before, Ordering::Relaxed);
        // On one thread, a run emits its first event only after its caller has continued.
        let run = runtime.sessions().run(long).await.unwrap();
        let growth = PEAK.load(Ordering::Relaxed) - before;
        run.outcome().await.unwrap();
        assert!(growth < BOUND, "{growth} bytes for {target:?}");
    }
}
