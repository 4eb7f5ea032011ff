//! Randomized tests of the machine: any responses, any order of results, failures, interrupts, and crashes.

use std::collections::BTreeSet;
use std::sync::Arc;

use proptest::prelude::*;
use serde_json::json;

use super::world::{Durable, answer, call, compaction, model_error, paused, prompt, settings, text, tools};
use crate::run::{Effect, Input, ModelTask, Outcome, Run, RunInput, RunSettings, Stop, StoredCall};
use crate::{
    Approval, ApprovalRequest, AssistantBlock, BudgetLimits, Content, Decision, Denial, DenialKind,
    HookPoint, HookPoints, HookReason, Message, ModelErrorKind, Timestamp, ToolOutput, ToolResult, ToolRoute,
    Usage,
};

/// Random decisions; once they run out, every operation succeeds.
struct Tape(std::vec::IntoIter<u8>);

impl Tape {
    fn pick(&mut self, of: u8) -> u8 {
        self.0.next().map_or(0, |byte| byte % of)
    }

    fn blocks(&mut self) -> Vec<AssistantBlock> {
        let kinds = [1, 1, 2, 3, 4][self.pick(5) as usize];
        let mut blocks = Vec::new();
        for index in 0..kinds {
            blocks.push(match self.pick(10) {
                0 => text("some words of an answer"),
                1 | 2 => call(&format!("c{index}"), "alpha"),
                3 => call("same", "beta"),
                4 => call(&format!("c{index}"), "ask_user"),
                5 => call("", "no_such_tool"),
                6 => text(""),
                7 => call(&format!("c{index}"), "erase"),
                8 => AssistantBlock::Reasoning { text: "hm".to_owned(), meta: None },
                _ => AssistantBlock::ToolUse {
                    id: "odd".to_owned(),
                    name: "alpha".to_owned(),
                    args: json!([1]),
                    meta: None,
                },
            });
        }
        blocks
    }

    fn error(&mut self) -> ModelErrorKind {
        use ModelErrorKind as K;
        [K::Overloaded, K::StreamCut, K::ContextOverflow, K::BadRequest, K::Auth, K::Incomplete]
            [self.pick(6) as usize]
    }
}

/// Operations that were started and are not complete.
#[derive(Default)]
struct Flight {
    ask: Option<ModelTask>,
    tools: Vec<String>,
    resting: bool,
    consulting: bool,
    vetting: Option<Vec<String>>,
}

enum Ended {
    Report(Outcome),
    /// Denied before anything happened.
    Denied,
    Crash,
}

struct Session {
    durable: Durable,
    tape: Tape,
    executed: BTreeSet<(usize, String)>,
}

