//! Tests of the replay buffer: what is retained, for how long, and how gaps are reported.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use futures_core::Stream as _;
use rmcp::model::{
    CustomResult, LoggingLevel, LoggingMessageNotification, LoggingMessageNotificationParam, RequestId,
    ResourceListChangedNotification, ResourceUpdatedNotification, ResourceUpdatedNotificationParam,
    ServerJsonRpcMessage, ServerNotification, ServerResult, ToolListChangedNotification,
};
use rmcp::transport::streamable_http_server::session::{ServerSseMessage, SessionId};
use serde_json::Value;

use super::{Bounds, OVERHEAD, ReplayBuffer, ReplayReader};

fn session(name: &str) -> SessionId {
    Arc::from(name)
}

fn answer(id: i64) -> ServerJsonRpcMessage {
    ServerJsonRpcMessage::response(ServerResult::empty(()), RequestId::Number(id))
}

/// A response that is longer than an error.
fn long_answer(id: i64) -> ServerJsonRpcMessage {
    let result = CustomResult::new(Value::from("x".repeat(5000)));
    ServerJsonRpcMessage::response(ServerResult::CustomResult(result), RequestId::Number(id))
}

fn change(notification: impl Into<ServerNotification>) -> ServerSseMessage {
    ServerSseMessage::from_message(ServerJsonRpcMessage::notification(notification.into()))
}

fn event() -> ServerSseMessage {
    change(LoggingMessageNotification::new(LoggingMessageNotificationParam::new(
        LoggingLevel::Info,
        "x".into(),
    )))
}

/// Memory cost of an event.
fn cost() -> usize {
    super::size(&event())
}

/// Memory cost of a short response.
fn answer_cost() -> usize {
    super::size(&ServerSseMessage::from_message(answer(7)))
}

/// Reads everything available now: ids of events, `failed` for errors, `lost N` for gaps, `…` for an open stream, `end` for an ended one.
fn read(following: &mut ReplayReader) -> Vec<String> {
    let mut seen = Vec::new();
    loop {
        match Pin::new(&mut *following).poll_next(&mut Context::from_waker(Waker::noop())) {
            Poll::Pending => return [seen, vec!["…".to_owned()]].concat(),
            Poll::Ready(None) => return [seen, vec!["end".to_owned()]].concat(),
            Poll::Ready(Some(event)) => {
                let message = serde_json::to_value(event.message.as_deref()).unwrap();
                let lost = &message["params"]["data"]["lost_events"];
                let id = event.event_id.unwrap_or_default();
                seen.push(match (lost, message.get("error")) {
                    (Value::Null, None) => id,
                    (Value::Null, Some(_)) => format!("{id} failed"),
                    _ => format!("{id} lost {lost}"),
                });
            }
        }
    }
}

fn bytes_and_logs(replay: &ReplayBuffer) -> (usize, Vec<u64>) {
    let state = replay.state();
    (state.bytes, state.logs.keys().copied().collect())
}

#[test]
fn stream_can_be_replayed_from_any_event() {
    let replay = ReplayBuffer::new(Bounds::default());
    let a = session("a");
    let stream = replay.open(&a, 1);
    let mut live = replay.follow(stream, 1);
    replay.add(stream, event());
    assert_eq!(read(&mut live), ["1~1", "…"]);
    replay.add(stream, event());
    replay.answer(stream, answer(1));
    assert_eq!(read(&mut live), ["1~2", "1~3", "end"]);
    assert_eq!(replay.find(&a, "1~1"), Some((1, 2)));
    assert_eq!(read(&mut replay.follow(stream, 2)), ["1~2", "1~3", "end"]);
    assert_eq!(read(&mut replay.follow(stream, 4)), ["end"]);
}

#[test]
fn unknown_event_is_not_found() {
    let replay = ReplayBuffer::new(Bounds::default());
    let a = session("a");
    let stream = replay.open(&a, 1);
    replay.add(stream, event());
    for id in ["", "0", "x", "1~", "~1", "1~x", "2~1", "1~2", "1~99999999999999999999", "1~-1"] {
        assert_eq!(replay.find(&a, id), None, "{id}");
    }
    assert_eq!(replay.find(&session("b"), "1~1"), None, "the stream of another session");
    assert_eq!(replay.find(&a, "1~0"), Some((1, 1)));
}

#[test]
fn dropped_events_are_reported() {
    let replay = ReplayBuffer::new(Bounds { events: 3, ..Bounds::default() });
    let stream = replay.open(&session("a"), 1);
    (0..10).for_each(|_| replay.add(stream, event()));
    assert_eq!(read(&mut replay.follow(stream, 2)), ["1~7 lost 6", "1~8", "1~9", "1~10", "…"]);
    assert_eq!(read(&mut replay.follow(stream, 8)), ["1~8", "1~9", "1~10", "…"]);
}

