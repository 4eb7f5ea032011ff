//! Realms on disk: manifests, hints, lists, and deletion.

use std::fs;

use meerkat_core::{ErrorKind, Timestamp};
use meerkat_store::{
    ArchivedFilter, Backend, Error, Force, Realm, RealmInfo, RealmManifest, RealmOptions, RealmOrigin,
    RealmUser, StoreMark, Warning,
};

use crate::support::{Scratch, at, change, close, create, id, session};

fn manifest(realm: &str) -> RealmManifest {
    RealmManifest {
        realm_id: id(realm),
        backend: Backend::Sqlite,
        origin: RealmOrigin::Explicit,
        created_at: at(1_700_000_000),
        workspace: None,
        workspace_inode: None,
        store: StoreMark::Created,
    }
}

fn write_manifest(scratch: &Scratch, text: &str) {
    fs::create_dir_all(scratch.paths().root).unwrap();
    fs::write(scratch.paths().manifest, text).unwrap();
}

#[test]
fn new_realm_has_its_files() {
    let scratch = Scratch::new();
    let realm = scratch.open(7).unwrap();
    let paths = scratch.paths();
    assert_eq!((realm.id(), realm.backend(), realm.paths()), (&id("test"), Backend::Sqlite, Some(&paths)));
    assert!(realm.warnings().is_empty());
    assert_eq!(
        fs::read_to_string(&paths.manifest).unwrap(),
        r#"{"realm_id":"test","backend":"sqlite","origin":"explicit","created_at":"1700000000","store":"created"}"#
    );
    assert_eq!(RealmManifest::read(scratch.root(), &id("test")).unwrap(), manifest("test"));
    let owner: serde_json::Value =
        serde_json::from_str(&fs::read_to_string(scratch.owner_file(7)).unwrap()).unwrap();
    assert_eq!(
        owner,
        serde_json::json!({
            "realm_id": "test",
            "instance_id": "instance-00000000-0000-0000-0000-000000000007",
            "surface": "test",
            "pid": std::process::id(),
            "started_at": 1_700_000_000,
        })
    );
    drop(realm);
    assert!(!scratch.owner_file(7).exists());
    let mut names: Vec<_> =
        fs::read_dir(&paths.root).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    names.sort();
    assert_eq!(names, ["leases", "realm_manifest.json", "sessions.sqlite3"]);
}

#[cfg(unix)]
#[test]
fn files_of_a_realm_are_private() {
    use std::os::unix::fs::PermissionsExt as _;
    let mode = |path: &std::path::Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    let scratch = Scratch::new();
    let _realm = scratch.open(7).unwrap();
    let paths = scratch.paths();
    assert_eq!([&paths.root, &paths.leases].map(|path| mode(path)), [0o700; 2]);
    let log = paths.root.join("sessions.sqlite3-wal");
    assert_eq!(
        [&paths.manifest, &paths.database, &log, &scratch.owner_file(7)].map(|path| mode(path)),
        [0o600; 4]
    );
}

#[test]
fn manifest_overrides_the_hint_with_a_warning() {
    let scratch = Scratch::new();
    drop(scratch.open(1).unwrap());
    for hint in [Backend::Jsonl, Backend::Memory] {
        let options = RealmOptions { backend_hint: Some(hint), ..scratch.options("test", 2) };
        let realm = Realm::open(options).unwrap();
        assert_eq!(realm.backend(), Backend::Sqlite);
        let warning = Warning::HintIgnored { realm: id("test"), hint, backend: Backend::Sqlite };
        assert_eq!(
            warning.to_string(),
            format!("realm `test` keeps its `sqlite` backend; `{hint}` is ignored")
        );
        assert_eq!(realm.warnings(), [warning]);
    }
}

