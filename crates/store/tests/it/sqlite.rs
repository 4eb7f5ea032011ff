//! Tests specific to databases on disk.

use std::fs::{self, File};
use std::future::poll_fn;
use std::sync::{Arc, Barrier};
use std::task::Poll;
use std::thread;
use std::time::{Duration, Instant};

use meerkat_core::{ErrorKind, Usage, Usd};
use meerkat_store::{Change, Error, Realm, SessionQuery, StateRow, Store, Transaction, UsageRow, check};
use rusqlite::Connection;

use crate::support::{
    Scratch, append, at, change, close, commit, create, free, guard, holds, live, options, put_state,
    running, session, take,
};

#[tokio::test]
async fn commits_survive_reopening() {
    let scratch = Scratch::new();
    let store = scratch.open(1).unwrap().store();
    change(&*store, vec![create(1), append(1, &["a", "b"], 3), take(1, 10)]).await.unwrap();
    change(&*store, vec![Change::PutConfig(b"doc".to_vec()), Change::ReleaseLease(session(1))])
        .await
        .unwrap();
    let before = (store.session(session(1)).await.unwrap(), store.messages(session(1), 0, 9).await.unwrap());
    close(store);

    check(&scratch.paths().database).unwrap();
    let store = scratch.open(2).unwrap().store();
    let after = (store.session(session(1)).await.unwrap(), store.messages(session(1), 0, 9).await.unwrap());
    assert_eq!(before, after);
    assert_eq!(store.config().await.unwrap().unwrap().generation, 1);
    assert_eq!(change(&*store, vec![take(1, 10)]).await.unwrap().fence, Some(2));
}

#[tokio::test]
async fn dropped_store_commits_without_blocking() {
    let scratch = Scratch::new();
    let store = scratch.open(1).unwrap().store();
    let other = Connection::open(scratch.paths().database).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    let transaction = Transaction { guards: vec![], changes: vec![create(1)] };
    let mut commit = store.commit(transaction);
    let queued = poll_fn(|context| Poll::Ready(commit.as_mut().poll(context))).await;
    assert!(queued.is_pending());
    drop(commit);
    // The writer waits for the other connection, which only this thread can end.
    drop(store);
    other.execute_batch("ROLLBACK").unwrap();

    let deadline = Instant::now() + Duration::from_secs(60);
    while scratch.owner_file(1).exists() {
        assert!(Instant::now() < deadline, "the writer has not ended");
        thread::yield_now();
    }
    let store = scratch.open(2).unwrap().store();
    assert!(store.session(session(1)).await.unwrap().is_some());
}

#[test]
fn newer_schema_is_rejected_unchanged() {
    let scratch = Scratch::new();
    drop(scratch.open(1).unwrap());
    let path = scratch.paths().database;
    Connection::open(&path).unwrap().execute_batch("UPDATE schema_version SET version = 99").unwrap();
    let before = fs::read(&path).unwrap();
    let error = scratch.open(2).unwrap_err();
    assert!(matches!(error, Error::NewerSchema { found: 99, supported: 7, .. }), "{error:?}");
    assert_eq!(error.kind(), ErrorKind::StoreError);
    assert_eq!(fs::read(&path).unwrap(), before);
}

#[tokio::test]
async fn first_version_is_upgraded_without_loss() {
    let scratch = Scratch::new();
    close(scratch.open(1).unwrap());
    let path = scratch.paths().database;
    for suffix in ["", "-wal", "-shm"] {
        let _ = fs::remove_file(format!("{}{suffix}", path.display()));
    }
    let old = Connection::open(&path).unwrap();
    old.execute_batch(include_str!("../../src/sqlite/schema/0001.sql")).unwrap();
    old.execute_batch(
        "CREATE TABLE schema_version (version INTEGER NOT NULL); INSERT INTO schema_version VALUES (1)",
    )
    .unwrap();
    for id in [1, 2] {
        let id = session(id).uuid().into_bytes();
        old.execute("INSERT INTO sessions VALUES (?1, 5, 6, NULL, 0, x'07')", [id]).unwrap();
        old.execute("INSERT INTO settings VALUES (?1, x'08')", [id]).unwrap();
    }
    let leased = (session(1).uuid().into_bytes(), [9; 16]);
    old.execute("INSERT INTO leases VALUES (?1, 4, NULL, ?2, 10, 0)", leased).unwrap();
    drop(old);

    let store = scratch.open(2).unwrap().store();
    let (first, second) =
        (store.session(session(1)).await.unwrap(), store.session(session(2)).await.unwrap());
    let fields =
        |row: Option<meerkat_store::SessionRow>| row.map(|row| (row.fence, row.settings, row.progress));
    assert_eq!(fields(first), Some((4, vec![8], vec![7])));
    assert_eq!(fields(second), Some((0, vec![8], vec![7])));
    assert_eq!(change(&*store, vec![take(1, 10)]).await.unwrap().fence, Some(5));
    change(&*store, vec![put_state("s", "k", b"v")]).await.unwrap();
    assert_eq!(store.revision("s".to_owned()).await.unwrap(), 1);
}

