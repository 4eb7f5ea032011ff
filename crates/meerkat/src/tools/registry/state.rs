//! The realm's store as the store of values of its hub and its registry.

use std::sync::Arc;

use meerkat_hub::{StateReply, StateStore};
use meerkat_store::{Change, Error, Guard, StateQuery, Store, Transaction};

/// The values of a realm.
pub(super) struct RealmState(pub(super) Arc<dyn Store>);

/// Returns the change that stores a value, or removes it.
fn change(scope: &str, key: String, value: Option<Vec<u8>>) -> Change {
    let scope = scope.to_owned();
    match value {
        Some(value) => Change::PutState { scope, key, value },
        None => Change::DeleteState { scope, key },
    }
}

impl StateStore for RealmState {
    fn get<'a>(&'a self, scope: &'a str, key: &'a str) -> StateReply<'a, Option<Vec<u8>>> {
        let query = StateQuery::Key { scope: scope.to_owned(), key: key.to_owned() };
        Box::pin(async { Ok(self.0.state(query).await?.pop().map(|row| row.value)) })
    }

    fn list<'a>(&'a self, scope: &'a str) -> StateReply<'a, Vec<Vec<u8>>> {
        let query = StateQuery::Scope(scope.to_owned());
        Box::pin(async { Ok(self.0.state(query).await?.into_iter().map(|row| row.value).collect()) })
    }

    fn scopes(&self) -> StateReply<'_, Vec<String>> {
        Box::pin(async { Ok(self.0.scopes().await?) })
    }

    fn put<'a>(
        &'a self,
        scope: &'a str,
        values: Vec<(String, Option<Vec<u8>>)>,
    ) -> StateReply<'a, Option<Vec<u8>>> {
        let changes = values.into_iter().map(|(key, value)| change(scope, key, value)).collect();
        let transaction = Transaction { guards: Vec::new(), changes };
        Box::pin(async { Ok(self.0.commit(transaction).await?.replaced) })
    }

    fn replace<'a>(
        &'a self,
        scope: &'a str,
        key: &'a str,
        expected: Option<Vec<u8>>,
        value: Option<Vec<u8>>,
    ) -> StateReply<'a, bool> {
        let guard = Guard::State { scope: scope.to_owned(), key: key.to_owned(), value: expected };
        let transaction =
            Transaction { guards: vec![guard], changes: vec![change(scope, key.to_owned(), value)] };
        Box::pin(async {
            match self.0.commit(transaction).await {
                Ok(_) => Ok(true),
                Err(Error::StateChanged { .. }) => Ok(false),
                Err(error) => Err(error.into()),
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn values_are_replaced_only_if_unchanged() {
        let state = RealmState(Arc::new(meerkat_store::MemoryStore::new()));
        let bytes = |text: &str| text.as_bytes().to_vec();
        let values = ["k", "j", "k"].map(|key| (key.to_owned(), Some(bytes(key))));
        assert_eq!(state.put("s", values.to_vec()).await.unwrap(), Some(bytes("k")));
        assert_eq!(state.list("s").await.unwrap(), [bytes("k"), bytes("j")]);
        for (expected, value, replaced) in [
            (None, Some(bytes("x")), false),
            (Some(bytes("k")), Some(bytes("x")), true),
            (Some(bytes("k")), None, false),
            (Some(bytes("x")), None, true),
            (None, Some(bytes("y")), true),
        ] {
            assert_eq!(state.replace("s", "k", expected, value).await.unwrap(), replaced);
        }
        let remove = || state.put("s", vec![("k".to_owned(), None)]);
        assert_eq!(remove().await.unwrap(), Some(bytes("y")));
        assert_eq!((state.get("s", "k").await.unwrap(), remove().await.unwrap()), (None, None));
        assert_eq!(state.scopes().await.unwrap(), ["s"]);
    }
}
