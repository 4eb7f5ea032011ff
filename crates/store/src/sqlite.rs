//! The store of realms on disk: one SQLite database, shared by any number of processes.
//!
//! Two threads own a connection each: the writer commits what is queued together, the reader answers from
//! the last commit and never waits for the writer. Both end with the store, after what was queued is done.

mod busy;
mod change;
mod fault;
mod guard;
mod open;
mod reader;
mod recall;
mod state;
mod value;
mod writer;

use std::io;
use std::path::PathBuf;
use std::thread::{Builder, JoinHandle};

use meerkat_core::{BlobId, SessionId};
use tokio::sync::{mpsc, oneshot};

use self::fault::Failure;
use self::reader::Reader;
use self::writer::{Commit, Writer};
use crate::{
    Blob, CallRow, Committed, ConfigRow, Error, MemoryQuery, MemoryRow, MessageRow, Owner, Reply,
    SessionQuery, SessionRow, StateChanges, StateQuery, StateRow, Store, Transaction,
};

pub use self::open::check;

/// How many requests may wait for a thread before the next caller has to.
const QUEUE: usize = 1024;

/// How to open a database.
#[derive(Debug)]
pub struct SqliteOptions {
    /// The database file; it is created if it does not exist, its directory is not.
    pub path: PathBuf,
    /// Who holds the leases this store takes. It lives as long as the store.
    pub owner: Owner,
}

/// A store in a SQLite database.
pub struct SqliteStore {
    writer: Thread<Commit>,
    reader: Thread<Read>,
    // After the threads: leases must not look free while a commit is on its way.
    _owner: Owner,
}

type Read = Box<dyn FnOnce(&mut Reader) + Send>;

impl SqliteStore {
    /// Opens a database, creating it or bringing its schema up to date. Blocks on the file system.
    ///
    /// # Errors
    /// Fails when the file is damaged, newer than this build, not ours, or cannot be written. The file is
    /// left as it was.
    pub fn open(options: SqliteOptions) -> Result<Self, Error> {
        let SqliteOptions { path, owner } = options;
        let mut writer =
            Writer { connection: open::writer(&path)?, peers: owner.peers(), path: path.clone() };
        let mut reader =
            Reader { connection: open::reader(&path)?, peers: owner.peers(), path: path.clone() };
        let spawned = |error: io::Error| Error::io(&path, error);
        Ok(Self {
            writer: Thread::spawn("store-writer", move |commits| writer.run(commits)).map_err(spawned)?,
            reader: Thread::spawn("store-reader", move |mut reads: mpsc::Receiver<Read>| {
                while let Some(read) = reads.blocking_recv() {
                    read(&mut reader);
                }
            })
            .map_err(spawned)?,
            _owner: owner,
        })
    }

    fn read<T: Send + 'static>(
        &self,
        read: impl FnOnce(&Reader) -> Result<T, Failure> + Send + 'static,
    ) -> Reply<'_, T> {
        Box::pin(async move {
            let (answer, answered) = oneshot::channel();
            let job: Read = Box::new(move |reader| {
                // Whoever asked may have gone away.
                let _ = answer.send(reader.answer(read));
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

    fn blob(&self, id: BlobId) -> Reply<'_, Option<Blob>> {
        self.read(move |reader| reader.blob(id))
    }

    fn recall(&self, query: MemoryQuery) -> Reply<'_, Vec<MemoryRow>> {
        self.read(move |reader| reader.recall(&query))
    }

    fn tasks(&self, id: SessionId) -> Reply<'_, Vec<Vec<u8>>> {
        self.read(move |reader| reader.tasks(id))
    }

    fn interrupts(&self) -> Reply<'_, Vec<SessionId>> {
        self.read(Reader::interrupts)
    }

    fn state(&self, query: StateQuery) -> Reply<'_, Vec<StateRow>> {
        self.read(move |reader| Ok(state::read(&reader.connection, &query)?))
    }

    fn scopes(&self) -> Reply<'_, Vec<String>> {
        self.read(|reader| Ok(state::scopes(&reader.connection)?))
    }

    fn revision(&self, scope: String) -> Reply<'_, u64> {
        self.read(move |reader| Ok(state::revision(&reader.connection, &scope)?))
    }

    fn state_changes(&self, scope: String, since: u64) -> Reply<'_, StateChanges> {
        self.read(move |reader| Ok(state::changes(&reader.connection, &scope, since)?))
    }
}

/// A thread that works off a queue; dropping it waits for the queue to be done.
struct Thread<T> {
    queue: Option<mpsc::Sender<T>>,
    thread: Option<JoinHandle<()>>,
}

impl<T: Send + 'static> Thread<T> {
    fn spawn(name: &str, work: impl FnOnce(mpsc::Receiver<T>) + Send + 'static) -> io::Result<Self> {
        let (queue, waiting) = mpsc::channel(QUEUE);
        let thread = Builder::new().name(name.to_owned()).spawn(move || work(waiting))?;
        Ok(Self { queue: Some(queue), thread: Some(thread) })
    }

    async fn send(&self, item: T) -> Result<(), Error> {
        let queue = self.queue.as_ref().ok_or(Error::Closed)?;
        queue.send(item).await.map_err(|_| Error::Closed)
    }
}

impl<T> Drop for Thread<T> {
    fn drop(&mut self) {
        // Closing the queue is what tells the thread to end.
        self.queue = None;
        if let Some(thread) = self.thread.take() {
            // A thread that panicked has nothing left to do; its callers were told the store is closed.
            let _ = thread.join();
        }
    }
}