impl Session {
    /// Drives one run to its end or to a crash, and checks every invariant on the way.
    fn run(&mut self, settings: RunSettings, input: RunInput) -> Ended {
        let now = Timestamp::UNIX_EPOCH;
        let opening = self.durable.open(input).expect("a session can always be opened");
        let limit = settings.max_steps;
        let mut run = Run::new(settings, self.durable.transcript(), self.durable.progress, opening, now);
        let earlier = self.durable.clone();
        let mut flight = Flight::default();
        let (mut opened, mut committed_end) = (false, false);
        for _ in 0..2000 {
            match run.next() {
                Effect::Emit(_) => {}
                Effect::Commit(commit) => {
                    assert!(!committed_end, "nothing is committed after the end");
                    if self.tape.pick(40) == 39 {
                        return Ended::Crash;
                    }
                    if self.tape.pick(60) == 59 {
                        run.feed(now, Input::Committed(Err("no".to_owned())));
                        continue;
                    }
                    let before = self.durable.messages.clone();
                    self.durable.apply(&commit);
                    self.durable.check();
                    let is_kept = self.durable.messages.iter().zip(&before).all(|(a, b)| Arc::ptr_eq(a, b));
                    assert!(is_kept, "commits are kept");
                    (opened, committed_end) = (true, commit.ends);
                    self.durable.check_separation(&earlier);
                    if self.tape.pick(40) == 38 {
                        return Ended::Crash;
                    }
                    if self.tape.pick(30) == 29 {
                        run.feed(now, Input::stop(Stop::Interrupt));
                    }
                    if let Some(id) = flight.tools.first().cloned().filter(|_| self.tape.pick(10) == 9) {
                        flight.tools.remove(0);
                        run.feed(now, done(id));
                    }
                    run.feed(now, Input::Committed(Ok(())));
                }
                Effect::Boundary(_) => run.feed(now, Input::Tools(tools())),
                Effect::CallModel(ask) => {
                    match &ask {
                        ModelTask::Step => {
                            Durable::check_asked(&run.transcript().context());
                            Durable::check_asked(&run.context(0));
                        }
                        ModelTask::Extract(asides) => {
                            Durable::check_asked(&[run.transcript().context(), asides.clone()].concat());
                        }
                        ModelTask::Summarize { messages, .. } => Durable::check_asked(messages),
                    }
                    flight.ask = Some(ask);
                }
                Effect::Start(calls) => {
                    for call in calls {
                        let started = |stored: &&StoredCall| {
                            stored.intent.id == call.id && stored.intent.route == ToolRoute::Local
                        };
                        assert!(
                            self.durable.calls.iter().any(|call| started(&call)),
                            "a call is durable before it is run"
                        );
                        let key = (self.durable.messages.len(), call.id.clone());
                        assert!(self.executed.insert(key), "a call is run once");
                        flight.tools.push(call.id);
                    }
                }
                Effect::RunHooks(invocation) => {
                    assert_eq!(opened, invocation.point != HookPoint::RunStarted, "{invocation:?}");
                    flight.consulting = true;
                }
                Effect::CheckCalls(calls) => {
                    flight.vetting = Some(calls.into_iter().map(|call| call.id).collect())
                }
                Effect::Sleep(_) => flight.resting = true,
                Effect::Stop(stop) => run.feed(now, Input::stop(stop)),
                Effect::CancelAll => flight = Flight::default(),
                Effect::Wait => {
                    let input = self.next_input(&mut flight);
                    run.feed(now, input);
                }
                Effect::End(report) => {
                    assert!(report.steps <= limit, "a run makes at most {limit} calls: {report:?}");
                    let stored =
                        matches!(&report.outcome, Outcome::Failed(f) if f.class == crate::ErrorClass::Store);
                    assert!(committed_end || stored || !opened, "an end is durable before it is reported");
                    return if !opened && !stored { Ended::Denied } else { Ended::Report(report.outcome) };
                }
            }
        }
        panic!("the run does not end");
    }

    fn next_input(&mut self, flight: &mut Flight) -> Input {
        let chance = self.tape.pick(24);
        if chance > 21 {
            let stop = if chance == 23 { Stop::Interrupt } else { Stop::Deadline };
            let partial = ["", "some words of", "\n"][self.tape.pick(3) as usize];
            return Input::Stop { stop, partial: partial.to_owned() };
        }
        if chance == 21 {
            return done("unknown".to_owned());
        }
        if !flight.tools.is_empty() {
            let index = self.tape.pick(flight.tools.len() as u8) as usize;
            return done(flight.tools.remove(index));
        }
        if std::mem::take(&mut flight.resting) {
            return Input::SleepElapsed;
        }
        if std::mem::take(&mut flight.consulting) {
            return Input::HooksFinished(if self.tape.pick(8) == 7 { Err(denial()) } else { Ok(()) });
        }
        if let Some(calls) = flight.vetting.take() {
            let denied = calls.into_iter().filter(|_| self.tape.pick(3) == 2);
            return Input::CallsChecked(denied.map(|id| (id, denial().output())).collect());
        }
        match flight.ask.take().expect("the machine waits for something") {
            _ if chance > 17 => Input::Failed(model_error(self.tape.error())),
            ModelTask::Extract(_) => {
                let verdict = if self.tape.pick(2) == 0 { Ok(json!({})) } else { Err("no".to_owned()) };
                Input::Extracted { text: "{}".to_owned(), usage: Usage::default(), verdict }
            }
            ModelTask::Step | ModelTask::Summarize { .. } if self.tape.pick(6) == 5 => {
                paused(self.tape.blocks())
            }
            ModelTask::Step | ModelTask::Summarize { .. } => answer(self.tape.blocks()),
        }
    }

