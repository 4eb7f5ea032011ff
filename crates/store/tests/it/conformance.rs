//! Tests of the behavior of every backend.

use std::sync::Arc;

use meerkat_core::{ErrorKind, Usage, Usd};
use meerkat_store::{
    ArchivedFilter, Blob, CallRow, Change, Committed, ConfigRow, Error, Guard, LeaseRow, MemoryQuery,
    MemoryStore, MessageRow, NewMemory, SessionQuery, SessionRow, StateQuery, StateRow, Store, UsageRow,
};

use crate::support::{
    append, at, change, commit, create, create_with, free, guard, holds, labels, live, open_calls, put_call,
    put_state, run, running, session, take,
};

macro_rules! conformance_tests {
    ($($test:ident)*) => {
        mod memory {
            use super::*;

            $(#[tokio::test]
            async fn $test() {
                super::$test(Arc::new(MemoryStore::new())).await;
            })*
        }

        #[cfg(feature = "sqlite")]
        mod sqlite {
            use crate::support::Scratch;

            $(#[tokio::test]
            async fn $test() {
                let scratch = Scratch::new();
                super::$test(scratch.open(1).unwrap().store()).await;
                meerkat_store::check(&scratch.paths().database).unwrap();
            })*
        }
    };
}

conformance_tests! {
    created_session_can_be_read
    duplicate_session_id_is_rejected
    change_to_missing_session_is_rejected
    settings_and_progress_are_replaced
    sessions_are_listed_by_last_change
    lists_are_filtered_by_labels_and_paged
    usage_is_counted_by_day
    messages_are_read_in_pages
    calls_keep_their_order_and_results
    duplicate_open_call_is_rejected
    archived_sessions_are_hidden_and_not_live
    lease_excludes_others_until_it_expires
    fences_always_increase
    lost_lease_cannot_commit
    expired_lease_is_held_until_taken_over
    renewal_only_extends_leases
    concurrent_run_of_a_session_is_detected
    deleted_session_leaves_nothing
    memories_are_found_by_words
    interrupts_last_until_the_lease_ends
    tasks_keep_their_order_when_replaced
    concurrent_tasks_stay_within_the_limit
    config_is_compared_and_swapped
    blobs_are_stored_once
    state_values_keep_their_order
    state_changes_include_only_new_values
    state_value_is_compared_and_swapped
    revision_counts_changes_of_a_scope
    failed_guard_changes_nothing
    failed_change_changes_nothing
    changes_in_a_transaction_build_on_each_other
    dropped_future_does_not_undo_the_commit
}

async fn created_session_can_be_read(store: Arc<dyn Store>) {
    change(&*store, vec![create_with(1, 5, &[("a", "b"), ("é", "")])]).await.unwrap();
    let expected = SessionRow {
        id: session(1),
        created_at: at(5),
        updated_at: at(5),
        archived_at: None,
        message_count: 0,
        labels: labels(&[("a", "b"), ("é", "")]),
        settings: b"settings".to_vec(),
        progress: b"progress".to_vec(),
        fence: 0,
        lease: None,
    };
    assert_eq!(store.session(session(1)).await.unwrap(), Some(expected));
    assert_eq!(store.session(session(2)).await.unwrap(), None);
}

async fn duplicate_session_id_is_rejected(store: Arc<dyn Store>) {
    change(&*store, vec![create_with(1, 5, &[])]).await.unwrap();
    let error = change(&*store, vec![create_with(1, 6, &[])]).await.unwrap_err();
    assert!(matches!(error, Error::SessionExists(id) if id == session(1)));
    assert_eq!(store.session(session(1)).await.unwrap().unwrap().created_at, at(5));
}

async fn change_to_missing_session_is_rejected(store: Arc<dyn Store>) {
    let id = session(9);
    let changes = [
        take(9, 10),
        Change::ReleaseLease(id),
        Change::RequestInterrupt(id),
        append(9, &["x"], 1),
        append(9, &[], 1),
        open_calls(9, &[]),
        Change::CompleteCall { session: id, call: "a".to_owned(), result: vec![] },
        put_call(9, "a", ""),
        Change::CloseCalls(id),
        Change::PutSettings { session: id, settings: vec![] },
        Change::PutProgress { session: id, progress: vec![] },
        Change::Archive { session: id, at: at(1) },
    ];
    for one in changes {
        let error = change(&*store, vec![one.clone()]).await.unwrap_err();
        assert!(matches!(error, Error::SessionNotFound(missing) if missing == id), "{one:?}: {error:?}");
        assert_eq!(error.kind(), ErrorKind::SessionNotFound);
    }
    let error = guard(&*store, live(9)).await.unwrap_err();
    assert!(matches!(error, Error::SessionNotFound(missing) if missing == id));
    guard(&*store, free(9, 0)).await.unwrap();
    assert!(store.messages(id, 0, 9).await.unwrap().is_empty());
    assert!(store.calls(id).await.unwrap().is_empty());
}

