//! Both backends behave the same for arbitrary transactions.

use meerkat_core::{BlobId, SessionId, Usage, Usd};
use meerkat_store::{
    ArchivedFilter, Blob, CallRow, Change, ConfigRow, Guard, MemoryStore, MessageRow, NewCall, NewSession,
    SessionQuery, SessionRow, StateQuery, StateRow, Store, Transaction, UsageRow,
};
use proptest::collection::{btree_map, vec};
use proptest::prelude::*;

use crate::support::{Scratch, at, labels, run, session};

const IDS: u128 = 4;

fn any_id() -> impl Strategy<Value = SessionId> {
    (0..IDS).prop_map(session)
}

fn any_bytes() -> impl Strategy<Value = Vec<u8>> {
    vec(any::<u8>(), 0..4)
}

fn any_time() -> impl Strategy<Value = meerkat_core::Timestamp> {
    (-3_i64..6).prop_map(at)
}

fn any_name() -> impl Strategy<Value = String> {
    "[ab]"
}

fn any_blob() -> impl Strategy<Value = Blob> {
    (0_u8..3).prop_map(|byte| Blob::new("a/b", vec![byte]))
}

fn any_guard() -> impl Strategy<Value = Guard> {
    prop_oneof![
        any_id().prop_map(Guard::NotArchived),
        (any_id(), any_time()).prop_map(|(session, now)| Guard::LeaseFree { session, now }),
        (any_id(), any_time()).prop_map(|(session, now)| Guard::Running { session, now }),
        (any_id(), 0_u64..4).prop_map(|(session, fence)| Guard::HoldsLease { session, fence }),
        (any_id(), 0_u64..4).prop_map(|(session, fence)| Guard::FenceUnchanged { session, fence }),
        (any_id(), 0_usize..4).prop_map(|(session, limit)| Guard::TasksBelow { session, limit }),
        (0_u64..4).prop_map(Guard::Generation),
        (any_name(), any_name(), prop::option::of(any_bytes()))
            .prop_map(|(scope, key, value)| Guard::State { scope, key, value }),
    ]
}

fn any_new_session() -> impl Strategy<Value = Change> {
    (any_id(), any_time(), btree_map(any_name(), any_name(), 0..3), any_bytes(), any_bytes()).prop_map(
        |(id, created_at, labels, settings, progress)| {
            Change::CreateSession(NewSession { id, created_at, labels, settings, progress })
        },
    )
}

fn any_session_change() -> impl Strategy<Value = Change> {
    let call = || (any_name(), any_bytes()).prop_map(|(id, call)| NewCall { id, call });
    prop_oneof![
        (any_id(), vec(any_bytes(), 0..3), any_time()).prop_map(|(session, messages, at)| Change::Append {
            session,
            messages,
            at
        }),
        (any_id(), vec(call(), 0..3)).prop_map(|(session, calls)| Change::OpenCalls { session, calls }),
        (any_id(), call()).prop_map(|(session, call)| Change::PutCall { session, call }),
        (any_id(), any_name(), any_bytes()).prop_map(|(session, call, result)| Change::CompleteCall {
            session,
            call,
            result
        }),
        any_id().prop_map(Change::CloseCalls),
        (any_id(), any_bytes()).prop_map(|(session, settings)| Change::PutSettings { session, settings }),
        (any_id(), any_bytes()).prop_map(|(session, progress)| Change::PutProgress { session, progress }),
        (any_id(), any_time()).prop_map(|(session, at)| Change::Archive { session, at }),
        (any_id(), any_time(), 0_u64..9).prop_map(|(session, at, input_tokens)| Change::AddUsage {
            session,
            at,
            usage: Usage { input_tokens, ..Usage::default() },
            cost: Usd::from_micros(input_tokens),
        }),
    ]
}

