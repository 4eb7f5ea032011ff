//! Transactions, the only way to change data: guards that must hold, and changes that are applied together.

use std::collections::BTreeMap;

use meerkat_core::{RunId, SessionId, Timestamp, Usage, Usd};

use crate::Blob;

/// Guards and changes that are committed together.
#[derive(Debug, Clone, Default)]
pub struct Transaction {
    /// Conditions that must all hold for the changes to be applied.
    pub guards: Vec<Guard>,
    /// Changes to apply, in order.
    pub changes: Vec<Change>,
}

/// A condition that is checked inside the transaction.
#[derive(Debug, Clone)]
pub enum Guard {
    /// The session exists and is not archived.
    NotArchived(SessionId),
    /// The session's lease is not held. A lease that expired by `now`, or whose owner is dead, is not held.
    LeaseFree {
        /// The session.
        session: SessionId,
        /// The caller's clock.
        now: Timestamp,
    },
    /// The session's lease is held, in the sense of [`Guard::LeaseFree`].
    Running {
        /// The session.
        session: SessionId,
        /// The caller's clock.
        now: Timestamp,
    },
    /// The lease with this fencing number is still the session's current lease and was not released.
    HoldsLease {
        /// The session.
        session: SessionId,
        /// The number in [`Committed::fence`] from when the lease was taken.
        fence: u64,
    },
    /// The session's fencing number is still this one, so the session was not run since it was read.
    FenceUnchanged {
        /// The session.
        session: SessionId,
        /// The number in [`SessionRow::fence`](crate::SessionRow::fence).
        fence: u64,
    },
    /// The session has fewer tasks than `limit`.
    TasksBelow {
        /// The session.
        session: SessionId,
        /// Maximum number of tasks.
        limit: usize,
    },
    /// The config generation is still this one (0 before the first change).
    Generation(u64),
    /// A value of the state is still this one; `None` if it must not exist.
    State {
        /// The scope.
        scope: String,
        /// The key.
        key: String,
        /// The value that was read.
        value: Option<Vec<u8>>,
    },
}

/// A change in a transaction.
///
/// A change to a session that does not exist fails, and with it the entire transaction.
#[derive(Debug, Clone)]
pub enum Change {
    /// Creates a session.
    CreateSession(NewSession),
    /// Takes the session's lease for this store; the fencing number increases by one.
    TakeLease {
        /// The session.
        session: SessionId,
        /// The run it is taken for.
        run: RunId,
        /// Time of expiry unless renewed.
        expires_at: Timestamp,
    },
    /// Extends the leases that this store holds on these sessions.
    RenewLeases {
        /// The sessions; those leased by other owners are skipped.
        sessions: Vec<SessionId>,
        /// The new time of expiry.
        expires_at: Timestamp,
    },
    /// Releases the session's lease; does nothing if this store does not hold it.
    ReleaseLease(SessionId),
    /// Requests an interrupt of the session's active run; does nothing if there is none.
    RequestInterrupt(SessionId),
    /// Appends messages and sets the session's `updated_at`.
    Append {
        /// The session.
        session: SessionId,
        /// Encoded messages, in order.
        messages: Vec<Vec<u8>>,
        /// The new `updated_at`.
        at: Timestamp,
    },
    /// Opens tool calls, in call order.
    OpenCalls {
        /// The session.
        session: SessionId,
        /// The calls.
        calls: Vec<NewCall>,
    },
    /// Replaces the stored data of an open call; its position and its result stay.
    PutCall {
        /// The session.
        session: SessionId,
        /// The call.
        call: NewCall,
    },
    /// Stores the result of an open call; a second result replaces the first.
    CompleteCall {
        /// The session.
        session: SessionId,
        /// The call's id.
        call: String,
        /// The encoded result.
        result: Vec<u8>,
    },
    /// Closes all open calls of the session, because their results are in the messages.
    CloseCalls(SessionId),
    /// Replaces the session's settings.
    PutSettings {
        /// The session.
        session: SessionId,
        /// The encoded settings.
        settings: Vec<u8>,
    },
    /// Replaces the session's running totals.
    PutProgress {
        /// The session.
        session: SessionId,
        /// The encoded totals.
        progress: Vec<u8>,
    },
    /// Adds to the session's usage on the day of a time.
    AddUsage {
        /// The session.
        session: SessionId,
        /// The time.
        at: Timestamp,
        /// The tokens.
        usage: Usage,
        /// Their cost, where known.
        cost: Usd,
    },
    /// Adds texts of the session to the searchable memories; existing ones are unchanged.
    IndexMemories {
        /// The session.
        session: SessionId,
        /// The texts.
        memories: Vec<NewMemory>,
        /// Time of the change.
        at: Timestamp,
    },
    /// Hides the session from lists and prevents further runs; its messages stay. Archiving it again does nothing.
    Archive {
        /// The session.
        session: SessionId,
        /// Time of the change.
        at: Timestamp,
    },
    /// Deletes the session and all of its data.
    DeleteSession(SessionId),
    /// Replaces the config document; the generation increases by one.
    PutConfig(Vec<u8>),
    /// Stores a task of a session, replacing one with the same id; a new task comes after the others.
    PutTask {
        /// The session.
        session: SessionId,
        /// The task's id.
        id: String,
        /// The encoded task.
        task: Vec<u8>,
    },
    /// Stores a blob; storing the same one again does nothing.
    PutBlob(Blob),
    /// Stores a value under a key, replacing an existing one, which keeps its position among the others.
    PutState {
        /// The scope.
        scope: String,
        /// The key.
        key: String,
        /// The value.
        value: Vec<u8>,
    },
    /// Removes a value; does nothing if it does not exist.
    DeleteState {
        /// The scope.
        scope: String,
        /// The key.
        key: String,
    },
}

/// A session to create.
#[derive(Debug, Clone)]
pub struct NewSession {
    /// Its id, which must be new.
    pub id: SessionId,
    /// Time of creation.
    pub created_at: Timestamp,
    /// Labels for finding it.
    pub labels: BTreeMap<String, String>,
    /// The encoded settings, which change rarely.
    pub settings: Vec<u8>,
    /// The encoded running totals, which change with every step, so they should be small.
    pub progress: Vec<u8>,
}

/// A tool call to open.
#[derive(Debug, Clone)]
pub struct NewCall {
    /// Id of the call, unique among the open calls of the session.
    pub id: String,
    /// The encoded call.
    pub call: Vec<u8>,
}

/// A text to add to the memories.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewMemory {
    /// Index of its message in the session.
    pub seq: u64,
    /// The text.
    pub text: String,
}

/// Values assigned by a commit.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Committed {
    /// The fencing number of the lease taken, if one was.
    pub fence: Option<u64>,
    /// The config generation after the change, if it changed.
    pub generation: Option<u64>,
    /// The value that the last change of the state replaced or removed, if any.
    pub replaced: Option<Vec<u8>>,
}
