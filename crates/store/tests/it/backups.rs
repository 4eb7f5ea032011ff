//! Backups, also while processes write.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use meerkat_core::SessionId;
use meerkat_store::{
    ArchivedFilter, Backup, Error, Force, Realm, RealmManifest, RealmOrigin, SessionQuery, StoreMark,
    Transaction, check,
};

use crate::support::{Scratch, append, at, change, close, create, id, options, session, take};

fn backup_file(scratch: &Scratch) -> PathBuf {
    scratch.root().join("test.backup")
}

fn backup(scratch: &Scratch, force: Force) -> Result<Backup, Error> {
    Backup::write(scratch.root(), &id("test"), &backup_file(scratch), force)
}

/// Creates a realm with one session, which is running.
async fn realm_with_session(scratch: &Scratch) {
    let realm = scratch.open(1).unwrap();
    change(&*realm.store(), vec![create(1), append(1, &["one"], 1), take(1, 1000)]).await.unwrap();
    close(realm);
}

fn names(dir: &Path) -> Vec<String> {
    let names = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<_> = names.collect();
    names.sort();
    names
}

#[tokio::test]
async fn restored_realm_has_everything_but_leases() {
    let scratch = Scratch::new();
    let realm = scratch.open(1).unwrap();
    change(&*realm.store(), vec![create(1), append(1, &["one"], 1), take(1, 1000)]).await.unwrap();
    fs::write(scratch.paths().root.join("token"), "secret").unwrap();

    let written = backup(&scratch, Force::No).unwrap();
    assert_eq!((written.manifest.realm_id.clone(), written.sessions), (id("test"), 1));
    assert_eq!(names(scratch.root()), ["test", "test.backup"]);

    let other = Scratch::new();
    let restored = Backup::restore(other.root(), &backup_file(&scratch), None).unwrap();
    assert_eq!(restored.manifest, RealmManifest::read(scratch.root(), &id("test")).unwrap());
    let paths = other.paths();
    assert_eq!(names(&paths.root), ["leases", "realm_manifest.json", "sessions.sqlite3"]);
    assert_eq!(names(&paths.leases), [""; 0]);
    check(&paths.database).unwrap();

    let store = other.open(1).unwrap().store();
    let row = store.session(session(1)).await.unwrap().unwrap();
    assert_eq!((row.message_count, row.lease, row.fence), (1, None, 1));
    assert_eq!(store.messages(session(1), 0, 10).await.unwrap()[0].message, b"one");
    assert_eq!(change(&*store, vec![take(1, 1000)]).await.unwrap().fence, Some(2));
}

#[tokio::test]
async fn restored_realm_can_have_another_name() {
    let scratch = Scratch::new();
    realm_with_session(&scratch).await;
    backup(&scratch, Force::No).unwrap();
    let restored = Backup::restore(scratch.root(), &backup_file(&scratch), Some(id("copy"))).unwrap();
    let expected = RealmManifest {
        realm_id: id("copy"),
        origin: RealmOrigin::Explicit,
        workspace: None,
        workspace_inode: None,
        store: StoreMark::Created,
        ..RealmManifest::read(scratch.root(), &id("test")).unwrap()
    };
    assert_eq!(restored.manifest, expected);
    assert_eq!(RealmManifest::read(scratch.root(), &id("copy")).unwrap(), expected);
    let realm = Realm::open(options(scratch.root(), "copy", 2)).unwrap();
    assert_eq!(realm.store().sessions(SessionQuery::default()).await.unwrap().len(), 1);
    close(realm);
    // A backup of the copy carries the copy's manifest.
    let second = scratch.root().join("second");
    Backup::write(scratch.root(), &id("copy"), &second, Force::No).unwrap();
    let error = Backup::restore(scratch.root(), &second, None).unwrap_err();
    assert!(matches!(&error, Error::RealmExists(realm) if *realm == id("copy")), "{error}");
}

#[tokio::test]
async fn existing_realm_and_file_are_kept() {
    let scratch = Scratch::new();
    realm_with_session(&scratch).await;
    fs::write(backup_file(&scratch), "precious").unwrap();
    let error = backup(&scratch, Force::No).unwrap_err();
    assert!(matches!(error, Error::BackupExists { .. }), "{error}");
    assert_eq!(fs::read_to_string(backup_file(&scratch)).unwrap(), "precious");
    backup(&scratch, Force::Yes).unwrap();

    let error = Backup::restore(scratch.root(), &backup_file(&scratch), None).unwrap_err();
    assert!(matches!(error, Error::RealmExists(_)), "{error}");
    assert_eq!(names(scratch.root()), ["test", "test.backup"]);
}

#[cfg(unix)]
#[tokio::test]
async fn backup_and_restored_files_are_private() {
    use std::os::unix::fs::PermissionsExt as _;
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    let (scratch, other) = (Scratch::new(), Scratch::new());
    realm_with_session(&scratch).await;
    fs::write(backup_file(&scratch), "").unwrap();
    backup(&scratch, Force::Yes).unwrap();
    Backup::restore(other.root(), &backup_file(&scratch), None).unwrap();
    let paths = other.paths();
    let modes = [&backup_file(&scratch), &paths.root, &paths.leases, &paths.manifest, &paths.database];
    assert_eq!(modes.map(|path| mode(path)), [0o600, 0o700, 0o700, 0o600, 0o600]);
}