async fn settings_and_progress_are_replaced(store: Arc<dyn Store>) {
    let settings = vec![7; 100_000];
    let changes = vec![
        create(1),
        Change::PutSettings { session: session(1), settings: settings.clone() },
        Change::PutProgress { session: session(1), progress: b"more".to_vec() },
    ];
    change(&*store, changes).await.unwrap();
    let row = store.session(session(1)).await.unwrap().unwrap();
    assert_eq!((row.settings, row.progress, row.updated_at), (settings, b"more".to_vec(), at(0)));
}

async fn list(store: &dyn Store, query: SessionQuery) -> Vec<u128> {
    let rows = store.sessions(query).await.unwrap();
    rows.into_iter().map(|row| row.id.uuid().as_u128()).collect()
}

async fn sessions_are_listed_by_last_change(store: Arc<dyn Store>) {
    assert!(list(&*store, SessionQuery::default()).await.is_empty());
    let changes = vec![create_with(2, 1, &[]), create_with(3, 1, &[]), create_with(1, 2, &[])];
    change(&*store, changes).await.unwrap();
    assert_eq!(list(&*store, SessionQuery::default()).await, [1, 3, 2]);
    change(&*store, vec![append(2, &["x"], 3)]).await.unwrap();
    assert_eq!(list(&*store, SessionQuery::default()).await, [2, 1, 3]);
    change(&*store, vec![append(3, &["x"], 0)]).await.unwrap();
    change(&*store, vec![create_with(4, -9, &[])]).await.unwrap();
    assert_eq!(list(&*store, SessionQuery::default()).await, [4, 3, 2, 1], "whatever the clock says");
}

async fn usage_is_counted_by_day(store: Arc<dyn Store>) {
    const DAY: i64 = 86_400;
    let usage = |input_tokens, cache_read_tokens| Usage {
        input_tokens,
        output_tokens: 1,
        cache_read_tokens,
        ..Usage::default()
    };
    let add = |number, second, usage, micros| Change::AddUsage {
        session: session(number),
        at: at(second),
        usage,
        cost: Usd::from_micros(micros),
    };
    assert!(matches!(
        change(&*store, vec![add(1, 0, usage(1, None), 0)]).await,
        Err(Error::SessionNotFound(_))
    ));
    let changes = vec![
        create(1),
        create(2),
        add(2, DAY, usage(1, None), 0),
        add(1, DAY - 1, usage(10, None), 5),
        add(1, DAY, usage(20, Some(3)), 0),
        add(1, 5, usage(7, None), 6),
    ];
    change(&*store, changes).await.unwrap();
    change(&*store, vec![add(1, 2 * DAY - 1, usage(1, None), 0)]).await.unwrap();
    let row = |number, days, (input_tokens, output_tokens, cache_read_tokens), micros| UsageRow {
        session: session(number),
        day: at(days * DAY),
        usage: Usage { input_tokens, output_tokens, cache_read_tokens, ..Usage::default() },
        cost: Usd::from_micros(micros),
    };
    let expected = [row(1, 0, (17, 2, None), 11), row(1, 1, (21, 2, Some(3)), 0), row(2, 1, (1, 1, None), 0)];
    assert_eq!(store.usage().await.unwrap(), expected);
    change(&*store, vec![Change::DeleteSession(session(1))]).await.unwrap();
    assert_eq!(store.usage().await.unwrap(), expected[2..]);
}

