//! The writer thread, which commits all queued transactions together.
//!
//! One transaction of the database contains the entire batch, so that callers share one wait for the disk. Each
//! caller's part is a separate savepoint and fails alone; only a storage failure fails the batch, and then none of it
//! is committed. The write lock is taken before anything is read, so a guard that holds still holds at the commit.

use std::path::PathBuf;

use rusqlite::Connection;
use tokio::sync::{mpsc, oneshot};

use super::change::apply;
use super::failure::{Failure, clone_error, storage};
use super::failure_log::FailureLog;
use super::guard::check;
use super::presence::Presence;
use crate::owner::Peers;
use crate::{Committed, Error, Owner, Transaction};

/// Maximum number of transactions in a batch, so that the first does not wait too long.
const BATCH: usize = 256;

/// A transaction and the channel for its result.
pub(super) struct Commit {
    pub(super) transaction: Transaction,
    pub(super) answer: oneshot::Sender<Result<Committed, Error>>,
}

/// State of the writer thread.
pub(super) struct Writer {
    pub(super) connection: Connection,
    pub(super) peers: Peers,
    pub(super) path: PathBuf,
    pub(super) presence: Presence,
    pub(super) failures: FailureLog,
    // Held only for its lock. After the connection: leases must not appear free during a commit.
    pub(super) _owner: Owner,
}

impl Writer {
    /// Commits `first`, and then queued transactions until the queue is closed and empty.
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
                // The caller may have been dropped; the commit stays.
                let _ = answer.send(result);
            }
        }
    }

    /// Commits a batch and returns the result of each part.
    fn commit(&self, transactions: Vec<Transaction>) -> Vec<Result<Committed, Error>> {
        let count = transactions.len();
        if self.presence.check(&self.path).is_err() {
            return (0..count).map(|_| Err(Error::StoreReplaced { path: self.path.clone() })).collect();
        }
        match self.attempt(transactions) {
            Ok(results) => results,
            Err(error) => {
                self.failures.add(&self.path, &error, "cannot commit");
                if !self.connection.is_autocommit() {
                    // If the rollback fails, the next batch fails to start and gets here again.
                    let _ = self.execute("ROLLBACK");
                }
                (0..count).map(|_| Err(storage(&self.path, clone_error(&error)))).collect()
            }
        }
    }

    fn attempt(&self, transactions: Vec<Transaction>) -> rusqlite::Result<Vec<Result<Committed, Error>>> {
        self.execute("BEGIN IMMEDIATE")?;
        let results = transactions.into_iter().map(|one| self.part(one)).collect::<Result<Vec<_>, _>>()?;
        self.execute("COMMIT")?;
        Ok(results)
    }

    /// Applies one caller's transaction. The outer error ends the entire batch.
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
            // For some failures, SQLite rolls back everything by itself.
            Failure::Storage(error) if self.connection.is_autocommit() => return Err(error),
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
