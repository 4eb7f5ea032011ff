use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use meerkat_core::{AgentEvent, Clock, EventEnvelope, SessionId};
use meerkat_testkit::TestClock;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use super::channel::{Room, TOTAL_BYTES};
use super::hub::{EventHub, Past};
use super::stream::{MAX_STREAMS, Reading, StreamId};
use crate::Error;

fn hub() -> (EventHub, Arc<dyn Clock>) {
    let clock: Arc<dyn Clock> = Arc::new(TestClock::start());
    (EventHub::new(Arc::clone(&clock)), clock)
}

fn session(number: u128) -> SessionId {
    SessionId::from_uuid(Uuid::from_u128(number))
}

fn delta(text: &str) -> AgentEvent {
    AgentEvent::TextDelta { delta: text.to_owned() }
}

fn room(events: usize) -> Room {
    Room { events, bytes: usize::MAX }
}

async fn read(hub: &EventHub, stream: StreamId, limit: usize) -> Result<Reading, Error> {
    hub.read(stream, room(limit), Duration::ZERO, &CancellationToken::new()).await
}

/// What was read: the number of each event and its text.
async fn lines(hub: &EventHub, stream: StreamId, limit: usize) -> Vec<String> {
    match read(hub, stream, limit).await.unwrap() {
        Reading::Events(events) => events.iter().map(line).collect(),
        other => vec![format!("{other:?}")],
    }
}

fn line(event: &Arc<EventEnvelope>) -> String {
    let text = match &event.payload {
        AgentEvent::TextDelta { delta } => delta,
        AgentEvent::StreamTruncated { reason } => reason,
        other => panic!("{other:?}"),
    };
    format!("{} {text}", event.seq)
}

#[tokio::test(start_paused = true)]
async fn a_slow_reader_is_told_once_how_many_it_lost() {
    let (hub, _) = hub();
    let run = hub.run(session(1), Past::None);
    let stream = hub.open(session(1), None).unwrap();
    for _ in 0..1500 {
        run.publish(delta("x"));
    }
    assert_eq!(
        lines(&hub, stream, 2).await,
        ["499 500 events were lost because they were not read in time", "500 x"]
    );
    assert_eq!(lines(&hub, stream, 1).await, ["501 x"]);
}

#[tokio::test(start_paused = true)]
async fn a_read_takes_no_more_than_there_is_room_for_and_always_one() {
    let (hub, _) = hub();
    let run = hub.run(session(1), Past::None);
    let stream = hub.open(session(1), None).unwrap();
    for _ in 0..3 {
        run.publish(delta(&"x".repeat(2000)));
    }
    let mut numbers = Vec::new();
    for bytes in [6000, 10] {
        let room = Room { events: 9, bytes };
        let reading = hub.read(stream, room, Duration::ZERO, &CancellationToken::new()).await.unwrap();
        let Reading::Events(events) = reading else { panic!("{reading:?}") };
        numbers.push(events.iter().map(|event| event.seq).collect::<Vec<_>>());
    }
    assert_eq!(numbers, [vec![0, 1], vec![2]]);
}

#[tokio::test(start_paused = true)]
async fn a_reader_catches_up_from_any_number() {
    let (hub, _) = hub();
    let run = hub.run(session(1), Past::None);
    for text in ["a", "b", "c"] {
        run.publish(delta(text));
    }
    let after = |number| hub.open(session(1), Some(number)).unwrap();
    assert_eq!(lines(&hub, after(0), 9).await, ["1 b", "2 c"]);
    let ahead = after(u64::MAX);
    assert_eq!(lines(&hub, ahead, 9).await, ["Timeout"]);
    run.publish(delta("d"));
    assert_eq!(lines(&hub, ahead, 9).await, ["3 d"]);
}

#[tokio::test(start_paused = true)]
async fn a_read_that_is_given_up_takes_nothing() {
    let (hub, _) = hub();
    let run = hub.run(session(1), Past::None);
    let stream = hub.open(session(1), None).unwrap();
    let cancel = CancellationToken::new();
    {
        let mut dropped = Box::pin(hub.read(stream, room(1), Duration::from_secs(9), &cancel));
        tokio::select! {
            biased;
            reading = &mut dropped => panic!("{reading:?}"),
            () = std::future::ready(()) => {}
        }
        run.publish(delta("a"));
    }
    cancel.cancel();
    let cancelled = hub.read(stream, room(1), Duration::from_secs(9), &cancel).await.unwrap();
    assert_eq!(cancelled, Reading::Timeout);
    assert_eq!(lines(&hub, stream, 9).await, ["0 a"]);
}