async fn lists_are_filtered_by_labels_and_paged(store: Arc<dyn Store>) {
    let sets: [&[(&str, &str)]; 3] = [&[("a", "1")], &[("a", "1"), ("b", "2")], &[("a", "2"), ("b", "2")]];
    for number in 0..9 {
        let second = i64::try_from(number).unwrap();
        change(&*store, vec![create_with(number, second, sets[usize::try_from(number % 3).unwrap()])])
            .await
            .unwrap();
    }
    let with = |pairs| SessionQuery { labels: labels(pairs), ..SessionQuery::default() };
    assert_eq!(list(&*store, with(&[("a", "1")])).await, [7, 6, 4, 3, 1, 0]);
    assert_eq!(list(&*store, with(&[("a", "1"), ("b", "2")])).await, [7, 4, 1]);
    assert!(list(&*store, with(&[("a", "' OR 1")])).await.is_empty());

    let page = |offset, limit| SessionQuery { offset, limit, ..with(&[("b", "2")]) };
    assert_eq!(list(&*store, page(0, None)).await, [8, 7, 5, 4, 2, 1]);
    assert_eq!(list(&*store, page(1, Some(2))).await, [7, 5]);
    assert_eq!(list(&*store, page(5, Some(u64::MAX))).await, [1]);
    assert!(list(&*store, page(0, Some(0))).await.is_empty());
    assert!(list(&*store, page(u64::MAX, None)).await.is_empty());
}

async fn messages_are_read_in_pages(store: Arc<dyn Store>) {
    let changes =
        vec![create(1), create(2), append(1, &["a", "b"], 1), append(2, &["other"], 1), append(1, &["c"], 2)];
    change(&*store, changes).await.unwrap();
    let row = |seq, text: &str| MessageRow { seq, message: text.as_bytes().to_vec() };
    let all = vec![row(0, "a"), row(1, "b"), row(2, "c")];
    let read = |from, limit| store.messages(session(1), from, limit);
    assert_eq!(read(0, u64::MAX).await.unwrap(), all);
    assert_eq!(read(1, 1).await.unwrap(), all[1..2]);
    assert_eq!(read(2, 5).await.unwrap(), all[2..]);
    assert!(read(3, 5).await.unwrap().is_empty());
    assert!(read(u64::MAX, 5).await.unwrap().is_empty());
    assert!(read(0, 0).await.unwrap().is_empty());
    let one = store.session(session(1)).await.unwrap().unwrap();
    assert_eq!((one.message_count, one.updated_at), (3, at(2)));
}

async fn calls_keep_their_order_and_results(store: Arc<dyn Store>) {
    change(&*store, vec![create(1), open_calls(1, &["z", "a"]), open_calls(1, &["m"])]).await.unwrap();
    let settle = Change::CompleteCall { session: session(1), call: "a".to_owned(), result: b"done".to_vec() };
    change(&*store, vec![settle]).await.unwrap();
    let row = |id: &str, result: Option<&str>| CallRow {
        id: id.to_owned(),
        call: format!("call {id}").into_bytes(),
        result: result.map(|text| text.as_bytes().to_vec()),
    };
    let expected = vec![row("z", None), row("a", Some("done")), row("m", None)];
    assert_eq!(store.calls(session(1)).await.unwrap(), expected);

    change(&*store, vec![put_call(1, "a", "another")]).await.unwrap();
    let replaced = CallRow { call: b"another".to_vec(), ..row("a", Some("done")) };
    assert_eq!(store.calls(session(1)).await.unwrap(), [row("z", None), replaced, row("m", None)]);

    change(&*store, vec![Change::CloseCalls(session(1)), open_calls(1, &["a"])]).await.unwrap();
    assert_eq!(store.calls(session(1)).await.unwrap(), [row("a", None)]);
}

async fn duplicate_open_call_is_rejected(store: Arc<dyn Store>) {
    change(&*store, vec![create(1), create(2), open_calls(1, &["a"])]).await.unwrap();
    let settle =
        |call: &str| Change::CompleteCall { session: session(1), call: call.to_owned(), result: vec![] };
    for changes in [vec![open_calls(1, &["b", "a"])], vec![open_calls(1, &["b", "b"])]] {
        let error = change(&*store, changes).await.unwrap_err();
        assert!(matches!(error, Error::CallExists { .. }), "{error:?}");
    }
    for changes in
        [vec![settle("b")], vec![put_call(1, "b", "")], vec![Change::CloseCalls(session(1)), settle("a")]]
    {
        let error = change(&*store, changes).await.unwrap_err();
        assert!(matches!(error, Error::CallNotFound { .. }), "{error:?}");
    }
    change(&*store, vec![open_calls(2, &["a"])]).await.unwrap();
    assert_eq!(store.calls(session(1)).await.unwrap().len(), 1);
}