/// Downgrades a database to the sixth version.
const SIXTH_VERSION: &str = "DROP TABLE usage; DROP INDEX sessions_by_change; \
    ALTER TABLE sessions DROP COLUMN changed; CREATE INDEX sessions_by_change ON sessions (updated_at, id); \
    UPDATE schema_version SET version = 6";

#[tokio::test]
async fn sixth_version_usage_stays_on_its_day() {
    const DAY: i64 = 86_400;
    let scratch = Scratch::new();
    let store = scratch.open(1).unwrap().store();
    let progress = br#"{"usage":{"input_tokens":10,"output_tokens":5,"cache_read_tokens":3},"cost":0.25}"#;
    let put = Change::PutProgress { session: session(1), progress: progress.to_vec() };
    let changes =
        vec![create(1), create(2), create(3), append(2, &["a"], 5), append(1, &["a"], 2 * DAY + 7), put];
    change(&*store, changes).await.unwrap();
    let listed = async |store: &dyn Store| -> Vec<_> {
        store.sessions(SessionQuery::default()).await.unwrap().into_iter().map(|row| row.id).collect()
    };
    let before = listed(&*store).await;
    close(store);
    Connection::open(scratch.paths().database).unwrap().execute_batch(SIXTH_VERSION).unwrap();

    let store = scratch.open(2).unwrap().store();
    let usage =
        Usage { input_tokens: 10, output_tokens: 5, cache_read_tokens: Some(3), cache_creation_tokens: None };
    let expected = UsageRow { session: session(1), day: at(2 * DAY), usage, cost: Usd::from_micros(250_000) };
    assert_eq!(store.usage().await.unwrap(), [expected]);
    assert_eq!(listed(&*store).await, before);
}

/// Downgrades a database from the sixth to the fifth version.
const FIFTH_VERSION: &str = "DROP INDEX state_changed; ALTER TABLE state DROP COLUMN changed; \
    ALTER TABLE scopes DROP COLUMN removed; UPDATE schema_version SET version = 5";

#[tokio::test]
async fn fifth_version_values_are_among_the_changes() {
    let scratch = Scratch::new();
    let store = scratch.open(1).unwrap().store();
    change(&*store, vec![put_state("s", "a", b"1"), put_state("s", "b", b"2")]).await.unwrap();
    let before = store.state_changes("s".to_owned(), 0).await.unwrap();
    assert_eq!(before.put.len(), 2);
    close(store);
    Connection::open(scratch.paths().database)
        .unwrap()
        .execute_batch(&format!("{SIXTH_VERSION}; {FIFTH_VERSION}"))
        .unwrap();

    let store = scratch.open(2).unwrap().store();
    assert_eq!(store.state_changes("s".to_owned(), 0).await.unwrap(), before);
    change(&*store, vec![put_state("s", "a", b"3")]).await.unwrap();
    let after = store.state_changes("s".to_owned(), before.revision).await.unwrap();
    assert_eq!(after.put, [StateRow { key: "a".to_owned(), value: b"3".to_vec() }]);
}

/// Downgrades a database from the sixth to the second version.
const SECOND_VERSION: &str = "DROP TABLE state; DROP TABLE scopes; DROP TABLE memories; DROP TABLE memories_index; DROP TABLE tasks; \
    UPDATE schema_version SET version = 2";