    /// Checks the invariants between two runs.
    fn check_idle(&self, ended: &Ended) {
        self.durable.check();
        let waiting = |route: ToolRoute| -> Vec<_> {
            let waits = |call: &&StoredCall| call.intent.route == route && call.result.is_none();
            self.durable.calls.iter().filter(waits).map(|call| call.intent.id.clone()).collect()
        };
        match ended {
            Ended::Report(Outcome::Pending(pending)) => {
                let calls: Vec<_> = pending.calls.iter().map(|call| call.id.clone()).collect();
                let awaited: Vec<_> =
                    pending.approvals.iter().map(|awaited| awaited.call.id.clone()).collect();
                assert!(!calls.is_empty() || !awaited.is_empty());
                assert_eq!(calls, waiting(ToolRoute::Callback));
                assert_eq!(awaited, waiting(ToolRoute::Approval));
            }
            Ended::Report(Outcome::Failed(f)) if f.class == crate::ErrorClass::Store => {}
            Ended::Report(outcome) => {
                assert!(self.durable.calls.is_empty(), "a completed run leaves no open calls");
                let last = self.durable.messages.last().map(|message| &**message);
                let is_open = matches!(last, Some(Message::User { .. }));
                assert!(!is_open || *outcome != Outcome::Cancelled, "an interrupted prompt has a response");
            }
            Ended::Denied | Ended::Crash => {}
        }
    }

    fn next_run_input(&mut self, ended: &Ended) -> RunInput {
        let Ended::Report(Outcome::Pending(pending)) = ended else {
            return prompt("and then?");
        };
        if self.tape.pick(3) == 2 {
            return prompt("something else");
        }
        let result = |call: &crate::ToolCall| ToolResult {
            tool_use_id: call.id.clone(),
            content: Content::text("from outside"),
            is_error: false,
        };
        let mut decide = |awaited: &ApprovalRequest| {
            let decision = if self.tape.pick(4) == 3 { Decision::Deny(None) } else { Decision::Approve };
            Approval { call: awaited.call.id.clone(), expires_at: Some(awaited.expires_at), decision }
        };
        RunInput {
            prompt: Content::default(),
            results: pending.calls.iter().rev().map(result).collect(),
            approvals: pending.approvals.iter().rev().map(&mut decide).collect(),
        }
    }
}

fn denial() -> Denial {
    Denial {
        hook_id: "guard".to_owned(),
        point: HookPoint::TurnBoundary,
        kind: DenialKind::Denied,
        reason_code: HookReason::PolicyViolation,
        message: "no".to_owned(),
        payload: None,
    }
}

fn any_hooks() -> impl Strategy<Value = HookPoints> {
    use HookPoint as P;
    let all = [
        P::RunStarted,
        P::PreLlmRequest,
        P::PostLlmResponse,
        P::PreToolExecution,
        P::TurnBoundary,
        P::RunCompleted,
    ];
    prop_oneof![
        Just(HookPoints::default()),
        prop::collection::vec(prop::sample::select(all.to_vec()), 0..5).prop_map(|p| p.into_iter().collect()),
    ]
}

fn done(id: String) -> Input {
    Input::ToolDone { id, output: ToolOutput::text("fine"), duration_ms: 0 }
}

fn any_settings() -> impl Strategy<Value = RunSettings> {
    let budget = (prop::option::of(1u64..60), prop::option::of(0u32..6));
    (budget, prop::option::of(0u32..3), any::<bool>(), 1u32..8, any_hooks()).prop_map(
        |((max_tokens, max_tool_calls), extraction_retries, compacts, max_steps, hooks)| RunSettings {
            hooks,
            budget: BudgetLimits { max_tokens, max_tool_calls, ..BudgetLimits::default() },
            extraction_retries,
            compaction: compacts.then(compaction),
            max_steps,
            ..settings()
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 4000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_interleaving_leaves_session_resumable(
        settings in any_settings(),
        tape in prop::collection::vec(any::<u8>(), 0..400),
    ) {
        let mut session = Session {
            durable: Durable::default(),
            tape: Tape(tape.into_iter()),
            executed: BTreeSet::new(),
        };
        let mut input = prompt("begin");
        for _ in 0..5 {
            let ended = session.run(settings.clone(), input);
            session.check_idle(&ended);
            input = session.next_run_input(&ended);
        }
        let calm = RunSettings { budget: BudgetLimits::default(), extraction_retries: None, ..settings };
        session.tape = Tape(Vec::new().into_iter());
        let ended = session.run(calm, prompt("last"));
        let well = matches!(ended, Ended::Report(Outcome::Completed(_)));
        prop_assert!(well, "a run without failures succeeds afterwards");
        let last = session.durable.messages.last().map(|m| m.assistant_text().is_some());
        prop_assert_eq!(last, Some(true));
    }
}