async fn archived_sessions_are_hidden_and_not_live(store: Arc<dyn Store>) {
    change(&*store, vec![create(1), create(2), append(1, &["kept"], 1)]).await.unwrap();
    guard(&*store, live(1)).await.unwrap();
    for second in [7, 8] {
        change(&*store, vec![Change::Archive { session: session(1), at: at(second) }]).await.unwrap();
    }
    let error = guard(&*store, live(1)).await.unwrap_err();
    assert!(matches!(error, Error::Archived(_)));
    assert_eq!(error.kind(), ErrorKind::SessionNotFound);
    assert_eq!(list(&*store, SessionQuery::default()).await, [2]);
    let all = SessionQuery { archived: ArchivedFilter::Included, ..SessionQuery::default() };
    assert_eq!(list(&*store, all).await, [1, 2]);
    assert_eq!(store.session(session(1)).await.unwrap().unwrap().archived_at, Some(at(7)));
    assert_eq!(store.messages(session(1), 0, 9).await.unwrap().len(), 1);
}

async fn lease_excludes_others_until_it_expires(store: Arc<dyn Store>) {
    change(&*store, vec![create(1)]).await.unwrap();
    let error = guard(&*store, running(1, 0)).await.unwrap_err();
    assert!(matches!(error, Error::NotRunning(_)));
    assert_eq!(error.kind(), ErrorKind::SessionNotRunning);

    let taken = commit(&*store, vec![live(1), free(1, 0)], vec![take(1, 10)]).await.unwrap();
    assert_eq!(taken, Committed { fence: Some(1), ..Committed::default() });
    let lease = LeaseRow { run: run(1), fence: 1, expires_at: at(10) };
    assert_eq!(store.session(session(1)).await.unwrap().unwrap().lease, Some(lease.clone()));

    let error = commit(&*store, vec![free(1, 9)], vec![take(1, 20)]).await.unwrap_err();
    assert!(matches!(error, Error::Busy(_)));
    assert_eq!(error.kind(), ErrorKind::SessionBusy);
    guard(&*store, running(1, 9)).await.unwrap();

    guard(&*store, free(1, 10)).await.unwrap();
    assert!(guard(&*store, running(1, 10)).await.is_err());
    assert_eq!(store.session(session(1)).await.unwrap().unwrap().lease, Some(lease));
}

async fn fences_always_increase(store: Arc<dyn Store>) {
    change(&*store, vec![create(1), create(2)]).await.unwrap();
    for fence in 1..4 {
        let taken = commit(&*store, vec![free(1, 0)], vec![take(1, 10)]).await.unwrap();
        assert_eq!(taken.fence, Some(fence));
        change(&*store, vec![Change::ReleaseLease(session(1))]).await.unwrap();
        assert_eq!(store.session(session(1)).await.unwrap().unwrap().lease, None);
    }
    assert_eq!(change(&*store, vec![take(2, 10)]).await.unwrap().fence, Some(1));
}

async fn lost_lease_cannot_commit(store: Arc<dyn Store>) {
    change(&*store, vec![create(1), take(1, 10)]).await.unwrap();
    let late = || commit(&*store, vec![holds(1, 1)], vec![append(1, &["late"], 1)]);
    late().await.unwrap();
    commit(&*store, vec![free(1, 10)], vec![take(1, 20)]).await.unwrap();
    let error = late().await.unwrap_err();
    assert!(matches!(error, Error::LeaseLost(_)));
    assert_eq!(error.kind(), ErrorKind::StoreError);
    guard(&*store, holds(1, 2)).await.unwrap();
    change(&*store, vec![Change::ReleaseLease(session(1))]).await.unwrap();
    assert!(matches!(guard(&*store, holds(1, 2)).await, Err(Error::LeaseLost(_))));
    assert!(matches!(guard(&*store, holds(2, 1)).await, Err(Error::LeaseLost(_))));
    assert_eq!(store.messages(session(1), 0, 9).await.unwrap().len(), 1);
}

async fn expired_lease_is_held_until_taken_over(store: Arc<dyn Store>) {
    change(&*store, vec![create(1), take(1, 10)]).await.unwrap();
    guard(&*store, free(1, 11)).await.unwrap();
    guard(&*store, holds(1, 1)).await.unwrap();
}

async fn renewal_only_extends_leases(store: Arc<dyn Store>) {
    change(&*store, vec![create(1), create(2), create(3), take(1, 10), take(2, 30), take(3, 10)])
        .await
        .unwrap();
    let sessions = vec![session(1), session(2), session(3)];
    let renew = Change::RenewLeases { sessions, expires_at: at(20) };
    change(&*store, vec![Change::ReleaseLease(session(3)), renew]).await.unwrap();
    assert!(guard(&*store, free(1, 19)).await.is_err());
    guard(&*store, free(1, 20)).await.unwrap();
    assert!(guard(&*store, free(2, 29)).await.is_err());
    guard(&*store, free(3, 0)).await.unwrap();
}

