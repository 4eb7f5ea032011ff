//! The writer thread: everything that is queued is committed together.
//!
//! One transaction of the database carries the whole batch, so that one wait for the disk serves everybody.
//! Each caller's part is a savepoint of its own and fails alone; only a fault of the storage fails the
//! batch, and then nothing of it has happened. The write lock is taken before anything is read, so a
//! guard's truth lasts until the commit.

use std::path::PathBuf;

use rusqlite::Connection;
use tokio::sync::{mpsc, oneshot};

use super::change::apply;
use super::fault::{Failure, again, storage};
use super::guard::check;
use crate::owner::Peers;
use crate::{Committed, Error, Owner, Transaction};

/// How many transactions are committed together at most, so that the first does not wait for too many.
const BATCH: usize = 256;

/// A transaction and who waits for it.
pub(super) struct Commit {
    pub(super) transaction: Transaction,
    pub(super) answer: oneshot::Sender<Result<Committed, Error>>,
}

/// What the writer thread owns.
pub(super) struct Writer {
    pub(super) connection: Connection,
    pub(super) peers: Peers,
    pub(super) path: PathBuf,
    // Held for its lock alone. After the connection: leases must not look free while a commit is on its way.
    pub(super) _owner: Owner,
}

impl Writer {
    /// Commits `first`, and then until the queue is closed and empty.
    pub(super) fn run(&mut self, queue: &mut mpsc::Receiver<Commit>, mut first: Option<Commit>) {
        while let Some(first) = first.take().or_else(|| queue.blocking_recv()) {
            let (mut transactions, mut answers) = (vec![first.transaction], vec![first.answer]);
            while transactions.len() < BATCH
                && let Ok(next) = queue.try_recv()
            {
                transactions.push(next.transaction);
                answers.push(next.answer);
            }
            let results = self.commit(transactions);
            for (answer, result) in answers.into_iter().zip(results) {
                // Whoever asked may have gone away; what was committed stays.
                let _ = answer.send(result);
            }
        }
    }

    /// Commits a batch and says how each of its parts went.
    fn commit(&self, transactions: Vec<Transaction>) -> Vec<Result<Committed, Error>> {
        let count = transactions.len();
        match self.attempt(transactions) {
            Ok(results) => results,
            Err(fault) => {
                if !self.connection.is_autocommit() {
                    // Failing to roll back fails the next batch's beginning, which comes here again.
                    let _ = self.execute("ROLLBACK");
                }
                (0..count).map(|_| Err(storage(&self.path, again(&fault)))).collect()
            }
        }
    }

    fn attempt(&self, transactions: Vec<Transaction>) -> rusqlite::Result<Vec<Result<Committed, Error>>> {
        self.execute("BEGIN IMMEDIATE")?;
        let results = transactions.into_iter().map(|one| self.part(one)).collect::<Result<Vec<_>, _>>()?;
        self.execute("COMMIT")?;
        Ok(results)
    }

    /// Applies one caller's transaction; the outer error is one that ended the whole batch.
    fn part(&self, transaction: Transaction) -> rusqlite::Result<Result<Committed, Error>> {
        self.execute("SAVEPOINT part")?;
        let failure = match self.apply(transaction) {
            Ok(committed) => {
                self.execute("RELEASE part")?;
                return Ok(Ok(committed));
            }
            Err(failure) => failure,
        };
        match failure {
            // Some faults make SQLite roll back everything by itself.
            Failure::Storage(fault) if self.connection.is_autocommit() => return Err(fault),
            Failure::Storage(_) | Failure::Refused(_) => {}
        }
        self.execute("ROLLBACK TO part")?;
        self.execute("RELEASE part")?;
        Ok(Err(failure.at(&self.path)))
    }

    fn apply(&self, transaction: Transaction) -> Result<Committed, Failure> {
        for guard in &transaction.guards {
            check(&self.connection, &self.peers, guard)?;
        }
        let mut committed = Committed::default();
        for change in transaction.changes {
            apply(&self.connection, self.peers.me, change, &mut committed)?;
        }
        Ok(committed)
    }

    fn execute(&self, statement: &'static str) -> rusqlite::Result<()> {
        self.connection.prepare_cached(statement)?.execute([]).map(drop)
    }
}

#[cfg(test)]
mod tests;
