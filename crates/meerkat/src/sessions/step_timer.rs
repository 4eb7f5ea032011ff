//! Warnings about slow parts of runs, for operators.

use std::time::{Duration, Instant};

use meerkat_core::{RunId, SessionId};

/// A part of a run that may be slow.
#[derive(Debug, Clone, Copy)]
pub(super) enum Part {
    ModelCall,
    Tool,
    Commit,
}

/// Measures a part of a run.
#[derive(Debug, Clone, Copy)]
pub(super) struct StepTimer {
    session: SessionId,
    run: RunId,
    started: Instant,
}

impl StepTimer {
    pub(super) fn start(session: SessionId, run: RunId) -> Self {
        Self { session, run, started: Instant::now() }
    }

    /// Logs a warning if the part was slow. `name` is the tool's.
    pub(super) fn finish(self, part: Part, name: Option<&str>) {
        let Self { session, run, started } = self;
        let elapsed = started.elapsed();
        if let Some(part) = slow(part, elapsed) {
            let duration_ms = u64::try_from(elapsed.as_millis()).unwrap_or(u64::MAX);
            tracing::warn!(%session, %run, tool = name, duration_ms, "{part} was slow");
        }
    }
}

/// Returns the name of a part that took longer than usual.
fn slow(part: Part, elapsed: Duration) -> Option<&'static str> {
    let (name, limit) = match part {
        Part::ModelCall => ("a model call", Duration::from_secs(60)),
        Part::Tool => ("a tool", Duration::from_secs(60)),
        Part::Commit => ("a commit", Duration::from_secs(5)),
    };
    (elapsed > limit).then_some(name)
}

#[cfg(test)]
mod tests {
    use super::{Part, slow};
    use std::time::Duration;

    #[test]
    fn parts_over_their_limit_are_slow() {
        for (part, limit) in [(Part::ModelCall, 60), (Part::Tool, 60), (Part::Commit, 5)] {
            let limit = Duration::from_secs(limit);
            assert_eq!(slow(part, limit), None, "{part:?}");
            assert!(slow(part, limit + Duration::from_millis(1)).is_some(), "{part:?}");
        }
    }
}
