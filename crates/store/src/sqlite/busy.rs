//! Waits for locks of other processes, so that callers never see "busy" errors.
//!
//! SQLite calls the busy handler where it may wait. Where waiting could deadlock, it fails immediately instead. That
//! happens while a database is being opened, so there the entire attempt is repeated.

use std::cell::Cell;
use std::hash::{BuildHasher as _, RandomState};
use std::thread::sleep;
use std::time::{Duration, Instant};

use rusqlite::{Connection, ErrorCode};

/// Maximum time to wait for a lock on the database.
const BUSY_TIMEOUT: Duration = Duration::from_mins(2);

thread_local! {
    // Start of the current wait. A connection is used by only one thread.
    static WAIT_START: Cell<Option<Instant>> = const { Cell::new(None) };
}

/// Configures a connection to wait for locks.
pub(super) fn set_busy_handler(connection: &Connection) -> rusqlite::Result<()> {
    connection.busy_handler(Some(|attempt| {
        if attempt == 0 {
            WAIT_START.set(Some(Instant::now()));
        }
        pause();
        WAIT_START.get().is_none_or(|start| start.elapsed() < BUSY_TIMEOUT)
    }))
}

/// Repeats an attempt while it fails because the database is busy.
pub(super) fn retry_while_busy<T>(mut attempt: impl FnMut() -> rusqlite::Result<T>) -> rusqlite::Result<T> {
    let start = Instant::now();
    loop {
        match attempt() {
            Err(error) if is_busy(&error) && start.elapsed() < BUSY_TIMEOUT => pause(),
            done => return done,
        }
    }
}

fn is_busy(error: &rusqlite::Error) -> bool {
    matches!(error.sqlite_error_code(), Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked))
}

/// Sleeps for a random time of one to eight milliseconds.
fn pause() {
    let random = RandomState::new().hash_one(0_u8);
    sleep(Duration::from_micros(1000 + random % 7000));
}