async fn concurrent_run_of_a_session_is_detected(store: Arc<dyn Store>) {
    let unrun = |fence| Guard::FenceUnchanged { session: session(1), fence };
    change(&*store, vec![create(1)]).await.unwrap();
    assert_eq!(store.session(session(1)).await.unwrap().unwrap().fence, 0);
    guard(&*store, unrun(0)).await.unwrap();
    change(&*store, vec![take(1, 10), Change::ReleaseLease(session(1))]).await.unwrap();
    assert_eq!(store.session(session(1)).await.unwrap().unwrap().fence, 1);
    assert!(matches!(guard(&*store, unrun(0)).await, Err(Error::Changed(_))));
    guard(&*store, unrun(1)).await.unwrap();
}

async fn deleted_session_leaves_nothing(store: Arc<dyn Store>) {
    let messages = vec![b"one".to_vec()];
    let append = Change::Append { session: session(1), messages, at: at(1) };
    change(&*store, vec![create(1), create(2), append, take(1, 10)]).await.unwrap();
    change(&*store, vec![Change::DeleteSession(session(1))]).await.unwrap();
    assert_eq!(store.session(session(1)).await.unwrap(), None);
    assert_eq!(store.messages(session(1), 0, 9).await.unwrap(), []);
    assert!(store.session(session(2)).await.unwrap().is_some());
    let again = change(&*store, vec![Change::DeleteSession(session(1))]).await;
    assert!(matches!(again, Err(Error::SessionNotFound(_))));
}

async fn memories_are_found_by_words(store: Arc<dyn Store>) {
    let remember = |number, texts: &[&str]| {
        let memory = |(seq, text): (u64, &&str)| NewMemory { seq, text: (*text).to_owned() };
        let memories = (0..).zip(texts).map(memory).collect();
        Change::IndexMemories { session: session(number), memories, at: at(1) }
    };
    let first = ["the key is blue", "Über den Fluß", "a blue house with a blue door", "nothing here"];
    change(&*store, vec![create(1), create(2), remember(1, &first)]).await.unwrap();
    change(&*store, vec![remember(1, &["again"]), remember(2, &["another blue key"])]).await.unwrap();
    let find = async |words: &[&str], session, limit| {
        let words = words.iter().map(|word| (*word).to_owned()).collect();
        let found = store.search_memories(MemoryQuery { words, session, limit }).await.unwrap();
        assert!(found.iter().all(|row| row.rank > 0.0 && row.at == at(1)));
        found.into_iter().map(|row| (row.session, row.text)).collect::<Vec<_>>()
    };
    let own = |text: &str| (session(1), text.to_owned());
    assert_eq!(find(&["key", "blue"], Some(session(1)), 1).await, [own("the key is blue")]);
    assert_eq!(find(&["key", "blue"], Some(session(1)), 9).await.len(), 2);
    assert_eq!(find(&["key", "blue"], None, 9).await.len(), 3);
    assert_eq!(find(&["FLUSS", "über"], None, 9).await, [own("Über den Fluß")]);
    assert_eq!(find(&["again"], None, 9).await, [], "the first one counts");
    assert_eq!(find(&["\" OR text:", "NEAR("], None, 9).await, [], "words are not operators");
    assert_eq!(find(&[], None, 9).await, []);
    change(&*store, vec![Change::DeleteSession(session(1))]).await.unwrap();
    assert_eq!(find(&["blue"], None, 9).await, [(session(2), "another blue key".to_owned())]);
}

async fn concurrent_tasks_stay_within_the_limit(store: Arc<dyn Store>) {
    change(&*store, vec![create(1), create(2)]).await.unwrap();
    let mut adding = tokio::task::JoinSet::new();
    for number in 0..8 {
        let store = Arc::clone(&store);
        adding.spawn(async move {
            let guards = vec![Guard::TasksBelow { session: session(1), limit: 3 }];
            let put = Change::PutTask { session: session(1), id: number.to_string(), task: Vec::new() };
            commit(&*store, guards, vec![put]).await
        });
    }
    let failed = adding.join_all().await.into_iter().filter_map(Result::err);
    let full = |error| matches!(error, Error::TooManyTasks { limit: 3, .. });
    assert_eq!(failed.map(full).collect::<Vec<_>>(), [true; 5]);
    assert_eq!(store.tasks(session(1)).await.unwrap().len(), 3);
    guard(&*store, Guard::TasksBelow { session: session(2), limit: 1 }).await.unwrap();
}

