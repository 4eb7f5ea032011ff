//! The store of realms on disk: a SQLite database, shared by any number of processes.
//!
//! Two threads own a connection each: the writer commits queued transactions together, and the reader reads the last
//! commit and never waits for the writer. Both end with the store, after their queues are empty.

mod backup;
mod busy;
mod change;
mod check;
mod failure;
mod failure_log;
mod guard;
mod open;
mod presence;
mod reader;
mod recall;
mod state;
mod unwritable;
mod value;
mod writer;

use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::thread::{Builder, JoinHandle};

use meerkat_core::{BlobId, SessionId};
use rusqlite::Connection;
use tokio::runtime::Handle;
use tokio::sync::{mpsc, oneshot};

use self::failure::Failure;
use self::failure_log::FailureLog;
use self::presence::Presence;
use self::reader::Reader;
use self::unwritable::Unwritable;
use self::writer::{Commit, Writer};
use crate::owner::Peers;
use crate::{
    Blob, CallRow, Committed, ConfigRow, Error, MemoryQuery, MemoryRow, MessageRow, Owner, Reply,
    SessionQuery, SessionRow, StateChanges, StateQuery, StateRow, Store, StoreMark, Transaction, UsageRow,
};

pub(crate) use self::backup::{copy, manifest_of_backup, seal, unseal};
pub use self::check::{check, try_write};
pub(crate) use self::unwritable::{count_sessions, is_unused};

/// Capacity of a thread's queue of requests. If it is full, callers wait.
const QUEUE: usize = 1024;

/// A database that is open for writing, and the owner of the leases taken in it.
pub(crate) struct OpenWriter {
    connection: Connection,
    presence: Presence,
    owner: Owner,
}

impl OpenWriter {
    /// Opens a database, creating it or upgrading its schema. Blocks on the file system.
    ///
    /// # Errors
    /// Returns an error if the file is damaged, newer than this build, not a Meerkat database, not writable, or missing
    /// although it was created. The file is not changed then.
    pub(crate) fn new(path: &Path, mark: StoreMark, owner: Owner) -> Result<Self, Error> {
        let (connection, presence) = Presence::open(path, || open::writer(path, mark))?;
        Ok(Self { connection, presence, owner })
    }

    fn into_writer(self, path: PathBuf, peers: Peers) -> Writer {
        let Self { connection, presence, owner } = self;
        let failures = FailureLog::default();
        Writer { connection, peers, path, presence, failures, _owner: owner }
    }
}

/// A store in a SQLite database.
pub(crate) struct SqliteStore {
    path: PathBuf,
    /// The damage that the first quick check found, or `None` if it found none.
    damage: Arc<OnceLock<Option<String>>>,
    // Before the reader: its thread holds the owner, and leases must not appear free during a commit.
    writer: Thread<Commit>,
    reader: Thread<Read>,
}

type Read = Box<dyn FnOnce(Result<&Reader, Error>) + Send>;

impl SqliteStore {
    /// Starts the threads of an open database.
    pub(crate) fn open(path: PathBuf, peers: Peers, writer: OpenWriter) -> Result<Self, Error> {
        let reader = Reader {
            connection: open::reader(&path)?,
            peers: peers.clone(),
            path: path.clone(),
            failures: FailureLog::default(),
        };
        let mut writer = writer.into_writer(path.clone(), peers);
        Self::start(
            path,
            move |mut commits| writer.run(&mut commits, None),
            move |mut reads| {
                while let Some(read) = reads.blocking_recv() {
                    read(Ok(&reader));
                }
            },
        )
    }

    /// Starts the threads of a database that can only be read. Each commit calls `open` until it succeeds.
    pub(crate) fn open_unwritable(
        path: PathBuf,
        peers: Peers,
        mark: StoreMark,
        open: impl Fn() -> Result<OpenWriter, Error> + Send + 'static,
    ) -> Result<Self, Error> {
        let failures = FailureLog::default();
        let database = Unwritable { path: path.clone(), peers: peers.clone(), mark, failures };
        // Report errors of the database now.
        database.reader()?;
        let (writer_path, failures) = (path.clone(), FailureLog::default());
        Self::start(
            path,
            move |mut commits: mpsc::Receiver<Commit>| {
                while let Some(first) = commits.blocking_recv() {
                    match open() {
                        Ok(opened) => {
                            opened.into_writer(writer_path, peers).run(&mut commits, Some(first));
                            return;
                        }
                        Err(error) => {
                            failures.add(&writer_path, &error, "cannot commit");
                            // The caller may have been dropped.
                            let _ = first.answer.send(Err(error));
                        }
                    }
                }
            },
            move |mut reads| {
                while let Some(read) = reads.blocking_recv() {
                    match database.reader() {
                        Ok(reader) => read(Ok(&reader)),
                        Err(error) => read(Err(error)),
                    }
                }
            },
        )
    }

    fn start(
        path: PathBuf,
        write: impl FnOnce(mpsc::Receiver<Commit>) + Send + 'static,
        read: impl FnOnce(mpsc::Receiver<Read>) + Send + 'static,
    ) -> Result<Self, Error> {
        let spawned = |error: io::Error| Error::io(&path, error);
        let writer = Thread::spawn("store-writer", write).map_err(spawned)?;
        let reader = Thread::spawn("store-reader", read).map_err(spawned)?;
        Ok(Self { path, damage: Arc::default(), writer, reader })
    }

