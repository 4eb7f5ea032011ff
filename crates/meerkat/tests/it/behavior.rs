//! The table "Capability behavior" of the public capability matrix, for the profile of this build.
//!
//! Each operation is run, and the result is mapped to the words of the table. Only the choice of the column depends on
//! the expected result.

use meerkat::{ArchivedFilter, ErrorKind, SessionId, SessionQuery};
use meerkat_testkit::{Recorder, Script};
use serde_json::json;

use crate::world::{Profile, World, kind, say, text, then, watch};

/// Minimal, Persistent, Compacting, Full.
const TABLE: [(&str, [&str; 4]); 8] = [
    ("create_session", ["Works"; 4]),
    ("start_turn", ["Works", "Works + snapshot saved", "Works", "Works + snapshot saved"]),
    ("interrupt", ["Works"; 4]),
    ("read (running session)", ["Works"; 4]),
    (
        "read (archived)",
        ["SESSION_NOT_FOUND", "Falls back to store", "SESSION_NOT_FOUND", "Falls back to store"],
    ),
    (
        "list",
        ["Live sessions only", "Live + stored sessions", "Live sessions only", "Live + stored sessions"],
    ),
    (
        "archive",
        [
            "Removes from memory",
            "Removes from memory, snapshot kept",
            "Removes from memory",
            "Removes from memory, snapshot kept",
        ],
    ),
    ("Auto-compaction", ["No-op", "No-op", "Triggers at threshold", "Triggers at threshold"]),
];

#[tokio::test]
async fn every_operation_matches_its_profile() {
    let seen = [
        ("create_session", create_session().await),
        ("start_turn", start_turn().await),
        ("interrupt", interrupt().await),
        ("read (running session)", read_running().await),
        ("read (archived)", read_archived().await),
        ("list", list().await),
        ("archive", archive().await),
        ("Auto-compaction", auto_compaction().await),
    ];
    let column = Profile::THIS as usize;
    assert_eq!(seen, TABLE.map(|(operation, cells)| (operation, cells[column])), "{:?}", Profile::THIS);
}

async fn create_session() -> &'static str {
    let world = World::new([Script::say("hello")]);
    let done = world.create(say("hi")).await.unwrap();
    assert_eq!(text(&done), "hello");
    assert_eq!(world.lines(done.session_id).await, ["user: hi", "assistant: hello"]);
    "Works"
}

async fn start_turn() -> &'static str {
    let world = World::new([Script::say("a"), Script::say("b")]);
    let id = world.session("one").await;
    assert_eq!(text(&world.resume(id, then("two")).await.unwrap()), "b");
    let reopened = world.another([]);
    drop(world);
    match reopened.sessions().read(id).await {
        Ok(_) => {
            let lines = ["user: one", "assistant: a", "user: two", "assistant: b"];
            assert_eq!(reopened.lines(id).await, lines);
            "Works + snapshot saved"
        }
        Err(error) => {
            assert_eq!(error.kind(), ErrorKind::SessionNotFound);
            "Works"
        }
    }
}

async fn interrupt() -> &'static str {
    let world = World::new([Script::say("ok"), Script::Hang, Script::say("again")]);
    let (id, running) = world.hanging().await;
    world.sessions().interrupt(id).await.unwrap();
    assert_eq!(kind(running.await.unwrap()), ErrorKind::RequestCancelled);
    assert_eq!(text(&world.resume(id, then("three")).await.unwrap()), "again");
    "Works"
}

async fn read_running() -> &'static str {
    let world = World::new([Script::say("ok"), Script::Hang]);
    let (id, running) = world.hanging().await;
    let view = world.sessions().read(id).await.unwrap();
    assert_eq!((view.is_active, view.message_count), (true, 3), "the prompt is already stored");
    assert_eq!(world.sessions().list(SessionQuery::default()).await.unwrap(), [view]);
    assert!(!running.is_finished());
    world.model.release();
    running.await.unwrap().unwrap();
    assert!(!world.sessions().read(id).await.unwrap().is_active);
    "Works"
}

async fn read_archived() -> &'static str {
    let world = World::new([]);
    let id = world.session("hi").await;
    world.sessions().archive(id).await.unwrap();
    match world.sessions().read(id).await {
        Ok(view) => {
            assert!(view.is_archived);
            assert_eq!(world.lines(id).await, ["user: hi", "assistant: done"]);
            "Falls back to store"
        }
        Err(error) => {
            assert_eq!(kind(world.sessions().history(id, 0, None).await), error.kind());
            error.kind().code()
        }
    }
}

async fn list() -> &'static str {
    let before = World::new([]);
    let stored = before.session("stored").await;
    let world = before.another([]);
    drop(before);
    let live = world.session("live").await;
    match list_sessions(&world, ArchivedFilter::Hidden).await.as_slice() {
        [one] if *one == live => "Live sessions only",
        [one, two] if (*one, *two) == (live, stored) => "Live + stored sessions",
        other => panic!("{other:?}"),
    }
}

async fn archive() -> &'static str {
    let world = World::new([]);
    let id = world.session("hi").await;
    world.sessions().archive(id).await.unwrap();
    assert_eq!(list_sessions(&world, ArchivedFilter::Hidden).await, []);
    match list_sessions(&world, ArchivedFilter::Included).await.as_slice() {
        [] => "Removes from memory",
        [one] if *one == id => "Removes from memory, snapshot kept",
        other => panic!("{other:?}"),
    }
}

/// The threshold is above two short exchanges and below a long prompt.
async fn auto_compaction() -> &'static str {
    let world = World::new([Script::say("a"), Script::say("b"), Script::say("c"), Script::say("d")]);
    world.configure(json!({"compaction": {"auto_compact_threshold": 200}})).await;
    let (first, early) = world.record(say("one")).await;
    let id = first.unwrap().session_id;
    let late = Recorder::default();
    for (prompt, recorder) in [("two", &early), (&*"word ".repeat(200), &late)] {
        world.sessions().start_turn(id, then(prompt), watch(recorder)).await.unwrap();
    }
    let compactions = |recorder: &Recorder| -> Vec<_> {
        recorder.types().into_iter().filter(|name| name.starts_with("compaction")).collect()
    };
    assert_eq!(compactions(&early), [""; 0], "below the threshold");
    let seen = world.model.seen();
    match compactions(&late).as_slice() {
        [] => {
            assert_eq!(seen.len(), 3);
            assert_eq!(seen[2].lines.len(), 5, "the full history");
            "No-op"
        }
        [started, completed] => {
            assert_eq!([started, completed], ["compaction_started", "compaction_completed"]);
            assert_eq!(seen.len(), 4, "one more call, for the summary");
            assert!(seen[3].lines[0].starts_with("notice: [Context compacted]"), "{:?}", seen[3]);
            "Triggers at threshold"
        }
        other => panic!("{other:?}"),
    }
}

async fn list_sessions(world: &World, archived: ArchivedFilter) -> Vec<SessionId> {
    let query = SessionQuery { archived, ..SessionQuery::default() };
    world.sessions().list(query).await.unwrap().into_iter().map(|view| view.id).collect()
}