async fn tasks_keep_their_order_when_replaced(store: Arc<dyn Store>) {
    let put = |number, id: &str, task: &str| Change::PutTask {
        session: session(number),
        id: id.to_owned(),
        task: task.as_bytes().to_vec(),
    };
    let tasks = async |number| {
        let found = store.tasks(session(number)).await.unwrap();
        found.into_iter().map(|task| String::from_utf8(task).unwrap()).collect::<Vec<_>>()
    };
    change(&*store, vec![create(1), create(2), put(1, "b", "one"), put(2, "b", "other")]).await.unwrap();
    assert_eq!(tasks(3).await, Vec::<String>::new());
    change(&*store, vec![put(1, "a", "two"), put(1, "c", "three")]).await.unwrap();
    change(&*store, vec![put(1, "b", "one again"), put(1, "B", "four"), put(1, "", "\0")]).await.unwrap();
    assert_eq!(tasks(1).await, ["one again", "two", "three", "four", "\0"]);
    assert_eq!(tasks(2).await, ["other"], "ids are a session's own");
    let missing = change(&*store, vec![put(1, "a", "lost"), put(3, "a", "x")]).await;
    assert!(matches!(missing, Err(Error::SessionNotFound(id)) if id == session(3)));
    assert_eq!(tasks(1).await[1], "two", "all or nothing");
    change(&*store, vec![Change::Archive { session: session(1), at: at(9) }]).await.unwrap();
    assert_eq!(tasks(1).await.len(), 5, "an archived session keeps them");
    change(&*store, vec![Change::DeleteSession(session(1))]).await.unwrap();
    assert_eq!((tasks(1).await, tasks(2).await), (Vec::new(), vec!["other".to_owned()]));
    change(&*store, vec![create(1)]).await.unwrap();
    assert_eq!(tasks(1).await, Vec::<String>::new(), "deleted tasks do not come back");
}

async fn interrupts_last_until_the_lease_ends(store: Arc<dyn Store>) {
    let flag = |number| Change::RequestInterrupt(session(number));
    change(&*store, vec![create(1), create(2), create(3), take(1, 10), take(2, 10), flag(3)]).await.unwrap();
    assert!(store.interrupts().await.unwrap().is_empty());
    change(&*store, vec![flag(2), flag(1), flag(1)]).await.unwrap();
    assert_eq!(store.interrupts().await.unwrap(), [session(1), session(2)]);
    change(&*store, vec![Change::ReleaseLease(session(1)), take(2, 20)]).await.unwrap();
    assert!(store.interrupts().await.unwrap().is_empty());
    change(&*store, vec![flag(1), take(1, 10)]).await.unwrap();
    assert!(store.interrupts().await.unwrap().is_empty());
}

async fn config_is_compared_and_swapped(store: Arc<dyn Store>) {
    assert_eq!(store.config().await.unwrap(), None);
    let put = |expected, text: &str| {
        let document = Change::PutConfig(text.as_bytes().to_vec());
        commit(&*store, vec![Guard::Generation(expected)], vec![document])
    };
    assert_eq!(put(0, "one").await.unwrap().generation, Some(1));
    assert_eq!(put(1, "two").await.unwrap().generation, Some(2));
    let error = put(1, "three").await.unwrap_err();
    assert!(matches!(error, Error::Generation { expected: 1, current: 2 }));
    assert_eq!(error.kind(), ErrorKind::InvalidParams);
    let row = ConfigRow { generation: 2, document: b"two".to_vec() };
    assert_eq!(store.config().await.unwrap(), Some(row));
}

async fn blobs_are_stored_once(store: Arc<dyn Store>) {
    let blob = Blob::new("image/png", vec![1; 300_000]);
    let put = Change::PutBlob(blob.clone());
    change(&*store, vec![put.clone(), put.clone()]).await.unwrap();
    change(&*store, vec![put]).await.unwrap();
    assert!(store.has_blob(blob.id.clone()).await.unwrap());
    assert_eq!(store.blob(blob.id.clone()).await.unwrap(), Some(blob));
    let other = Blob::new("image/jpeg", vec![1; 300_000]).id;
    assert!(!store.has_blob(other.clone()).await.unwrap());
    assert_eq!(store.blob(other).await.unwrap(), None);
}

async fn values(store: &dyn Store, scope: &str) -> Vec<(String, Vec<u8>)> {
    let rows = store.state(StateQuery::Scope(scope.to_owned())).await.unwrap();
    rows.into_iter().map(|row| (row.key, row.value)).collect()
}