#[test]
fn total_size_is_bounded() {
    let total = 10 * answer_cost();
    let replay = ReplayBuffer::new(Bounds { total, ..Bounds::default() });
    let a = session("a");
    let ended: Vec<_> = (0..30).map(|_| replay.open(&a, 1)).collect();
    ended.iter().for_each(|stream| replay.answer(*stream, answer(7)));
    let is_retained = |stream: &u64| replay.find(&a, &format!("{stream}~0")).is_some();
    let remaining: Vec<_> = ended.iter().copied().filter(is_retained).collect();
    assert_eq!(remaining, (21..=30).collect::<Vec<_>>(), "the newest streams are retained");
    let running = replay.open(&a, 1);
    (0..25).for_each(|_| replay.add(running, event()));
    assert!(!ended.iter().any(is_retained), "ended streams are removed first");
    let retained = total / cost();
    let lost = 25 - retained;
    assert_eq!(read(&mut replay.follow(running, 1))[0], format!("31~{lost} lost {lost}"));
    assert_eq!(replay.state().bytes, retained * cost());
    assert!(cost() > OVERHEAD);
}

#[test]
fn oldest_unread_responses_become_errors() {
    let long = super::size(&ServerSseMessage::from_message(long_answer(7)));
    let replay = ReplayBuffer::new(Bounds { total: 3 * long, ..Bounds::default() });
    let a = session("a");
    let mut clients: Vec<_> = (0..5).map(|_| replay.follow(replay.open(&a, 1), 1)).collect();
    (1..=5).for_each(|stream| replay.answer(stream, long_answer(7)));
    assert!(replay.state().bytes <= 3 * long, "unread responses are bounded");
    let seen = clients.iter_mut().map(|client| read(client).remove(0));
    assert_eq!(seen.collect::<Vec<_>>(), ["1~1 failed", "2~1 failed", "3~1 failed", "4~1", "5~1"]);
    drop(clients);
    (0..3).for_each(|_| replay.answer(replay.open(&a, 1), long_answer(7)));
    assert_eq!(bytes_and_logs(&replay).1.iter().filter(|stream| **stream > 3).count(), 3);
}

#[test]
fn every_request_of_an_unread_batch_is_answered() {
    let long = super::size(&ServerSseMessage::from_message(long_answer(7)));
    for bounds in [
        Bounds { each: 3 * long, ..Bounds::default() },
        Bounds { total: 4 * long, ..Bounds::default() },
        Bounds { each: 3 * long, total: 4 * long, ..Bounds::default() },
    ] {
        let replay = ReplayBuffer::new(bounds);
        let a = session("a");
        let batch = replay.open(&a, 10);
        let mut client = replay.follow(batch, 1);
        (0..10).for_each(|id| replay.answer(batch, long_answer(id)));
        let seen = read(&mut client);
        let answers = seen.iter().filter(|event| !event.contains("lost") && *event != "end");
        assert_eq!(answers.count(), 10, "{seen:?}");
        assert!(replay.state().bytes <= 4 * long, "{seen:?}");
    }
}

#[test]
fn read_streams_are_bounded() {
    let cost = answer_cost;
    let replay = ReplayBuffer::new(Bounds { read: 3 * cost(), ..Bounds::default() });
    let a = session("a");
    for stream in 1..=10 {
        let mut client = replay.follow(replay.open(&a, 1), 1);
        replay.answer(stream, answer(7));
        assert_eq!(read(&mut client), [format!("{stream}~1"), "end".to_owned()]);
    }
    let unread = replay.open(&a, 1);
    replay.answer(unread, answer(7));
    let (bytes, mut streams) = bytes_and_logs(&replay);
    streams.sort_unstable();
    assert_eq!((bytes, streams), (4 * cost(), vec![8, 9, 10, 11]));
}

#[test]
fn unread_change_is_reported_once() {
    let replay = ReplayBuffer::new(Bounds::default());
    let stream = replay.open(&session("a"), 1);
    let updated = |uri: &str| {
        change(ResourceUpdatedNotification::new(ResourceUpdatedNotificationParam::new(uri.to_owned())))
    };
    let mut live = replay.follow(stream, 1);
    for _ in 0..3 {
        replay.add(stream, change(ResourceListChangedNotification::default()));
        replay.add(stream, updated("a:1"));
        replay.add(stream, updated("a:2"));
    }
    assert_eq!(read(&mut live), ["1~1", "1~2", "1~3", "…"]);
    replay.add(stream, updated("a:1"));
    assert_eq!(read(&mut live), ["1~4", "…"]);
}

