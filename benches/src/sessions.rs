//! Sessions: one run with its commits, a step in a long session, many sessions.

use std::sync::Arc;
use std::time::Duration;

use meerkat::{Content, NewSessionOptions, RunControl, RunInput, Runtime, RuntimeOptions, TurnOptions};
use meerkat_core::{RunId, SessionId, Timestamp};
use meerkat_store::{Change, Guard, NewSession, Store, Transaction};
use uuid::Uuid;

use crate::floor::{Floor, dir, realm};
use crate::measure::{Effort, Failure, Times, compare, report, resident};

pub(crate) fn run(effort: Effort) -> Result<(), Failure> {
    println!("spine");
    let tokio = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    one_run(&tokio, effort)?;
    long_session(&tokio, effort)?;
    many_sessions(&tokio, effort)?;
    Ok(())
}

fn prompt(text: &str) -> TurnOptions {
    TurnOptions {
        input: RunInput { prompt: Content::text(text), ..RunInput::default() },
        ..TurnOptions::default()
    }
}

/// Measures one run on the offline model, against the same number of bare commits: the opening, and the final response.
fn one_run(tokio: &tokio::runtime::Runtime, effort: Effort) -> Result<(), Failure> {
    const COMMITS: usize = 2;
    let ours_dir = dir()?;
    let runtime = Runtime::new(realm(ours_dir.path())?, RuntimeOptions::default());
    let floor_dir = dir()?;
    let floor = Floor::open(&floor_dir.path().join("floor.sqlite3"))?;
    let (mut ours, mut bare) = (Times::default(), Times::default());
    for _ in 0..effort.rounds(40) {
        for _ in 0..10 {
            let done = ours.time(|| {
                tokio.block_on(runtime.sessions().create(
                    NewSessionOptions::default(),
                    prompt("say hello"),
                    RunControl::default(),
                ))
            });
            done?;
        }
        for _ in 0..10 {
            bare.time(|| (0..COMMITS).try_for_each(|_| floor.commit()))?;
        }
    }
    compare("a run with its commits, vs. the commits alone", (&ours, &bare), 1.3, effort)
}

/// Measures the store's cost of a step in a long session, against a short one.
fn long_session(tokio: &tokio::runtime::Runtime, effort: Effort) -> Result<(), Failure> {
    let dir = dir()?;
    let realm = realm(dir.path())?;
    let store = realm.store();
    let short = tokio.block_on(session_of(&store, 10))?;
    let long = tokio.block_on(session_of(&store, 10_000))?;
    let (mut on_long, mut on_short) = (Times::default(), Times::default());
    for _ in 0..effort.rounds(400) {
        on_long.time(|| tokio.block_on(step(&store, long)))?;
        on_short.time(|| tokio.block_on(step(&store, short)))?;
    }
    compare("a step at 10,000 messages, vs. one at 10", (&on_long, &on_short), 1.2, effort)
}

async fn session_of(store: &Arc<dyn Store>, messages: usize) -> Result<SessionId, Failure> {
    let id = SessionId::from_uuid(Uuid::now_v7());
    let new = NewSession {
        id,
        created_at: Timestamp::now(),
        labels: std::collections::BTreeMap::new(),
        settings: vec![b's'; 300],
        progress: vec![b'p'; 150],
    };
    let append =
        Change::Append { session: id, messages: vec![vec![b'm'; 400]; messages], at: Timestamp::now() };
    let lease =
        Change::TakeLease { session: id, run: RunId::from_uuid(Uuid::now_v7()), expires_at: Timestamp::MAX };
    let changes = vec![Change::CreateSession(new), append, lease];
    store.commit(Transaction { guards: Vec::new(), changes }).await?;
    Ok(id)
}

async fn step(store: &Arc<dyn Store>, session: SessionId) -> Result<(), meerkat_store::Error> {
    let messages = vec![vec![b'm'; 400]];
    let changes = vec![
        Change::Append { session, messages, at: Timestamp::now() },
        Change::PutProgress { session, progress: vec![b'p'; 150] },
    ];
    store.commit(Transaction { guards: vec![Guard::HoldsLease { session, fence: 1 }], changes }).await?;
    Ok(())
}

/// Measures many concurrent sessions in one process.
fn many_sessions(tokio: &tokio::runtime::Runtime, effort: Effort) -> Result<(), Failure> {
    let count = effort.rounds(1000);
    let dir = dir()?;
    let runtime = Runtime::new(realm(dir.path())?, RuntimeOptions::default());
    let me = std::process::id();
    let before = resident(me).unwrap_or(0);
    let during = tokio.block_on(async {
        let mut runs = tokio::task::JoinSet::new();
        for _ in 0..count {
            let sessions = runtime.sessions();
            runs.spawn(async move {
                let turn = prompt("wait 4000\nsay hello");
                sessions.create(NewSessionOptions::default(), turn, RunControl::default()).await
            });
        }
        tokio::time::sleep(Duration::from_secs(3)).await;
        let during = resident(me).unwrap_or(0);
        while let Some(done) = runs.join_next().await {
            done??;
        }
        Ok::<_, Failure>(during)
    })?;
    let each = during.saturating_sub(before) as f64 / count as f64;
    report(&format!("memory of each of {count} active sessions"), &format!("{each:.1} KB"));
    Ok(())
}
