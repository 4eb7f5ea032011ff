//! Estimated memory usage of events.

use std::io;

use meerkat_core::AgentEvent;

/// Size of an event without its texts, in bytes, with what the allocator needs.
const BASE_SIZE: usize = 800;

/// Returns the estimated memory usage of an event, in bytes.
pub(super) fn estimated_size(event: &AgentEvent) -> usize {
    let content = match event {
        // The most frequent ones, and those with the longest texts.
        AgentEvent::TextDelta { delta: text }
        | AgentEvent::ReasoningDelta { delta: text }
        | AgentEvent::TextComplete { content: text }
        | AgentEvent::ReasoningComplete { content: text }
        | AgentEvent::RunCompleted { result: text, structured_output: None, .. } => text.len(),
        other => {
            let mut count = Count(0);
            // Counting cannot fail; for an event that cannot be serialized, the bytes so far count.
            let _ = serde_json::to_writer(&mut count, other);
            count.0
        }
    };
    BASE_SIZE + content
}

struct Count(usize);

impl io::Write for Count {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0 += bytes.len();
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use meerkat_core::EventEnvelope;
    use serde_json::json;

    use super::*;

    #[test]
    fn small_events_count_with_their_envelope() {
        let allocations = 3 * size_of::<usize>() + "session:01936f8a-7b2c-7000-8000-000000000001".len();
        let size = estimated_size(&AgentEvent::TextDelta { delta: "x".to_owned() });
        assert!(size >= size_of::<EventEnvelope>() + allocations, "{size}");
    }

    #[test]
    fn long_texts_count_at_any_depth() {
        let text = "x".repeat(10_000);
        let events = [
            AgentEvent::TextDelta { delta: text.clone() },
            AgentEvent::ToolCallRequested {
                id: "c".to_owned(),
                name: "t".to_owned(),
                args: json!({"deep": [{"text": text}]}),
            },
        ];
        for event in events {
            let size = estimated_size(&event);
            assert!((10_000..11_000).contains(&size), "{size}");
        }
        assert!(estimated_size(&AgentEvent::TurnStarted { turn_number: 1 }) < 900);
    }
}