fn any_other_change() -> impl Strategy<Value = Change> {
    prop_oneof![
        (any_id(), 0_u128..9, any_time()).prop_map(|(session, number, expires_at)| Change::TakeLease {
            session,
            run: run(number),
            expires_at
        }),
        (prop::collection::vec(any_id(), 0..3), any_time())
            .prop_map(|(sessions, expires_at)| Change::RenewLeases { sessions, expires_at }),
        any_id().prop_map(Change::DeleteSession),
        any_id().prop_map(Change::ReleaseLease),
        any_id().prop_map(Change::RequestInterrupt),
        any_bytes().prop_map(Change::PutConfig),
        any_blob().prop_map(Change::PutBlob),
        (any_name(), any_name(), any_bytes()).prop_map(|(scope, key, value)| Change::PutState {
            scope,
            key,
            value
        }),
        (any_name(), any_name()).prop_map(|(scope, key)| Change::DeleteState { scope, key }),
    ]
}

fn any_transaction() -> impl Strategy<Value = Transaction> {
    let change = prop_oneof![2 => any_new_session(), 4 => any_session_change(), 3 => any_other_change()];
    (vec(any_guard(), 0..2), vec(change, 0..4)).prop_map(|(guards, changes)| Transaction { guards, changes })
}

/// Results of all queries of a store.
#[derive(Debug, PartialEq)]
struct Everything {
    listed: Vec<Vec<SessionRow>>,
    single: Vec<Option<SessionRow>>,
    messages: Vec<Vec<MessageRow>>,
    calls: Vec<Vec<CallRow>>,
    config: Option<ConfigRow>,
    blobs: Vec<Option<Blob>>,
    interrupts: Vec<SessionId>,
    usage: Vec<UsageRow>,
    state: Vec<(u64, Vec<StateRow>)>,
    scopes: Vec<String>,
}

fn queries() -> Vec<SessionQuery> {
    let all = SessionQuery { archived: ArchivedFilter::Included, ..SessionQuery::default() };
    let labelled = SessionQuery { labels: labels(&[("a", "b")]), ..all };
    let page = SessionQuery { offset: 1, limit: Some(2), ..all.clone() };
    vec![SessionQuery::default(), all, labelled, page]
}

fn blob_ids() -> Vec<BlobId> {
    (0_u8..3).map(|byte| Blob::new("a/b", vec![byte]).id).collect()
}

async fn everything(store: &dyn Store) -> Everything {
    let (mut listed, mut blobs) = (Vec::new(), Vec::new());
    for query in queries() {
        listed.push(store.sessions(query).await.unwrap());
    }
    for id in blob_ids() {
        blobs.push(store.blob(id).await.unwrap());
    }
    let (mut single, mut messages, mut calls) = (Vec::new(), Vec::new(), Vec::new());
    for id in (0..IDS).map(session) {
        single.push(store.session(id).await.unwrap());
        messages.push(store.messages(id, 0, 100).await.unwrap());
        calls.push(store.calls(id).await.unwrap());
    }
    let (config, interrupts) = (store.config().await.unwrap(), store.interrupts().await.unwrap());
    let mut state = Vec::new();
    for scope in ["a", "b"] {
        let rows = store.state(StateQuery::Scope(scope.to_owned())).await.unwrap();
        state.push((store.revision(scope.to_owned()).await.unwrap(), rows));
    }
    let usage = store.usage().await.unwrap();
    let scopes = store.scopes().await.unwrap();
    Everything { listed, single, messages, calls, config, blobs, interrupts, usage, state, scopes }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 32, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn both_backends_agree(transactions in vec(any_transaction(), 1..40)) {
        let scratch = Scratch::new();
        let (memory, sqlite) = (MemoryStore::new(), scratch.open(1).unwrap().store());
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(async {
            for transaction in transactions {
                let expected = memory.commit(transaction.clone()).await.map_err(|error| error.to_string());
                let actual = sqlite.commit(transaction.clone()).await.map_err(|error| error.to_string());
                prop_assert_eq!(expected, actual, "{:?}", transaction);
            }
            prop_assert_eq!(everything(&memory).await, everything(&*sqlite).await);
            Ok(())
        })?;
    }
}
