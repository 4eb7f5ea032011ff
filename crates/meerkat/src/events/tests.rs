use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use meerkat_core::{AgentEvent, Clock, EventEnvelope, SessionId, StreamId};
use meerkat_testkit::TestClock;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use super::StreamError;
use super::bus::{EventBus, PriorEvents};
use super::channel::{ReadLimit, TOTAL_BYTES};
use super::stream::ReadOutcome;
use super::streams::MAX_STREAMS;

fn hub() -> (EventBus, Arc<dyn Clock>) {
    let clock: Arc<dyn Clock> = Arc::new(TestClock::start());
    (EventBus::new(Arc::clone(&clock)), clock)
}

fn session(number: u128) -> SessionId {
    SessionId::from_uuid(Uuid::from_u128(number))
}

fn delta(text: &str) -> AgentEvent {
    AgentEvent::TextDelta { delta: text.to_owned() }
}

fn limit(events: usize) -> ReadLimit {
    ReadLimit { events, bytes: usize::MAX }
}

async fn read(hub: &EventBus, stream: StreamId, count: usize) -> Result<ReadOutcome, StreamError> {
    hub.read(stream, limit(count), Duration::ZERO, &CancellationToken::new()).await
}

/// Reads a stream, and returns the number and the text of each event.
async fn lines(hub: &EventBus, stream: StreamId, count: usize) -> Vec<String> {
    match read(hub, stream, count).await.unwrap() {
        ReadOutcome::Events(events) => events.iter().map(line).collect(),
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
async fn slow_reader_gets_one_notice_of_lost_events() {
    let (hub, _) = hub();
    let run = hub.open_channel(session(1), PriorEvents::None);
    let stream = hub.open(session(1), None).unwrap();
    for _ in 0..1500 {
        run.publish(delta("x"));
    }
    assert_eq!(
        lines(&hub, stream, 2).await,
        ["500 500 events were lost because they were not read in time", "501 x"]
    );
    assert_eq!(lines(&hub, stream, 1).await, ["502 x"]);
}

#[tokio::test(start_paused = true)]
async fn read_respects_limit_but_returns_at_least_one() {
    let (hub, _) = hub();
    let run = hub.open_channel(session(1), PriorEvents::None);
    let stream = hub.open(session(1), None).unwrap();
    for _ in 0..3 {
        run.publish(delta(&"x".repeat(2000)));
    }
    let mut numbers = Vec::new();
    for bytes in [6000, 10] {
        let limit = ReadLimit { events: 9, bytes };
        let outcome = hub.read(stream, limit, Duration::ZERO, &CancellationToken::new()).await.unwrap();
        let ReadOutcome::Events(events) = outcome else { panic!("{outcome:?}") };
        numbers.push(events.iter().map(|event| event.seq).collect::<Vec<_>>());
    }
    assert_eq!(numbers, [vec![1, 2], vec![3]]);
}

#[tokio::test(start_paused = true)]
async fn reader_catches_up_from_any_number() {
    let (hub, _) = hub();
    let run = hub.open_channel(session(1), PriorEvents::None);
    for text in ["a", "b", "c"] {
        run.publish(delta(text));
    }
    let after = |number| hub.open(session(1), Some(number)).unwrap();
    assert_eq!(lines(&hub, after(0), 9).await, ["1 a", "2 b", "3 c"]);
    assert_eq!(lines(&hub, after(1), 9).await, ["2 b", "3 c"]);
    let ahead = after(3);
    assert_eq!(lines(&hub, ahead, 9).await, ["Timeout"]);
    run.publish(delta("d"));
    assert_eq!(lines(&hub, ahead, 9).await, ["4 d"]);
}

#[tokio::test(start_paused = true)]
async fn unknown_number_yields_notice_and_retained_events() {
    let gap = "`after` is not the number of an event of this session in this process; events since then may be lost, \
               and the retained events follow";
    let (hub, _) = hub();
    let run = hub.open_channel(session(1), PriorEvents::None);
    run.publish(delta("a"));
    for number in [2, 500, u64::MAX] {
        let stream = hub.open(session(1), Some(number)).unwrap();
        assert_eq!(lines(&hub, stream, 1).await, [format!("0 {gap}")]);
        assert_eq!(lines(&hub, stream, 9).await, ["1 a"]);
    }
    let empty = hub.open(session(2), Some(u64::MAX)).unwrap();
    let notice = lines(&hub, empty, 9).await;
    assert!(notice.len() == 1 && notice[0].ends_with(gap), "{notice:?}");
    assert_eq!(lines(&hub, empty, 9).await, ["Timeout"]);
}

#[tokio::test(start_paused = true)]
async fn process_starts_above_earlier_numbers() {
    let (before, clock) = hub();
    let run = before.open_channel(session(1), PriorEvents::Unknown);
    let last = (0..3).map(|_| run.publish(delta("old")).seq).max().unwrap();
    clock.sleep(Duration::from_millis(1)).await;
    let after = EventBus::new(Arc::clone(&clock));
    let run = after.open_channel(session(1), PriorEvents::Unknown);
    let first = run.publish(delta("new")).seq;
    assert!(first > last, "{first} {last}");
    let stream = after.open(session(1), Some(last)).unwrap();
    let expected = [format!("{} earlier events are no longer retained", first - 1), format!("{first} new")];
    assert_eq!(lines(&after, stream, 9).await, expected);
}

#[tokio::test(start_paused = true)]
async fn cancelled_read_consumes_nothing() {
    let (hub, _) = hub();
    let run = hub.open_channel(session(1), PriorEvents::None);
    let stream = hub.open(session(1), None).unwrap();
    let cancel = CancellationToken::new();
    {
        let mut dropped = Box::pin(hub.read(stream, limit(1), Duration::from_secs(9), &cancel));
        tokio::select! {
            biased;
            outcome = &mut dropped => panic!("{outcome:?}"),
            () = std::future::ready(()) => {}
        }
        run.publish(delta("a"));
    }
    cancel.cancel();
    let cancelled = hub.read(stream, limit(1), Duration::from_secs(9), &cancel).await.unwrap();
    assert_eq!(cancelled, ReadOutcome::Timeout);
    assert_eq!(lines(&hub, stream, 9).await, ["1 a"]);
}

#[tokio::test(start_paused = true)]
async fn stream_closes_after_remaining_events_are_read() {
    let (hub, _) = hub();
    let run = hub.open_channel(session(1), PriorEvents::None);
    let stream = hub.open(session(1), None).unwrap();
    run.publish(delta("a"));
    drop(run);
    hub.end_session(session(1));
    assert_eq!(lines(&hub, stream, 1).await, ["1 a"]);
    assert_eq!(read(&hub, stream, 1).await.unwrap(), ReadOutcome::Closed);
    assert!(matches!(read(&hub, stream, 1).await, Err(StreamError::Unknown(id)) if id == stream));
    assert!(!hub.close(stream));
}

#[tokio::test(start_paused = true)]
async fn close_all_wakes_waiting_reader() {
    let (hub, _) = hub();
    let stream = hub.open(session(1), None).unwrap();
    let other = hub.clone();
    let waiting = tokio::spawn(async move {
        other.read(stream, limit(1), Duration::from_secs(600), &CancellationToken::new()).await
    });
    tokio::task::yield_now().await;
    hub.close_all();
    assert_eq!(waiting.await.unwrap().unwrap(), ReadOutcome::Closed);
}

#[tokio::test(start_paused = true)]
async fn longest_unread_stream_is_evicted() {
    let (hub, clock) = hub();
    let run = hub.open_channel(session(1), PriorEvents::None);
    run.publish(delta("a"));
    run.publish(delta("b"));
    let abandoned = hub.open(session(1), Some(0)).unwrap();
    assert_eq!(lines(&hub, abandoned, 1).await, ["1 a"]);
    clock.sleep(Duration::from_secs(1)).await;
    let others: Vec<_> = (1..MAX_STREAMS).map(|_| hub.open(session(2), None).unwrap()).collect();
    clock.sleep(Duration::from_secs(1)).await;
    let newest = hub.open(session(3), None).unwrap();
    let error = read(&hub, abandoned, 1).await.unwrap_err();
    assert!(
        matches!(
            &error,
            StreamError::Unread { id, session: owner, after: 1 } if *id == abandoned && *owner == session(1)
        ),
        "{error:?}"
    );
    for open in [others[0], others[MAX_STREAMS - 2], newest] {
        assert_eq!(read(&hub, open, 1).await.unwrap(), ReadOutcome::Timeout);
    }
    let reopened = hub.open(session(1), Some(1)).unwrap();
    assert_eq!(lines(&hub, reopened, 9).await, ["2 b"], "nothing is lost");
}

#[tokio::test(start_paused = true)]
async fn streams_being_read_are_not_evicted() {
    let (hub, _) = hub();
    let mut readers = Vec::new();
    for _ in 0..MAX_STREAMS {
        let (hub, stream) = (hub.clone(), hub.open(session(1), None).unwrap());
        readers.push(tokio::spawn(async move {
            hub.read(stream, limit(1), Duration::from_secs(600), &CancellationToken::new()).await
        }));
    }
    for _ in 0..MAX_STREAMS {
        tokio::task::yield_now().await;
    }
    assert!(matches!(hub.open(session(1), None), Err(StreamError::TooMany { limit: MAX_STREAMS })));
    hub.close_all();
    for reader in readers {
        assert_eq!(reader.await.unwrap().unwrap(), ReadOutcome::Closed);
    }
}

#[tokio::test(start_paused = true)]
async fn idle_stream_is_closed() {
    let (hub, clock) = hub();
    let (active, idle) = (hub.open(session(1), None).unwrap(), hub.open(session(1), None).unwrap());
    clock.sleep(Duration::from_secs(20 * 60)).await;
    assert_eq!(read(&hub, active, 1).await.unwrap(), ReadOutcome::Timeout);
    clock.sleep(Duration::from_secs(20 * 60)).await;
    assert_eq!(read(&hub, active, 1).await.unwrap(), ReadOutcome::Timeout, "it was read meanwhile");
    let error = read(&hub, idle, 1).await.unwrap_err();
    assert!(matches!(error, StreamError::Unread { id, .. } if id == idle), "{error:?}");
    assert!(!hub.close(idle));
}

#[tokio::test(start_paused = true)]
async fn numbers_grow_after_events_are_dropped() {
    let (hub, clock) = hub();
    let run = hub.open_channel(session(1), PriorEvents::None);
    for text in ["a", "b"] {
        run.publish(delta(text));
    }
    drop(run);
    clock.sleep(Duration::from_secs(9 * 60)).await;
    let late = hub.open(session(1), Some(1)).unwrap();
    assert_eq!(lines(&hub, late, 9).await, ["2 b"]);
    hub.close(late);
    clock.sleep(Duration::from_secs(30 * 60)).await;
    assert_eq!(hub.totals(), (0, 0));

    let run = hub.open_channel(session(1), PriorEvents::Unknown);
    let next = run.publish(delta("c")).seq;
    assert!(next > 2, "{next}");
    let stream = hub.open(session(1), Some(1)).unwrap();
    let expected = [format!("{} earlier events are no longer retained", next - 1), format!("{next} c")];
    assert_eq!(lines(&hub, stream, 9).await, expected);
}

#[tokio::test(start_paused = true)]
async fn memory_is_bounded_and_idle_channels_go_first() {
    let (hub, _) = hub();
    let idle = hub.open_channel(session(0), PriorEvents::None);
    idle.publish(delta(&"x".repeat(1 << 20)));
    drop(idle);
    let runs: Vec<_> =
        (1..=1000).map(|number| hub.open_channel(session(number), PriorEvents::None)).collect();
    for run in &runs {
        for _ in 0..200 {
            run.publish(delta("some words"));
        }
    }
    let (channels, bytes) = hub.totals();
    assert_eq!(channels, 1001);
    assert!(bytes < TOTAL_BYTES + (2 << 20), "{bytes}");
    let watched = hub.open(session(1), None).unwrap();
    for _ in 0..200 {
        runs[0].publish(delta("some words"));
    }
    assert_eq!(lines(&hub, watched, 200).await.len(), 200, "a channel with a reader retains more");
    drop(runs);
    let (channels, bytes) = hub.totals();
    assert!(bytes <= TOTAL_BYTES && channels < 1001, "{channels} {bytes}");
}

#[tokio::test(start_paused = true)]
async fn subscribers_receive_events_of_every_session() {
    let (hub, _) = hub();
    let mut watcher = hub.subscribe();
    hub.open_channel(session(1), PriorEvents::None).publish(delta("a"));
    hub.open_channel(session(2), PriorEvents::None).publish(delta("b"));
    assert_eq!(line(&watcher.recv().await.unwrap()), "1 a");
    assert_eq!(line(&watcher.recv().await.unwrap()), "1 b");
}

impl EventBus {
    /// Returns the number of channels, and the total size of their events.
    fn totals(&self) -> (usize, usize) {
        let load = self.load();
        (load.channels.load(Ordering::Relaxed), load.bytes.load(Ordering::Relaxed))
    }
}

#[test]
fn run_dropped_with_tokio_runtime_does_not_hang() {
    let (hub, totals) = {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let hub = runtime.block_on(async { hub().0 });
        let run = hub.open_channel(session(1), PriorEvents::None);
        run.publish(delta("a"));
        runtime.spawn(async move {
            let _run = run;
            std::future::pending::<()>().await;
        });
        drop(runtime);
        let totals = hub.totals();
        (hub, totals)
    };
    assert_eq!(totals.0, 1);
    drop(hub.open_channel(session(1), PriorEvents::Unknown));
}