#[tokio::test(start_paused = true)]
async fn what_was_told_before_the_end_is_read_before_the_stream_closes() {
    let (hub, _) = hub();
    let run = hub.run(session(1), Past::None);
    let stream = hub.open(session(1), None).unwrap();
    run.publish(delta("a"));
    drop(run);
    hub.end(session(1));
    assert_eq!(lines(&hub, stream, 1).await, ["0 a"]);
    assert_eq!(read(&hub, stream, 1).await.unwrap(), Reading::Closed);
    assert!(matches!(read(&hub, stream, 1).await, Err(Error::UnknownStream(id)) if id == stream));
    assert!(!hub.close(stream));
}

#[tokio::test(start_paused = true)]
async fn a_waiting_reader_hears_that_all_is_over() {
    let (hub, _) = hub();
    let stream = hub.open(session(1), None).unwrap();
    let other = hub.clone();
    let waiting = tokio::spawn(async move {
        other.read(stream, room(1), Duration::from_secs(600), &CancellationToken::new()).await
    });
    tokio::task::yield_now().await;
    hub.shut();
    assert_eq!(waiting.await.unwrap().unwrap(), Reading::Closed);
}

#[tokio::test(start_paused = true)]
async fn only_so_many_streams_are_open_and_unread_ones_make_room() {
    let (hub, clock) = hub();
    let first = hub.open(session(1), None).unwrap();
    for _ in 1..MAX_STREAMS {
        hub.open(session(1), None).unwrap();
    }
    assert!(matches!(hub.open(session(1), None), Err(Error::TooManyStreams { limit: MAX_STREAMS })));
    clock.sleep(Duration::from_secs(20 * 60)).await;
    assert_eq!(read(&hub, first, 1).await.unwrap(), Reading::Timeout);
    clock.sleep(Duration::from_secs(20 * 60)).await;
    assert!(hub.open(session(2), None).is_ok());
    assert_eq!(read(&hub, first, 1).await.unwrap(), Reading::Timeout, "it was read meanwhile");
}

#[tokio::test(start_paused = true)]
async fn numbers_grow_even_when_a_sessions_events_are_forgotten() {
    let (hub, clock) = hub();
    let run = hub.run(session(1), Past::None);
    for text in ["a", "b"] {
        run.publish(delta(text));
    }
    drop(run);
    clock.sleep(Duration::from_secs(9 * 60)).await;
    let late = hub.open(session(1), Some(0)).unwrap();
    assert_eq!(lines(&hub, late, 9).await, ["1 b"]);
    hub.close(late);
    clock.sleep(Duration::from_secs(30 * 60)).await;
    assert_eq!(hub.held(), (0, 0));

    let run = hub.run(session(1), Past::Unknown);
    run.publish(delta("c"));
    let stream = hub.open(session(1), Some(0)).unwrap();
    assert_eq!(lines(&hub, stream, 9).await, ["1 the events before this are no longer kept", "2 c"]);
}

#[tokio::test(start_paused = true)]
async fn a_thousand_sessions_at_work_keep_little_and_idle_ones_go_first() {
    let (hub, _) = hub();
    let idle = hub.run(session(0), Past::None);
    idle.publish(delta(&"x".repeat(1 << 20)));
    drop(idle);
    let runs: Vec<_> = (1..=1000).map(|number| hub.run(session(number), Past::None)).collect();
    for run in &runs {
        for _ in 0..200 {
            run.publish(delta("some words"));
        }
    }
    let (channels, bytes) = hub.held();
    assert_eq!(channels, 1001);
    assert!(bytes < TOTAL_BYTES + (2 << 20), "{bytes}");
    let watched = hub.open(session(1), None).unwrap();
    for _ in 0..200 {
        runs[0].publish(delta("some words"));
    }
    assert_eq!(lines(&hub, watched, 200).await.len(), 200, "whoever reads has room");
    drop(runs);
    let (channels, bytes) = hub.held();
    assert!(bytes <= TOTAL_BYTES && channels < 1001, "{channels} {bytes}");
}

#[tokio::test(start_paused = true)]
async fn watchers_hear_every_session() {
    let (hub, _) = hub();
    let mut watcher = hub.watch();
    hub.run(session(1), Past::None).publish(delta("a"));
    hub.run(session(2), Past::None).publish(delta("b"));
    assert_eq!(line(&watcher.recv().await.unwrap()), "0 a");
    assert_eq!(line(&watcher.recv().await.unwrap()), "0 b");
}

impl EventHub {
    /// How many channels there are, and how many bytes they keep.
    fn held(&self) -> (usize, usize) {
        let load = self.load();
        (load.channels.load(Ordering::Relaxed), load.bytes.load(Ordering::Relaxed))
    }
}

#[test]
fn a_run_that_ends_with_its_tokio_runtime_does_not_hang() {
    let (hub, held) = {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let hub = runtime.block_on(async { hub().0 });
        let run = hub.run(session(1), Past::None);
        run.publish(delta("a"));
        runtime.spawn(async move {
            let _run = run;
            std::future::pending::<()>().await;
        });
        drop(runtime);
        let held = hub.held();
        (hub, held)
    };
    assert_eq!(held.0, 1);
    drop(hub.run(session(1), Past::Unknown));
}
