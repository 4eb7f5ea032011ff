//! Waiting for other processes, so that "busy" is never an answer.
//!
//! SQLite asks the handler when it may wait. Where waiting could deadlock it does not ask and fails at once,
//! which happens while databases are being opened; there the whole attempt is repeated.

use std::cell::Cell;
use std::hash::{BuildHasher as _, RandomState};
use std::thread::sleep;
use std::time::{Duration, Instant};

use rusqlite::{Connection, ErrorCode};

/// How long somebody else may keep the database.
const PATIENCE: Duration = Duration::from_mins(2);

thread_local! {
    // When the wait that goes on began; a connection is used by one thread only.
    static BEGAN: Cell<Option<Instant>> = const { Cell::new(None) };
}

/// Makes a connection wait for locks.
pub(super) fn be_patient(connection: &Connection) -> rusqlite::Result<()> {
    connection.busy_handler(Some(|attempt| {
        if attempt == 0 {
            BEGAN.set(Some(Instant::now()));
        }
        pause();
        BEGAN.get().is_none_or(|began| began.elapsed() < PATIENCE)
    }))
}

/// Repeats an attempt for as long as it fails for being busy.
pub(super) fn patiently<T>(mut attempt: impl FnMut() -> rusqlite::Result<T>) -> rusqlite::Result<T> {
    let began = Instant::now();
    loop {
        match attempt() {
            Err(error) if is_busy(&error) && began.elapsed() < PATIENCE => pause(),
            done => return done,
        }
    }
}

fn is_busy(error: &rusqlite::Error) -> bool {
    matches!(error.sqlite_error_code(), Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked))
}

/// Sleeps for one to eight milliseconds, each process for another while.
fn pause() {
    let random = RandomState::new().hash_one(0_u8);
    sleep(Duration::from_micros(1000 + random % 7000));
}