fn delete_state(scope: &str, key: &str) -> Change {
    Change::DeleteState { scope: scope.to_owned(), key: key.to_owned() }
}

async fn state_values_keep_their_order(store: Arc<dyn Store>) {
    let replaced = async |one: Change| change(&*store, vec![one]).await.unwrap().replaced;
    assert_eq!(replaced(put_state("s", "b", b"1")).await, None);
    assert_eq!(replaced(put_state("s", "a", b"2")).await, None);
    assert_eq!(replaced(put_state("s", "", b"")).await, None);
    assert_eq!(replaced(put_state("t", "b", b"3")).await, None);
    assert_eq!(replaced(put_state("s", "b", b"4")).await, Some(b"1".to_vec()));
    let pair = |key: &str, value: &[u8]| (key.to_owned(), value.to_vec());
    assert_eq!(values(&*store, "s").await, [pair("b", b"4"), pair("a", b"2"), pair("", b"")]);
    assert_eq!(store.scopes().await.unwrap(), ["s", "t"]);

    let one = |key: &str| store.state(StateQuery::Key { scope: "s".to_owned(), key: key.to_owned() });
    assert_eq!(one("b").await.unwrap(), [StateRow { key: "b".to_owned(), value: b"4".to_vec() }]);
    assert_eq!(one("c").await.unwrap(), []);

    assert_eq!(replaced(delete_state("s", "b")).await, Some(b"4".to_vec()));
    assert_eq!(replaced(delete_state("s", "b")).await, None);
    assert_eq!(replaced(delete_state("none", "b")).await, None);
    assert_eq!(replaced(put_state("s", "b", b"5")).await, None);
    assert_eq!(values(&*store, "s").await, [pair("a", b"2"), pair("", b""), pair("b", b"5")]);
    assert_eq!(replaced(delete_state("t", "b")).await, Some(b"3".to_vec()));
    assert_eq!(store.scopes().await.unwrap(), ["s"]);
    assert_eq!(values(&*store, "t").await, []);
}

async fn state_changes_include_only_new_values(store: Arc<dyn Store>) {
    let changes = async |since: u64| {
        let found = store.state_changes("s".to_owned(), since).await.unwrap();
        let put: Vec<_> = found.put.into_iter().map(|row| (row.key, row.value)).collect();
        let mut keys = found.keys;
        keys.iter_mut().for_each(|keys| keys.sort_unstable());
        (found.revision, put, keys)
    };
    let pair = |key: &str, value: &[u8]| (key.to_owned(), value.to_vec());
    assert_eq!(changes(0).await, (0, vec![], None));
    for (key, value) in [("b", b"1"), ("a", b"2"), ("c", b"3")] {
        change(&*store, vec![put_state("s", key, value)]).await.unwrap();
    }
    change(&*store, vec![put_state("t", "b", b"9")]).await.unwrap();
    assert_eq!(changes(0).await, (3, vec![pair("b", b"1"), pair("a", b"2"), pair("c", b"3")], None));
    assert_eq!(changes(3).await, (3, vec![], None));

    change(&*store, vec![put_state("s", "b", b"4")]).await.unwrap();
    assert_eq!(changes(3).await, (4, vec![pair("b", b"4")], None));
    change(&*store, vec![delete_state("s", "a"), put_state("s", "d", b"5")]).await.unwrap();
    let keys = Some(["b", "c", "d"].map(str::to_owned).to_vec());
    assert_eq!(changes(3).await, (6, vec![pair("b", b"4"), pair("d", b"5")], keys.clone()));
    assert_eq!(changes(4).await, (6, vec![pair("d", b"5")], keys));
    assert_eq!(changes(5).await, (6, vec![pair("d", b"5")], None));
}

async fn state_value_is_compared_and_swapped(store: Arc<dyn Store>) {
    let swap = |was: Option<&[u8]>, value: &'static [u8]| {
        let value_was = was.map(<[u8]>::to_vec);
        let guard = Guard::State { scope: "s".to_owned(), key: "k".to_owned(), value: value_was };
        commit(&*store, vec![guard], vec![put_state("s", "k", value)])
    };
    swap(None, b"1").await.unwrap();
    assert_eq!(swap(Some(b"1"), b"2").await.unwrap().replaced, Some(b"1".to_vec()));
    for was in [None, Some(&b"1"[..])] {
        let error = swap(was, b"3").await.unwrap_err();
        assert!(matches!(&error, Error::StateChanged { scope, key } if scope == "s" && key == "k"));
        assert_eq!(error.kind(), ErrorKind::InvalidParams);
    }
    assert_eq!(values(&*store, "s").await, [("k".to_owned(), b"2".to_vec())]);
}