#[test]
fn jsonl_realm_is_rejected_by_name() {
    let scratch = Scratch::new();
    write_manifest(
        &scratch,
        r#"{"realm_id":"test","backend":"jsonl","origin":"legacy_unknown","created_at":"1"}"#,
    );
    let fresh = RealmOptions { backend_hint: Some(Backend::Jsonl), ..scratch.options("fresh", 1) };
    for options in [scratch.options("test", 1), fresh] {
        let error = Realm::open(options).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::PersistenceDisabled);
        assert!(error.to_string().ends_with("this build has no `jsonl` backend"), "{error}");
    }
    assert!(!scratch.root().join("fresh").exists());
}

#[tokio::test]
async fn ephemeral_realm_writes_nothing_to_disk() {
    let scratch = Scratch::new();
    let options = RealmOptions { backend_hint: Some(Backend::Memory), ..scratch.options("test", 1) };
    assert_eq!((options.backend(), options.dir()), (Backend::Memory, None));
    let realm = Realm::open(options).unwrap();
    change(&*realm.store(), vec![create(1)]).await.unwrap();
    assert_eq!((realm.backend(), realm.paths()), (Backend::Memory, None));
    assert_eq!(fs::read_dir(scratch.root()).unwrap().count(), 0);
}

#[test]
fn directory_with_only_a_token_is_not_broken() {
    let scratch = Scratch::new();
    fs::create_dir(scratch.root().join("served")).unwrap();
    fs::write(scratch.root().join("served/token"), "secret").unwrap();
    let list = Realm::list(scratch.root()).unwrap();
    assert_eq!((list.realms.len(), list.broken.len()), (0, 0));
}

#[test]
fn existing_realm_ignores_the_backend_hint() {
    let scratch = Scratch::new();
    let options = || RealmOptions { backend_hint: Some(Backend::Memory), ..scratch.options("test", 1) };
    assert_eq!(options().dir(), None);
    drop(Realm::open(scratch.options("test", 2)).unwrap());
    assert_eq!((options().backend(), options().dir()), (Backend::Sqlite, Some(scratch.root().join("test"))));
}

