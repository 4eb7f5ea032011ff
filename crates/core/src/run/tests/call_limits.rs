//! The limit on model calls applies to steps, summaries, and structured output.

use super::world::{Bench, Durable, Waiting, answer, compaction, model_error, prompt, settings, text};
use crate::run::{Input, Outcome, RunReport, RunSettings};
use crate::{ModelErrorKind, TerminalCause, Usage};

fn invalid_output() -> Input {
    Input::Extracted { text: "x".to_owned(), usage: Usage::default(), verdict: Err("no JSON".to_owned()) }
}

/// A session whose history is long enough to be compacted.
fn long_session() -> Durable {
    let long = "word ".repeat(60);
    let mut bench = Bench::new(settings(), Durable::default(), prompt(&long));
    bench.go();
    bench.feed(answer(vec![text(&long)]));
    bench.durable
}

fn compacting(max_steps: u32) -> Bench {
    let settings = RunSettings { compaction: Some(compaction()), max_steps, ..settings() };
    Bench::new(settings, long_session(), prompt("and now?"))
}

#[test]
fn turns_count_the_call_for_a_summary() {
    let mut bench = compacting(8);
    bench.go();
    assert_eq!(bench.feed(answer(vec![text("so far so good")])), Waiting::Model);
    assert_eq!(bench.feed(answer(vec![text("done")])), Waiting::End);
    assert!(bench.event_types().contains(&"compaction_completed".to_owned()));
    assert_eq!(bench.report.map(|report| report.steps), Some(2));
}

#[test]
fn summary_never_takes_the_last_call() {
    let mut bench = compacting(1);
    bench.go();
    assert_eq!(bench.feed(answer(vec![text("done")])), Waiting::End);
    assert!(!bench.event_types().contains(&"compaction_started".to_owned()));
    let report = bench.report.expect("the run ended");
    assert!(matches!(report, RunReport { steps: 1, outcome: Outcome::Completed(_), .. }), "{report:?}");

    let mut bench = compacting(1);
    bench.go();
    let overflow = || Input::Failed(model_error(ModelErrorKind::ContextOverflow));
    assert_eq!(bench.feed(overflow()), Waiting::Model, "a shorter request instead of a summary");
    assert!(!bench.event_types().contains(&"compaction_started".to_owned()));
}

#[test]
fn call_limit_bounds_extraction() {
    let settings = RunSettings { max_steps: 3, extraction_retries: Some(10_000), ..settings() };
    let mut bench = Bench::new(settings, Durable::default(), prompt("go"));
    bench.go();
    assert_eq!(bench.feed(answer(vec![text("the answer")])), Waiting::Extraction);
    assert_eq!(bench.feed(invalid_output()), Waiting::Extraction);
    assert_eq!(bench.feed(invalid_output()), Waiting::End);
    let report = bench.report.expect("the run ended");
    let Outcome::Completed(done) = report.outcome else { panic!("{report:?}") };
    let error = done.extraction_error.expect("the extraction failed");
    assert_eq!(
        (report.steps, done.text.as_str(), done.cause),
        (3, "the answer", Some(TerminalCause::TurnLimitReached))
    );
    assert_eq!((error.attempts, error.reason.as_str()), (2, "the run reached its limit of 3 model calls"));
}

#[test]
fn extraction_needs_a_separate_call() {
    let settings = RunSettings { max_steps: 1, extraction_retries: Some(2), ..settings() };
    let mut bench = Bench::new(settings, Durable::default(), prompt("go"));
    bench.go();
    assert_eq!(bench.feed(answer(vec![text("the answer")])), Waiting::End);
    let Some(Outcome::Completed(done)) = bench.report.map(|report| report.outcome) else {
        panic!("completed")
    };
    let error = done.extraction_error.expect("the extraction failed");
    assert_eq!((error.attempts, error.reason.as_str()), (0, "the run reached its limit of 1 model calls"));
}
