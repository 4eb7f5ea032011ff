//! Helpers for the tests.

use std::collections::BTreeMap;

use meerkat_core::{RunId, SessionId, Timestamp};
use meerkat_store::{Change, Committed, Error, Guard, NewCall, NewSession, Store, Transaction};
use uuid::Uuid;

pub(crate) fn session(number: u128) -> SessionId {
    SessionId::from_uuid(Uuid::from_u128(number))
}

pub(crate) fn run(number: u128) -> RunId {
    RunId::from_uuid(Uuid::from_u128(number))
}

pub(crate) fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

pub(crate) fn labels(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
}

pub(crate) fn create(number: u128) -> Change {
    create_with(number, 0, &[])
}

pub(crate) fn create_with(number: u128, second: i64, pairs: &[(&str, &str)]) -> Change {
    Change::CreateSession(NewSession {
        id: session(number),
        created_at: at(second),
        labels: labels(pairs),
        settings: b"settings".to_vec(),
        progress: b"progress".to_vec(),
    })
}

pub(crate) fn append(number: u128, texts: &[&str], second: i64) -> Change {
    let messages = texts.iter().map(|text| text.as_bytes().to_vec()).collect();
    Change::Append { session: session(number), messages, at: at(second) }
}

pub(crate) fn open_calls(number: u128, ids: &[&str]) -> Change {
    let call = |id: &&str| NewCall { id: (*id).to_owned(), call: format!("call {id}").into_bytes() };
    Change::OpenCalls { session: session(number), calls: ids.iter().map(call).collect() }
}

pub(crate) fn put_call(number: u128, id: &str, call: &str) -> Change {
    let call = NewCall { id: id.to_owned(), call: call.as_bytes().to_vec() };
    Change::PutCall { session: session(number), call }
}

pub(crate) fn take(number: u128, second: i64) -> Change {
    Change::TakeLease { session: session(number), run: run(number), expires_at: at(second) }
}

pub(crate) fn put_state(scope: &str, key: &str, value: &[u8]) -> Change {
    Change::PutState { scope: scope.to_owned(), key: key.to_owned(), value: value.to_vec() }
}

pub(crate) fn live(number: u128) -> Guard {
    Guard::NotArchived(session(number))
}

pub(crate) fn free(number: u128, second: i64) -> Guard {
    Guard::LeaseFree { session: session(number), now: at(second) }
}

pub(crate) fn running(number: u128, second: i64) -> Guard {
    Guard::Running { session: session(number), now: at(second) }
}

pub(crate) fn holds(number: u128, fence: u64) -> Guard {
    Guard::HoldsLease { session: session(number), fence }
}

/// Drops a store or a realm outside of an async runtime, which waits until its threads have ended.
#[cfg(feature = "sqlite")]
pub(crate) fn close(open: impl Send + 'static) {
    std::thread::spawn(move || drop(open)).join().unwrap();
}

pub(crate) async fn change(store: &dyn Store, changes: Vec<Change>) -> Result<Committed, Error> {
    commit(store, Vec::new(), changes).await
}

pub(crate) async fn guard(store: &dyn Store, guard: Guard) -> Result<Committed, Error> {
    commit(store, vec![guard], Vec::new()).await
}

pub(crate) async fn commit(
    store: &dyn Store,
    guards: Vec<Guard>,
    changes: Vec<Change>,
) -> Result<Committed, Error> {
    store.commit(Transaction { guards, changes }).await
}

#[cfg(feature = "sqlite")]
pub(crate) use scratch::Scratch;

#[cfg(feature = "sqlite")]
mod scratch {
    use std::path::{Path, PathBuf};

    use meerkat_core::RealmId;
    use meerkat_store::{Error, Realm, RealmOptions, RealmOrigin, RealmPaths};
    use uuid::Uuid;

    use super::at;

    /// A temporary state root.
    pub(crate) struct Scratch(tempfile::TempDir);

    impl Scratch {
        pub(crate) fn new() -> Self {
            Self(tempfile::tempdir().unwrap())
        }

        pub(crate) fn root(&self) -> &Path {
            self.0.path()
        }

        pub(crate) fn options(&self, realm: &str, owner: u128) -> RealmOptions {
            options(self.root(), realm, owner)
        }

        pub(crate) fn open(&self, owner: u128) -> Result<Realm, Error> {
            Realm::open(self.options("test", owner))
        }

        pub(crate) fn paths(&self) -> RealmPaths {
            RealmPaths::new(self.root(), &id("test"))
        }

        pub(crate) fn owner_file(&self, owner: u128) -> PathBuf {
            self.paths().leases.join(format!("{}.json", Uuid::from_u128(owner)))
        }
    }

    pub(crate) fn id(text: &str) -> RealmId {
        text.parse().unwrap()
    }

    pub(crate) fn options(root: &Path, realm: &str, owner: u128) -> RealmOptions {
        RealmOptions {
            state_root: root.to_owned(),
            realm: id(realm),
            origin: RealmOrigin::Explicit,
            workspace: None,
            backend_hint: None,
            instance: None,
            surface: "test".to_owned(),
            now: at(1_700_000_000),
            owner: Uuid::from_u128(owner),
        }
    }
}

#[cfg(feature = "sqlite")]
pub(crate) use scratch::{id, options};