async fn revision_counts_changes_of_a_scope(store: Arc<dyn Store>) {
    let revision = |scope: &str| store.revision(scope.to_owned());
    assert_eq!(revision("s").await.unwrap(), 0);
    change(&*store, vec![put_state("s", "k", b"1"), put_state("t", "k", b"1")]).await.unwrap();
    change(&*store, vec![put_state("s", "k", b"1")]).await.unwrap();
    assert_eq!((revision("s").await.unwrap(), revision("t").await.unwrap()), (2, 1));
    change(&*store, vec![delete_state("s", "other")]).await.unwrap();
    assert_eq!(revision("s").await.unwrap(), 2);
    change(&*store, vec![delete_state("s", "k")]).await.unwrap();
    assert_eq!(revision("s").await.unwrap(), 3);
    change(&*store, vec![put_state("s", "k", b"1"), append(9, &["x"], 1)]).await.unwrap_err();
    assert_eq!(revision("s").await.unwrap(), 3);
}

async fn failed_guard_changes_nothing(store: Arc<dyn Store>) {
    change(&*store, vec![create(1)]).await.unwrap();
    let before = store.session(session(1)).await.unwrap();
    let blob = Blob::new("a/b", vec![]);
    let changes = vec![
        create(2),
        append(1, &["x"], 9),
        take(1, 9),
        open_calls(1, &["a"]),
        Change::PutConfig(vec![]),
        Change::PutBlob(blob.clone()),
    ];
    commit(&*store, vec![live(1), Guard::Generation(3)], changes).await.unwrap_err();
    assert_eq!(store.session(session(1)).await.unwrap(), before);
    assert_eq!(store.session(session(2)).await.unwrap(), None);
    assert!(store.messages(session(1), 0, 9).await.unwrap().is_empty());
    assert!(store.calls(session(1)).await.unwrap().is_empty());
    assert_eq!(store.config().await.unwrap(), None);
    assert_eq!(store.blob(blob.id).await.unwrap(), None);
    assert_eq!(change(&*store, vec![take(1, 9)]).await.unwrap().fence, Some(1));
}

async fn failed_change_changes_nothing(store: Arc<dyn Store>) {
    change(&*store, vec![create(1)]).await.unwrap();
    let changes = vec![create(2), append(1, &["x"], 9), Change::PutConfig(vec![]), append(3, &["x"], 9)];
    assert!(matches!(change(&*store, changes).await, Err(Error::SessionNotFound(id)) if id == session(3)));
    assert_eq!(store.session(session(2)).await.unwrap(), None);
    assert_eq!(store.session(session(1)).await.unwrap().unwrap().message_count, 0);
    assert_eq!(store.config().await.unwrap(), None);
}

async fn changes_in_a_transaction_build_on_each_other(store: Arc<dyn Store>) {
    let changes = vec![
        create(1),
        take(1, 10),
        append(1, &["a"], 1),
        open_calls(1, &["c"]),
        Change::CompleteCall { session: session(1), call: "c".to_owned(), result: vec![] },
        append(1, &["b"], 2),
        Change::PutConfig(b"x".to_vec()),
        Change::PutConfig(b"y".to_vec()),
    ];
    let committed = change(&*store, changes).await.unwrap();
    assert_eq!(committed, Committed { fence: Some(1), generation: Some(2), replaced: None });
    assert_eq!(store.session(session(1)).await.unwrap().unwrap().message_count, 2);
}

async fn dropped_future_does_not_undo_the_commit(store: Arc<dyn Store>) {
    change(&*store, vec![create(1)]).await.unwrap();
    let mut pending = Box::pin(change(&*store, vec![append(1, &["x"], 1)]));
    // One poll is enough to queue the commit.
    let _ = poll_once(&mut pending).await;
    drop(pending);
    // Commits are applied in order, so the first is done when this one is.
    change(&*store, vec![append(1, &["y"], 2)]).await.unwrap();
    assert_eq!(store.messages(session(1), 0, 9).await.unwrap().len(), 2);
}

async fn poll_once<F: Future + Unpin>(future: &mut F) -> std::task::Poll<F::Output> {
    std::future::poll_fn(|context| std::task::Poll::Ready(std::pin::Pin::new(&mut *future).poll(context)))
        .await
}