#[tokio::test]
async fn only_intact_backups_are_restored() {
    let (scratch, other) = (Scratch::new(), Scratch::new());
    realm_with_session(&scratch).await;
    let file = backup_file(&scratch);
    backup(&scratch, Force::No).unwrap();
    let intact = fs::read(&file).unwrap();
    let mut damaged = intact.clone();
    let middle = damaged.len() / 2;
    damaged[4096..middle].fill(0xff);
    let cases: [(&str, &[u8]); 4] = [
        ("truncated", &intact[..middle]),
        ("damaged", &damaged),
        ("text", b"not a database"),
        ("empty", b""),
    ];
    for (case, bytes) in cases {
        fs::write(&file, bytes).unwrap();
        let error = Backup::restore(other.root(), &file, None).unwrap_err();
        assert!(matches!(error, Error::NotABackup { .. }), "{case}: {error:?}");
    }
    // The database of a realm has no manifest.
    let error = Backup::restore(other.root(), &scratch.paths().database, None).unwrap_err();
    assert!(matches!(error, Error::NotABackup { .. }), "{error:?}");
    assert_eq!(names(other.root()), [""; 0]);
}

#[tokio::test]
async fn damaged_store_is_not_backed_up() {
    let scratch = Scratch::new();
    realm_with_session(&scratch).await;
    let database = scratch.paths().database;
    let mut bytes = fs::read(&database).unwrap();
    bytes[4096..].fill(0xff);
    fs::write(&database, bytes).unwrap();
    let error = backup(&scratch, Force::No).unwrap_err();
    assert!(matches!(&error, Error::Corrupt { path, .. } if *path == database), "{error:?}");
    fs::remove_file(&database).unwrap();
    let error = backup(&scratch, Force::No).unwrap_err();
    assert!(matches!(error, Error::StoreLost { .. }), "{error:?}");
    assert_eq!(names(scratch.root()), ["test"]);
}

#[test]
fn backup_under_load_has_every_acknowledged_session() {
    const WRITERS: u64 = 4;
    let scratch = Scratch::new();
    let (stop, written) = (AtomicBool::new(false), [const { AtomicU64::new(0) }; WRITERS as usize]);
    std::thread::scope(|scope| {
        for (writer, written) in (0..WRITERS).zip(&written) {
            let (scratch, stop) = (&scratch, &stop);
            scope.spawn(move || write_until(scratch, u128::from(writer), stop, written));
        }
        let total = || written.iter().map(|count| count.load(Ordering::SeqCst)).collect::<Vec<_>>();
        for round in 0..5 {
            // Every writer commits between two backups.
            let earlier = total();
            while total().iter().zip(&earlier).any(|(now, earlier)| now <= earlier) {
                std::thread::yield_now();
            }
            let acknowledged = total();
            let name = format!("copy-{round}");
            backup(&scratch, Force::Yes).unwrap();
            Backup::restore(scratch.root(), &backup_file(&scratch), Some(id(&name))).unwrap();
            assert_has_sessions(&scratch, &name, &acknowledged);
        }
        stop.store(true, Ordering::SeqCst);
    });
}

/// Returns the id of a writer's session.
fn nth(writer: u128, number: u64) -> u128 {
    (writer << 64) + u128::from(number)
}

/// Creates sessions with two messages each, and counts those that are acknowledged.
fn write_until(scratch: &Scratch, writer: u128, stop: &AtomicBool, written: &AtomicU64) {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let realm = scratch.open(writer + 10).unwrap();
    runtime.block_on(async {
        while !stop.load(Ordering::SeqCst) {
            let number = nth(writer, written.load(Ordering::SeqCst));
            let changes = vec![create(number), append(number, &["one", "two"], 1)];
            realm.store().commit(Transaction { guards: Vec::new(), changes }).await.unwrap();
            written.fetch_add(1, Ordering::SeqCst);
        }
    });
    close(realm);
}

fn assert_has_sessions(scratch: &Scratch, name: &str, acknowledged: &[u64]) {
    let realm = Realm::open(options(scratch.root(), name, 99)).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let query = SessionQuery { archived: ArchivedFilter::Included, ..SessionQuery::default() };
    let rows = runtime.block_on(realm.store().sessions(query)).unwrap();
    let ids: std::collections::BTreeSet<SessionId> = rows.iter().map(|row| row.id).collect();
    for (writer, count) in (0..).zip(acknowledged) {
        for number in 0..*count {
            assert!(ids.contains(&session(nth(writer, number))), "{writer} {number} of {count}");
        }
    }
    assert!(rows.iter().all(|row| row.message_count == 2 && row.created_at == at(0)));
    close(realm);
}