#[tokio::test]
async fn second_version_is_upgraded_without_loss() {
    let scratch = Scratch::new();
    let store = scratch.open(1).unwrap().store();
    change(&*store, vec![create(1), append(1, &["a"], 3), Change::PutConfig(b"doc".to_vec())]).await.unwrap();
    let contents = async |store: &dyn Store| {
        let id = session(1);
        (
            store.session(id).await.unwrap(),
            store.messages(id, 0, 9).await.unwrap(),
            store.config().await.unwrap(),
        )
    };
    let before = contents(&*store).await;
    close(store);
    let old = Connection::open(scratch.paths().database).unwrap();
    old.execute_batch(&format!("{SIXTH_VERSION}; {SECOND_VERSION}")).unwrap();
    drop(old);

    let store = scratch.open(2).unwrap().store();
    assert_eq!(contents(&*store).await, before);
    change(&*store, vec![put_state("s", "k", b"v")]).await.unwrap();
    close(store);
    let store = scratch.open(3).unwrap().store();
    assert_eq!(store.scopes().await.unwrap(), ["s"]);
}

#[test]
fn foreign_database_is_rejected_unchanged() {
    let scratch = Scratch::new();
    drop(scratch.open(1).unwrap());
    let path = scratch.paths().database;
    fs::remove_file(&path).unwrap();
    Connection::open(&path).unwrap().execute_batch("CREATE TABLE sessions (id TEXT)").unwrap();
    let before = fs::read(&path).unwrap();
    assert!(matches!(scratch.open(2), Err(Error::ForeignSchema { .. })));
    assert_eq!(fs::read(&path).unwrap(), before);
}

#[test]
fn damaged_file_is_reported_unchanged() {
    let scratch = Scratch::new();
    drop(scratch.open(1).unwrap());
    let path = scratch.paths().database;
    let intact = fs::read(&path).unwrap();
    let mut scrambled = intact.clone();
    scrambled[100..2000].fill(0x5a);
    for garbage in [b"this is no database".repeat(300), b"short".to_vec(), scrambled, intact[..4000].to_vec()]
    {
        fs::write(&path, &garbage).unwrap();
        for error in [scratch.open(2).unwrap_err(), check(&path).unwrap_err()] {
            assert!(matches!(&error, Error::Corrupt { .. }), "{error:?}");
            assert_eq!(error.kind(), ErrorKind::StoreError);
            assert!(error.hint().unwrap().contains("sessions.sqlite3"));
        }
        assert_eq!(fs::read(&path).unwrap(), garbage);
    }
}

#[test]
fn checking_a_missing_file_does_not_create_it() {
    let scratch = Scratch::new();
    let path = scratch.root().join("none.sqlite3");
    assert!(matches!(check(&path), Err(Error::Io { .. })));
    assert!(!path.exists());
}

#[tokio::test(flavor = "multi_thread")]
async fn concurrent_commits_are_durable_despite_bad_ones() {
    let scratch = Scratch::new();
    let store = scratch.open(1).unwrap().store();
    change(&*store, (0..20).map(create).collect()).await.unwrap();
    let mut tasks = tokio::task::JoinSet::new();
    for number in 0..20 {
        let store = Arc::clone(&store);
        tasks.spawn(async move {
            for second in 0..25 {
                change(&*store, vec![append(number, &["x", "y"], second)]).await.unwrap();
                let bad = vec![append(number, &["never"], second), append(99, &["x"], second)];
                change(&*store, bad).await.unwrap_err();
                commit(&*store, vec![running(number, 0)], vec![append(number, &["never"], 0)])
                    .await
                    .unwrap_err();
            }
        });
    }
    tasks.join_all().await;
    close(store);

    check(&scratch.paths().database).unwrap();
    let store = scratch.open(2).unwrap().store();
    for number in 0..20 {
        let messages = store.messages(session(number), 0, 100).await.unwrap();
        let numbers: Vec<_> = messages.iter().map(|message| message.seq).collect();
        assert_eq!(numbers, (0..50).collect::<Vec<_>>());
        assert!(messages.iter().all(|row| row.message != b"never"));
    }
}

