//! The one way anything changes: guards that must hold, then changes that are applied together.

use std::collections::BTreeMap;

use meerkat_core::{RunId, SessionId, Timestamp};

use crate::Blob;

/// Guards and changes that are committed together.
#[derive(Debug, Clone, Default)]
pub struct Transaction {
    /// What must hold for any of it to happen.
    pub guards: Vec<Guard>,
    /// What happens then, in order.
    pub changes: Vec<Change>,
}

/// A condition checked inside the transaction.
#[derive(Debug, Clone)]
pub enum Guard {
    /// The session exists and is not archived.
    Live(SessionId),
    /// Nobody holds the session's lease. One that ran out by `now`, or whose owner is dead, holds nothing.
    Free {
        /// The session.
        session: SessionId,
        /// The caller's clock.
        now: Timestamp,
    },
    /// Somebody holds the session's lease, in the sense of [`Guard::Free`].
    Running {
        /// The session.
        session: SessionId,
        /// The caller's clock.
        now: Timestamp,
    },
    /// The lease with this fencing number is still the session's current one and was not released.
    Holds {
        /// The session.
        session: SessionId,
        /// The number [`Committed::fence`] gave when the lease was taken.
        fence: u64,
    },
    /// The session's fencing number is still this one: nobody ran it since it was read.
    Unrun {
        /// The session.
        session: SessionId,
        /// The number in [`SessionRow::fence`](crate::SessionRow::fence).
        fence: u64,
    },
    /// The session has fewer tasks than `limit`.
    TasksBelow {
        /// The session.
        session: SessionId,
        /// The number of tasks it may have.
        limit: usize,
    },
    /// The config generation is still this one (0 before the first change).
    Generation(u64),
    /// A value of the state is still this one; `None` if there must be none.
    State {
        /// The scope.
        scope: String,
        /// The key.
        key: String,
        /// The value that was read.
        value: Option<Vec<u8>>,
    },
}

/// One thing that happens.
///
/// A change to a session that does not exist fails, and the whole transaction with it.
#[derive(Debug, Clone)]
pub enum Change {
    /// A session begins.
    CreateSession(NewSession),
    /// This store takes the session's lease; the fencing number grows by one.
    TakeLease {
        /// The session.
        session: SessionId,
        /// The run it is taken for.
        run: RunId,
        /// When it runs out unless renewed.
        expires_at: Timestamp,
    },
    /// The leases that this store holds on these sessions run out at a later time.
    RenewLeases {
        /// The sessions; one whose lease is not ours is passed over.
        sessions: Vec<SessionId>,
        /// The new end.
        expires_at: Timestamp,
    },
    /// The session's lease is given back; one that this store does not hold stays as it is.
    ReleaseLease(SessionId),
    /// Whoever runs the session is asked to stop; changes nothing if nobody does.
    RequestInterrupt(SessionId),
    /// Messages are added at the end; sets the session's `updated_at`.
    Append {
        /// The session.
        session: SessionId,
        /// Encoded messages, in order.
        messages: Vec<Vec<u8>>,
        /// The new `updated_at`.
        at: Timestamp,
    },
    /// Tool calls begin; their order is the call order.
    OpenCalls {
        /// The session.
        session: SessionId,
        /// The calls.
        calls: Vec<NewCall>,
    },
    /// Replaces what is stored of an open call; its place and its result stay.
    PutCall {
        /// The session.
        session: SessionId,
        /// The call.
        call: NewCall,
    },
    /// The result of an open call is kept beside it; a second one replaces the first.
    SettleCall {
        /// The session.
        session: SessionId,
        /// The call's id.
        call: String,
        /// The encoded result.
        result: Vec<u8>,
    },
    /// Every open call of the session is done with, because its result is in the messages.
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
    /// Texts of the session can be found from now on; one that already can is left as it is.
    Remember {
        /// The session.
        session: SessionId,
        /// The texts.
        memories: Vec<NewMemory>,
        /// When.
        at: Timestamp,
    },
    /// Hides the session from lists and refuses further runs; its messages stay. The first time counts.
    Archive {
        /// The session.
        session: SessionId,
        /// When.
        at: Timestamp,
    },
    /// Removes the session and all that belongs to it.
    Forget(SessionId),
    /// Replaces the config document; the generation grows by one.
    PutConfig(Vec<u8>),
    /// Keeps a task of a session, in place of the one with its id if there is one; a new one comes after the others.
    PutTask {
        /// The session.
        session: SessionId,
        /// The task's id.
        id: String,
        /// The encoded task.
        task: Vec<u8>,
    },
    /// Keeps a blob; keeping the same one again changes nothing.
    PutBlob(Blob),
    /// Keeps a value under a key; one that is there is replaced and its place among the others stays.
    PutState {
        /// The scope.
        scope: String,
        /// The key.
        key: String,
        /// The value.
        value: Vec<u8>,
    },
    /// Removes a value; changes nothing if there is none.
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
    /// Its id; it must be new.
    pub id: SessionId,
    /// When it was created.
    pub created_at: Timestamp,
    /// What it can be found by.
    pub labels: BTreeMap<String, String>,
    /// The encoded settings: changed seldom.
    pub settings: Vec<u8>,
    /// The encoded running totals: changed with every step, so kept small.
    pub progress: Vec<u8>,
}

/// A tool call to open.
#[derive(Debug, Clone)]
pub struct NewCall {
    /// The call's id, unique among the open calls of the session.
    pub id: String,
    /// The encoded call.
    pub call: Vec<u8>,
}

/// A text to remember.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewMemory {
    /// Its place among the session's messages.
    pub seq: u64,
    /// The text.
    pub text: String,
}

/// What a commit assigned.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Committed {
    /// The fencing number of the lease taken, if one was.
    pub fence: Option<u64>,
    /// The config generation after the change, if it changed.
    pub generation: Option<u64>,
    /// The value that the last change of the state replaced or removed, if there was one.
    pub replaced: Option<Vec<u8>>,
}