    fn read<T: Send + 'static, E: Into<Failure>>(
        &self,
        read: impl FnOnce(&Reader) -> Result<T, E> + Send + 'static,
    ) -> Reply<'_, T> {
        Box::pin(async move {
            let (answer, answered) = oneshot::channel();
            let job: Read = Box::new(move |reader| {
                // The caller may have been dropped.
                let _ = answer.send(reader.and_then(|reader| reader.answer(read)));
            });
            self.reader.send(job).await?;
            answered.await.map_err(|_| Error::Closed)?
        })
    }
}

impl Store for SqliteStore {
    fn commit(&self, transaction: Transaction) -> Reply<'_, Committed> {
        Box::pin(async move {
            let (answer, answered) = oneshot::channel();
            self.writer.send(Commit { transaction, answer }).await?;
            answered.await.map_err(|_| Error::Closed)?
        })
    }

    fn session(&self, id: SessionId) -> Reply<'_, Option<SessionRow>> {
        self.read(move |reader| reader.session(id))
    }

    fn sessions(&self, query: SessionQuery) -> Reply<'_, Vec<SessionRow>> {
        self.read(move |reader| reader.sessions(&query))
    }

    fn messages(&self, id: SessionId, from: u64, limit: u64) -> Reply<'_, Vec<MessageRow>> {
        self.read(move |reader| reader.messages(id, from, limit))
    }

    fn calls(&self, id: SessionId) -> Reply<'_, Vec<CallRow>> {
        self.read(move |reader| reader.calls(id))
    }

    fn config(&self) -> Reply<'_, Option<ConfigRow>> {
        self.read(Reader::config)
    }

    fn has_blob(&self, id: BlobId) -> Reply<'_, bool> {
        self.read(move |reader| reader.has_blob(&id))
    }

    fn blob(&self, id: BlobId) -> Reply<'_, Option<Blob>> {
        self.read(move |reader| reader.blob(id))
    }

    fn search_memories(&self, query: MemoryQuery) -> Reply<'_, Vec<MemoryRow>> {
        self.read(move |reader| reader.recall(&query))
    }

    fn tasks(&self, id: SessionId) -> Reply<'_, Vec<Vec<u8>>> {
        self.read(move |reader| reader.tasks(id))
    }

    fn usage(&self) -> Reply<'_, Vec<UsageRow>> {
        self.read(Reader::usage)
    }

    fn interrupts(&self) -> Reply<'_, Vec<SessionId>> {
        self.read(Reader::interrupts)
    }

    fn state(&self, query: StateQuery) -> Reply<'_, Vec<StateRow>> {
        self.read(move |reader| state::read(&reader.connection, &query))
    }

    fn scopes(&self) -> Reply<'_, Vec<String>> {
        self.read(|reader| state::scopes(&reader.connection))
    }

    fn revision(&self, scope: String) -> Reply<'_, u64> {
        self.read(move |reader| state::revision(&reader.connection, &scope))
    }

    fn state_changes(&self, scope: String, since: u64) -> Reply<'_, StateChanges> {
        self.read(move |reader| state::changes(&reader.connection, &scope, since))
    }

    fn examine(&self) -> Reply<'_, Option<PathBuf>> {
        let (path, damage) = (self.path.clone(), Arc::clone(&self.damage));
        self.read(move |_| check::quick_check_once(&path, &damage).map(|()| Some(path)))
    }
}

/// A thread that processes a queue. Dropping it closes the queue, and the thread ends once the queue is empty.
struct Thread<T> {
    queue: Option<mpsc::Sender<T>>,
    ending: Option<Ending>,
}

impl<T: Send + 'static> Thread<T> {
    fn spawn(name: &str, work: impl FnOnce(mpsc::Receiver<T>) + Send + 'static) -> io::Result<Self> {
        let (queue, requests) = mpsc::channel(QUEUE);
        let thread = Builder::new().name(name.to_owned()).spawn(move || work(requests))?;
        Ok(Self { queue: Some(queue), ending: Some(Ending(Some(thread))) })
    }

    async fn send(&self, item: T) -> Result<(), Error> {
        let queue = self.queue.as_ref().ok_or(Error::Closed)?;
        queue.send(item).await.map_err(|_| Error::Closed)
    }
}

impl<T> Drop for Thread<T> {
    fn drop(&mut self) {
        // Closing the queue ends the thread.
        self.queue = None;
        let ending = self.ending.take();
        match Handle::try_current() {
            // Do not block other tasks of this thread. The async runtime waits when it shuts down, so the database is
            // closed when the process ends.
            Ok(runtime) => drop(runtime.spawn_blocking(move || drop(ending))),
            Err(_) => drop(ending),
        }
    }
}

/// A thread whose queue is closed. Dropping it waits until the thread has ended, even if the task that holds it never
/// ran.
struct Ending(Option<JoinHandle<()>>);

impl Drop for Ending {
    fn drop(&mut self) {
        if let Some(thread) = self.0.take() {
            // A thread that panicked has nothing left to do; its callers got an error that the store is closed.
            let _ = thread.join();
        }
    }
}