#[test]
fn malformed_manifest_error_names_the_field() {
    let cases = [
        (r#"{"realm_id":"test","origin":"explicit","created_at":"1"}"#, "backend"),
        (r#"{"realm_id":"test","backend":"oracle","origin":"explicit","created_at":"1"}"#, "backend"),
        (r#"{"realm_id":"test","backend":"sqlite","origin":4,"created_at":"1"}"#, "origin"),
        (r#"{"realm_id":"test","backend":"sqlite","origin":"explicit","created_at":1}"#, "created_at"),
        (r#"{"realm_id":"other","backend":"sqlite","origin":"explicit","created_at":"1"}"#, "realm_id"),
    ];
    let scratch = Scratch::new();
    for (text, field) in cases {
        write_manifest(&scratch, text);
        let error = scratch.open(1).unwrap_err();
        assert!(matches!(error, Error::Manifest { field: named, .. } if named == field), "{text}: {error:?}");
        assert!(error.to_string().contains("realm_manifest.json"));
        assert_eq!(error.kind(), ErrorKind::StoreError);
        assert_eq!(fs::read_to_string(scratch.paths().manifest).unwrap(), text);
    }
    write_manifest(&scratch, "{");
    let error = scratch.open(1).unwrap_err();
    assert!(matches!(&error, Error::ManifestSyntax { .. }), "{error:?}");
    assert!(error.hint().unwrap().contains("realm_manifest.json"));
}

#[test]
fn state_root_below_a_file_is_an_error() {
    let scratch = Scratch::new();
    let file = scratch.root().join("file");
    fs::write(&file, "").unwrap();
    let options = RealmOptions { state_root: file.clone(), ..scratch.options("test", 1) };
    let error = Realm::open(options).unwrap_err();
    assert!(matches!(&error, Error::Io { path, .. } if path.starts_with(&file)), "{error:?}");
}

#[test]
fn check_of_a_new_realm_leaves_no_files() {
    let scratch = Scratch::new();
    let entries = || fs::read_dir(scratch.root()).unwrap().count();
    let before = entries();
    scratch.options("test", 1).check_creatable().unwrap();
    assert_eq!(entries(), before);
    let file = scratch.root().join("file");
    fs::write(&file, "").unwrap();
    let options = RealmOptions { state_root: file.clone(), ..scratch.options("test", 1) };
    let error = options.check_creatable().unwrap_err();
    assert!(matches!(&error, Error::Io { path, .. } if *path == file), "{error:?}");
}

#[test]
fn list_shows_use_and_broken_realms() {
    let scratch = Scratch::new();
    assert!(Realm::list(&scratch.root().join("missing")).unwrap().realms.is_empty());
    drop(Realm::open(scratch.options("idle", 1)).unwrap());
    let _used = Realm::open(scratch.options("used", 2)).unwrap();
    fs::create_dir(scratch.root().join("empty")).unwrap();
    fs::create_dir(scratch.root().join(".hidden")).unwrap();
    write_manifest(&scratch, "[]");

    let list = Realm::list(scratch.root()).unwrap();
    let info = |info: &RealmInfo| (info.manifest.clone(), info.in_use);
    let realms: Vec<_> = list.realms.iter().map(info).collect();
    assert_eq!(realms, [(manifest("idle"), false), (manifest("used"), true)]);
    let mut broken: Vec<_> = list.broken.iter().map(ToString::to_string).collect();
    broken.sort();
    assert_eq!(broken.len(), 2, "{broken:?}");
    assert_eq!(broken[0], "realm `empty` not found");
    assert!(broken[1].ends_with("is not a JSON object"));
}

#[test]
fn last_use_is_the_latest_change_of_a_file() {
    let scratch = Scratch::new();
    drop(scratch.open(1).unwrap());
    let paths = scratch.paths();
    let set = |path: &std::path::Path, second| {
        fs::File::open(path).unwrap().set_modified(at(second).into()).unwrap();
    };
    let info = || Realm::list(scratch.root()).unwrap().realms.remove(0);
    for path in [&paths.manifest, &paths.database, &paths.leases] {
        set(path, 1);
    }
    assert_eq!(info().last_used, at(1_700_000_000), "the time of creation");
    for (second, path) in (1_800_000_000..).zip([&paths.database, &paths.leases]) {
        set(path, second);
        assert_eq!(info().last_used, at(second));
    }
    Realm::count_sessions(scratch.root(), &id("test"), ArchivedFilter::Included).unwrap();
    assert_eq!(info().last_used, at(1_800_000_001), "counting the sessions is not a use");
    let bytes = [&paths.manifest, &paths.database].map(|path| fs::metadata(path).unwrap().len());
    assert_eq!(info().bytes, bytes.iter().sum::<u64>());
}

#[test]
fn realm_in_use_is_deleted_only_if_forced() {
    let scratch = Scratch::new();
    let delete = |force| Realm::delete(scratch.root(), &id("test"), force);
    assert!(matches!(delete(Force::No), Err(Error::RealmNotFound(_))));
    let realm = scratch.open(1).unwrap();
    assert!(matches!(delete(Force::No), Err(Error::RealmInUse(_))));
    assert!(scratch.paths().database.exists());
    delete(Force::Yes).unwrap();
    assert_eq!(fs::read_dir(scratch.root()).unwrap().count(), 0);
    drop(realm);

    drop(scratch.open(1).unwrap());
    // A leftover file of a killed process does not prevent the deletion.
    fs::write(scratch.owner_file(9), "{}").unwrap();
    delete(Force::No).unwrap();
    assert_eq!(fs::read_dir(scratch.root()).unwrap().count(), 0);
}

#[test]
fn users_of_a_realm_are_named() {
    let scratch = Scratch::new();
    let users = || Realm::users(scratch.root(), &id("test")).unwrap();
    assert_eq!(users(), []);
    let realm = scratch.open(1).unwrap();
    let instance = "instance-00000000-0000-0000-0000-000000000001".to_owned();
    let user = RealmUser { surface: "test".to_owned(), instance, pid: Some(std::process::id()) };
    assert_eq!(users(), std::slice::from_ref(&user));
    // The lock belongs to this process, whatever the file says.
    let path = scratch.owner_file(1);
    let text = fs::read_to_string(&path).unwrap();
    fs::write(&path, text.replace(&format!(":{},", std::process::id()), ":1,")).unwrap();
    #[cfg(target_os = "linux")]
    assert_eq!(users(), [RealmUser { pid: None, ..user }]);
    drop(realm);
    assert_eq!(users(), []);
}

#[tokio::test]
#[cfg(unix)]
async fn replaced_store_accepts_no_commits() {
    let scratch = Scratch::new();
    let realm = scratch.open(1).unwrap();
    let store = realm.store();
    change(&*store, vec![create(1)]).await.unwrap();
    let (root, aside) = (scratch.paths().root, scratch.root().join("aside"));
    fs::rename(&root, &aside).unwrap();
    for _ in 0..2 {
        let error = change(&*store, vec![create(2)]).await.unwrap_err();
        assert!(matches!(error, Error::StoreReplaced { .. }), "{error:?}");
        assert_eq!(error.kind(), ErrorKind::StoreError);
        // The second time, another realm is in its place.
        if !root.exists() {
            close(scratch.open(2).unwrap());
        }
    }
    fs::rename(&root, scratch.root().join("other")).unwrap();
    // A file in the place of its directory.
    fs::write(&root, "").unwrap();
    let error = change(&*store, vec![create(2)]).await.unwrap_err();
    assert!(matches!(error, Error::StoreReplaced { .. }), "{error:?}");
    fs::remove_file(&root).unwrap();
    fs::rename(&aside, &root).unwrap();
    let manifest = scratch.paths().manifest;
    let text = fs::read(&manifest).unwrap();
    fs::remove_file(&manifest).unwrap();
    let error = change(&*store, vec![create(2)]).await.unwrap_err();
    assert!(matches!(error, Error::StoreReplaced { .. }), "{error:?}");
    fs::write(&manifest, text).unwrap();
    change(&*store, vec![create(3)]).await.unwrap();
    assert_eq!(Realm::count_sessions(scratch.root(), &id("test"), ArchivedFilter::Hidden).unwrap(), 2);
}

#[test]
fn realm_is_used_until_its_store_drops() {
    let scratch = Scratch::new();
    let store = scratch.open(1).unwrap().store();
    assert!(matches!(Realm::delete(scratch.root(), &id("test"), Force::No), Err(Error::RealmInUse(_))));
    drop(store);
    Realm::delete(scratch.root(), &id("test"), Force::No).unwrap();
}

#[test]
fn only_unused_realms_are_deleted() {
    let scratch = Scratch::new();
    let realm = scratch.open(1).unwrap();
    let delete = |since| Realm::delete_unused(scratch.root(), &id("test"), since);
    assert!(matches!(delete(Timestamp::MAX), Err(Error::RealmInUse(_))));
    close(realm);
    assert!(!delete(Timestamp::UNIX_EPOCH).unwrap(), "it was used later");
    close(scratch.open(1).unwrap());
    assert!(delete(Timestamp::MAX).unwrap());
    assert!(!scratch.paths().root.exists());
}

#[test]
fn lost_database_is_not_a_new_realm() {
    let scratch = Scratch::new();
    drop(scratch.open(1).unwrap());
    let database = scratch.paths().database;
    fs::write(&database, "").unwrap();
    let error = scratch.open(2).unwrap_err();
    assert!(matches!(&error, Error::StoreLost { path } if *path == database), "{error:?}");
    assert!(error.hint().unwrap().contains("rkat doctor"), "{error}");
    assert_eq!(fs::read(&database).unwrap(), b"");
    fs::remove_file(&database).unwrap();
    assert!(matches!(scratch.open(3), Err(Error::StoreLost { .. })));
    assert!(!database.exists());
    assert_eq!(fs::read_dir(scratch.paths().leases).unwrap().count(), 0);
}

#[test]
fn database_without_its_tables_is_lost_too() {
    let scratch = Scratch::new();
    drop(scratch.open(1).unwrap());
    let database = scratch.paths().database;
    fs::remove_file(&database).unwrap();
    rusqlite::Connection::open(&database).unwrap().execute_batch("PRAGMA user_version = 1").unwrap();
    assert!(matches!(scratch.open(2), Err(Error::StoreLost { .. })));
}

#[test]
fn realm_of_earlier_version_is_marked_on_open() {
    let scratch = Scratch::new();
    drop(scratch.open(1).unwrap());
    let unmarked = r#"{"realm_id":"test","backend":"sqlite","origin":"explicit","created_at":"1700000000"}"#;
    write_manifest(&scratch, unmarked);
    let read = || RealmManifest::read(scratch.root(), &id("test")).unwrap();
    assert_eq!(read(), RealmManifest { store: StoreMark::Absent, ..manifest("test") });
    drop(scratch.open(2).unwrap());
    assert_eq!(read(), manifest("test"));
}

#[test]
fn manifest_names_the_workspace_directory() {
    let scratch = Scratch::new();
    let workspace = Some("/home/ada/project".into());
    drop(Realm::open(RealmOptions { workspace, ..scratch.options("test", 1) }).unwrap());
    let manifest = RealmManifest::read(scratch.root(), &id("test")).unwrap();
    assert_eq!(manifest.workspace.as_deref(), Some("/home/ada/project"));
}

#[tokio::test]
async fn sessions_of_a_closed_realm_are_counted() {
    let scratch = Scratch::new();
    let count = || Realm::count_sessions(scratch.root(), &id("test"), ArchivedFilter::Hidden);
    assert!(matches!(count(), Err(Error::RealmNotFound(_))));
    let store = scratch.open(1).unwrap().store();
    change(&*store, vec![create(1), create(2)]).await.unwrap();
    assert_eq!(count().unwrap(), 2);
    close(store);
    assert_eq!(count().unwrap(), 2);
    assert_eq!(fs::read_dir(scratch.paths().leases).unwrap().count(), 0);
}

#[cfg(unix)]
#[test]
fn symlinks_out_of_the_state_root_are_rejected() {
    let scratch = Scratch::new();
    let outside = Scratch::new();
    drop(outside.open(1).unwrap());
    std::os::unix::fs::symlink(outside.paths().root, scratch.paths().root).unwrap();
    assert!(matches!(scratch.open(2), Err(Error::RealmPath { .. })));
    let refused = Realm::delete(scratch.root(), &id("test"), Force::Yes);
    assert!(matches!(refused, Err(Error::RealmPath { .. })));
    assert!(outside.paths().database.exists());

    fs::remove_file(scratch.paths().root).unwrap();
    drop(scratch.open(1).unwrap());
    std::os::unix::fs::symlink(outside.root(), scratch.paths().root.join("link")).unwrap();
    Realm::delete(scratch.root(), &id("test"), Force::No).unwrap();
    assert!(outside.paths().database.exists());
}

#[tokio::test]
async fn realms_do_not_see_each_other() {
    let scratch = Scratch::new();
    let one = Realm::open(scratch.options("one", 1)).unwrap().store();
    let two = Realm::open(scratch.options("two", 2)).unwrap().store();
    change(&*one, vec![create(1)]).await.unwrap();
    assert!(one.session(session(1)).await.unwrap().is_some());
    assert!(two.session(session(1)).await.unwrap().is_none());
}
