//! Tests with given batches, on a disk of given size.

use std::collections::BTreeMap;

use meerkat_core::{SessionId, Timestamp};
use uuid::Uuid;

use super::super::open;
use super::*;
use crate::{Change, Guard, NewSession, Owner, OwnerRecord, StoreMark};

struct Fixture {
    writer: Writer,
    _directory: tempfile::TempDir,
}

fn fixture() -> Fixture {
    let directory = tempfile::tempdir().unwrap();
    let record = OwnerRecord {
        realm: "test".parse().unwrap(),
        instance: None,
        surface: "test".to_owned(),
        started_at: Timestamp::UNIX_EPOCH,
    };
    let owner = Owner::claim(directory.path(), Uuid::from_u128(1), &record).unwrap();
    let path = directory.path().join("db");
    let connection = open::writer(&path, StoreMark::Absent).unwrap();
    let peers = Peers::new(Uuid::from_u128(1), directory.path());
    let presence = Presence::new(&path);
    let failures = FailureLog::default();
    let writer = Writer { connection, peers, path, presence, failures, _owner: owner };
    Fixture { writer, _directory: directory }
}

fn id(number: u128) -> SessionId {
    SessionId::from_uuid(Uuid::from_u128(number))
}

fn create(number: u128, size: usize) -> Transaction {
    let new = NewSession {
        id: id(number),
        created_at: Timestamp::UNIX_EPOCH,
        labels: BTreeMap::new(),
        settings: vec![0; size],
        progress: Vec::new(),
    };
    Transaction { guards: Vec::new(), changes: vec![Change::CreateSession(new)] }
}

fn count(writer: &Writer) -> i64 {
    writer.connection.query_row("SELECT count(*) FROM sessions", [], |row| row.get(0)).unwrap()
}

#[test]
fn rejected_part_does_not_affect_its_batch() {
    let Fixture { writer, .. } = &fixture();
    let late = Transaction { guards: vec![Guard::NotArchived(id(9))], changes: create(3, 1).changes };
    let results = writer.commit(vec![create(1, 1), create(1, 1), late, create(2, 1)]);
    assert!(matches!(
        results.as_slice(),
        [Ok(_), Err(Error::SessionExists(_)), Err(Error::SessionNotFound(_)), Ok(_)]
    ));
    assert_eq!(count(writer), 2);
}

#[test]
fn later_parts_see_earlier_changes() {
    let Fixture { writer, .. } = &fixture();
    let put = |expected| Transaction {
        guards: vec![Guard::Generation(expected)],
        changes: vec![Change::PutConfig(Vec::new())],
    };
    let results = writer.commit(vec![put(0), put(0), put(1)]);
    let generations: Vec<_> =
        results.into_iter().map(|result| result.ok().and_then(|done| done.generation)).collect();
    assert_eq!(generations, [Some(1), None, Some(2)]);
}

#[test]
fn full_disk_fails_only_oversized_commits() {
    let Fixture { writer, .. } = &fixture();
    let limit = |pages: i64| {
        let pragma = format!("PRAGMA max_page_count = {pages}");
        writer.connection.query_row(&pragma, [], |row| row.get::<_, i64>(0)).unwrap()
    };
    let default_limit = limit(0);
    let pages: i64 = writer.connection.query_row("PRAGMA page_count", [], |row| row.get(0)).unwrap();
    limit(pages + 4);
    let results = writer.commit(vec![create(1, 1), create(2, 1_000_000)]);
    let committed = i64::try_from(results.iter().filter(|result| result.is_ok()).count()).unwrap();
    assert!(matches!(results[1], Err(Error::DiskFull { .. })), "{results:?}");
    assert_eq!(count(writer), committed);
    assert!(writer.connection.is_autocommit());

    limit(default_limit);
    assert!(writer.commit(vec![create(3, 1_000_000)])[0].is_ok());
    assert_eq!(count(writer), committed + 1);
}

#[test]
fn failed_commit_fails_the_entire_batch() {
    let Fixture { writer, .. } = &fixture();
    // A deferred constraint is checked only by COMMIT, which then fails entirely.
    writer
        .connection
        .execute_batch(
            "PRAGMA foreign_keys = ON;
             CREATE TABLE sound (id INTEGER PRIMARY KEY);
             CREATE TABLE broken (id INTEGER REFERENCES sound (id) DEFERRABLE INITIALLY DEFERRED);
             CREATE TRIGGER breaks AFTER INSERT ON blobs BEGIN INSERT INTO broken VALUES (1); END",
        )
        .unwrap();
    let blob = Transaction {
        guards: Vec::new(),
        changes: vec![Change::PutBlob(crate::Blob::new("a/b", Vec::new()))],
    };
    let results = writer.commit(vec![create(1, 1), blob]);
    assert!(
        matches!(results.as_slice(), [Err(Error::Sqlite { .. }), Err(Error::Sqlite { .. })]),
        "{results:?}"
    );
    assert_eq!(count(writer), 0);
    assert!(writer.commit(vec![create(2, 1)])[0].is_ok());
}