#[test]
fn read_changes_are_superseded_without_a_gap() {
    let replay = ReplayBuffer::new(Bounds::default());
    let stream = replay.open(&session("a"), 1);
    let mut live = replay.follow(stream, 1);
    for number in 1..=2000 {
        replay.add(stream, change(ResourceListChangedNotification::default()));
        assert_eq!(read(&mut live), [format!("1~{number}"), "…".to_owned()]);
    }
    assert_eq!(replay.first(stream), 2000, "only the latest is kept");
    assert_eq!(read(&mut replay.follow(stream, 2)), ["1~2000", "…"]);
    replay.add(stream, event());
    replay.add(stream, change(ToolListChangedNotification::default()));
    assert_eq!(read(&mut live), ["1~2001", "1~2002", "…"]);
    replay.add(stream, change(ToolListChangedNotification::default()));
    assert_eq!(read(&mut replay.follow(stream, 5)), ["1~2000", "1~2001", "1~2003", "…"]);
    assert!(replay.state().order.len() <= 1024, "dropped events are forgotten");
}

#[test]
fn unread_changes_of_all_clients_are_bounded() {
    let total = 100 * cost();
    let replay = ReplayBuffer::new(Bounds { total, ..Bounds::default() });
    let streams: Vec<_> = (0..1000).map(|_| replay.open(&session("a"), 1)).collect();
    let _clients: Vec<_> = streams.iter().map(|stream| replay.follow(*stream, 1)).collect();
    for _ in 0..10 {
        streams.iter().for_each(|stream| replay.add(*stream, event()));
    }
    let state = replay.state();
    assert!(state.bytes <= total && state.order.len() <= 100, "{} events", state.order.len());
}

#[test]
fn sweep_removes_expired_events_and_streams() {
    let replay = ReplayBuffer::new(Bounds { time: Duration::ZERO, ..Bounds::default() });
    let a = session("a");
    let (ended, running) = (replay.open(&a, 1), replay.open(&a, 1));
    replay.answer(ended, answer(1));
    replay.add(running, event());
    let now = Instant::now();
    while now.elapsed().is_zero() {}
    replay.sweep();
    let state = replay.state();
    assert_eq!(state.logs.keys().collect::<Vec<_>>(), [&running]);
    assert_eq!((state.bytes, state.order.len(), state.logs[&running].first), (0, 0, 2));
}

#[test]
fn stream_is_removed_with_its_session() {
    let replay = ReplayBuffer::new(Bounds::default());
    let (a, b) = (session("a"), session("b"));
    let (removed, other) = (replay.open(&a, 1), replay.open(&b, 1));
    let mut live = replay.follow(removed, 1);
    replay.add(removed, event());
    replay.add(other, event());
    replay.remove_session(&a);
    assert_eq!(read(&mut live), ["end"]);
    replay.add(removed, event());
    replay.answer(removed, answer(1));
    assert_eq!(read(&mut replay.follow(removed, 1)), ["end"]);
    assert_eq!(replay.find(&a, "1~1"), None);
    assert_eq!(bytes_and_logs(&replay), (cost(), vec![other]));
}

#[test]
fn stream_is_removed_with_its_cancelled_request() {
    let replay = ReplayBuffer::new(Bounds::default());
    let a = session("a");
    let stream = replay.open(&a, 1);
    let mut live = replay.follow(stream, 1);
    replay.add(stream, event());
    replay.withdraw(stream);
    assert_eq!(read(&mut live), ["end"]);
    assert_eq!(bytes_and_logs(&replay), (0, vec![]));
    let batch = replay.open(&a, 2);
    replay.answer(batch, answer(1));
    replay.withdraw(batch);
    assert_eq!(read(&mut replay.follow(batch, 1)), ["2~1", "end"], "the other response is retained");
}

#[tokio::test]
async fn writer_waits_for_slow_reader() {
    let replay = ReplayBuffer::new(Bounds { events: 100, ..Bounds::default() });
    let stream = replay.open(&session("a"), 1);
    let mut live = replay.follow(stream, 1);
    let writer = tokio::spawn({
        let replay = replay.clone();
        async move {
            for _ in 0..300 {
                replay.send(stream, event()).await;
            }
        }
    });
    let mut seen = Vec::new();
    while seen.len() < 300 {
        tokio::task::yield_now().await;
        seen.extend(read(&mut live).into_iter().filter(|word| word != "…"));
    }
    assert_eq!(seen, (1..=300).map(|number| format!("1~{number}")).collect::<Vec<_>>());
    writer.await.unwrap();
}

#[tokio::test]
async fn writer_does_not_wait_for_stalled_reader() {
    let replay =
        ReplayBuffer::new(Bounds { events: 100, stall_timeout: Duration::ZERO, ..Bounds::default() });
    let stream = replay.open(&session("a"), 1);
    let mut stalled = replay.follow(stream, 1);
    for _ in 0..300 {
        replay.send(stream, event()).await;
    }
    assert_eq!(read(&mut stalled).first().map(String::as_str), Some("1~200 lost 200"));
}