#[test]
fn sixteen_threads_open_a_fresh_realm() {
    for _ in 0..4 {
        let scratch = Scratch::new();
        let start = Arc::new(Barrier::new(16));
        let open = |owner: u128| {
            let (root, start) = (scratch.root().to_owned(), Arc::clone(&start));
            thread::spawn(move || {
                start.wait();
                let store = Realm::open(options(&root, "test", owner))?.store();
                let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
                runtime.block_on(change(&*store, vec![create(owner)]))
            })
        };
        let threads: Vec<_> = (0..16).map(open).collect();
        for thread in threads {
            thread.join().unwrap().unwrap();
        }
        check(&scratch.paths().database).unwrap();
        assert_eq!(fs::read_dir(scratch.paths().leases).unwrap().count(), 0);
    }
}

#[tokio::test]
async fn only_commits_wait_for_a_writer() {
    let scratch = Scratch::new();
    let store = scratch.open(1).unwrap().store();
    change(&*store, vec![create(1)]).await.unwrap();
    let other = Connection::open(scratch.paths().database).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    let waiting = {
        let store = Arc::clone(&store);
        tokio::spawn(async move { change(&*store, vec![append(1, &["x"], 1)]).await })
    };
    tokio::task::yield_now().await;
    assert_eq!(store.session(session(1)).await.unwrap().unwrap().message_count, 0);
    assert!(!waiting.is_finished());
    other.execute_batch("COMMIT").unwrap();
    waiting.await.unwrap().unwrap();
    assert_eq!(store.session(session(1)).await.unwrap().unwrap().message_count, 1);
}

#[tokio::test]
async fn lease_belongs_to_its_owner() {
    let scratch = Scratch::new();
    let (one, two) = (scratch.open(1).unwrap().store(), scratch.open(2).unwrap().store());
    change(&*one, vec![create(1), take(1, 10)]).await.unwrap();

    assert!(matches!(guard(&*two, free(1, 9)).await, Err(Error::Busy(_))));
    assert!(matches!(guard(&*two, holds(1, 1)).await, Err(Error::LeaseLost(_))));
    let renew = Change::RenewLeases { sessions: vec![session(1)], expires_at: at(99) };
    change(&*two, vec![Change::ReleaseLease(session(1)), renew]).await.unwrap();
    guard(&*one, holds(1, 1)).await.unwrap();
    assert_eq!(two.session(session(1)).await.unwrap().unwrap().lease.unwrap().expires_at, at(10));

    commit(&*two, vec![running(1, 9)], vec![Change::RequestInterrupt(session(1))]).await.unwrap();
    assert_eq!(one.interrupts().await.unwrap(), [session(1)]);
    assert!(two.interrupts().await.unwrap().is_empty());

    let taken = commit(&*two, vec![live(1), free(1, 10)], vec![take(1, 20)]).await.unwrap();
    assert_eq!(taken.fence, Some(2));
    assert!(matches!(guard(&*one, holds(1, 1)).await, Err(Error::LeaseLost(_))));
    assert!(one.interrupts().await.unwrap().is_empty());
}

async fn lease_is_free(store: &dyn Store) -> bool {
    let free = guard(store, free(1, 0)).await.is_ok();
    assert_eq!(store.session(session(1)).await.unwrap().unwrap().lease.is_none(), free);
    free
}

#[tokio::test]
async fn lease_of_a_dead_owner_is_free_immediately() {
    let scratch = Scratch::new();
    let dead = scratch.open(1).unwrap().store();
    change(&*dead, vec![create(1), take(1, 1000)]).await.unwrap();
    let store = scratch.open(2).unwrap().store();
    assert!(!lease_is_free(&*store).await);
    close(dead);
    assert!(lease_is_free(&*store).await);

    // A killed process leaves its file behind, unlocked; while the file is locked, the owner counts as alive.
    let file = File::create(scratch.owner_file(1)).unwrap();
    file.lock().unwrap();
    assert!(!lease_is_free(&*store).await);
    file.unlock().unwrap();
    assert!(lease_is_free(&*store).await);
    assert!(!scratch.owner_file(1).exists());

    let taken = commit(&*store, vec![live(1), free(1, 0)], vec![take(1, 10)]).await.unwrap();
    assert_eq!(taken.fence, Some(2));
}

#[tokio::test]
async fn store_is_examined_once() {
    let scratch = Scratch::new();
    let store = scratch.open(1).unwrap().store();
    let path = scratch.paths().database;
    assert_eq!(store.examine().await.unwrap(), Some(path.clone()));
    fs::remove_file(&path).unwrap();
    assert_eq!(store.examine().await.unwrap(), Some(path));
}
