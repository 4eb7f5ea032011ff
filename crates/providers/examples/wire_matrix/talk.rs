//! Conversations in which the model changes, with the data that each model adds to the history.

use std::sync::Arc;

use meerkat_core::{Message, ModelRequest, ModelResponse};
use meerkat_fetch::Http;
use serde_json::Value;

use crate::wires::Wire;
use crate::words::{AT, ask, image_block, media_result, results, text_result, tools, user, words};

/// The wires to switch between.
const SIDES: [Wire; 5] =
    [Wire::Anthropic2023, Wire::Anthropic2026, Wire::Responses, Wire::OwnChat, Wire::GeminiBeta];

/// Point at which the model changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Change {
    /// Between two user messages.
    BetweenTurns,
    /// Between a call and the response to its result.
    InsideTurns,
}

/// A conversation with several models in sequence.
pub(crate) struct Talk {
    change: Change,
    wires: Vec<Wire>,
}

/// All conversations: every single change, and full rounds.
pub(crate) fn talks() -> Vec<Talk> {
    let pairs = SIDES.iter().flat_map(|from| SIDES.iter().map(|to| vec![*from, *to]));
    let pairs = pairs.filter(|pair| pair[0] != pair[1] && !pair.iter().all(|wire| wire.is_anthropic()));
    let round = |claude| vec![claude, Wire::Responses, Wire::GeminiBeta, claude];
    let rounds = [round(Wire::Anthropic2023), round(Wire::Anthropic2026), Wire::ALL.to_vec()];
    let all = pairs.chain(rounds);
    let both = |wires: Vec<Wire>| {
        [Change::BetweenTurns, Change::InsideTurns].map(|change| Talk { change, wires: wires.clone() })
    };
    all.flat_map(both).collect()
}

impl Talk {
    /// Returns the names of its cases, one for each model in turn.
    pub(crate) fn names(&self) -> Vec<String> {
        let change = match self.change {
            Change::BetweenTurns => "turns",
            Change::InsideTurns => "steps",
        };
        let all: Vec<_> = self.wires.iter().map(|wire| wire.name()).collect();
        let name = |(at, wire): (usize, &&str)| format!("{change}.{}.{}-{wire}", all.join("+"), at + 1);
        all.iter().enumerate().map(name).collect()
    }

    /// Runs the conversation; returns `CASE: reason` for each failure.
    pub(crate) async fn run(&self, base_url: &str, http: &Http) -> Vec<String> {
        let mut history = Vec::new();
        let mut failures = Vec::new();
        for (at, (wire, name)) in self.wires.iter().zip(self.names()).enumerate() {
            let outcome = match self.change {
                Change::BetweenTurns => turn(*wire, &format!("{base_url}/{name}"), http, &mut history).await,
                Change::InsideTurns => {
                    if at == 0 {
                        history.push(user("look around"));
                    }
                    step(*wire, &format!("{base_url}/{name}"), http, &mut history).await
                }
            };
            failures.extend(outcome.err().map(|reason| format!("{name}: {reason}")));
        }
        failures
    }
}

/// Runs one user message: the model calls tools, reads the results, and answers.
async fn turn(wire: Wire, base_url: &str, http: &Http, history: &mut Vec<Message>) -> Result<(), String> {
    history.push(user("look around"));
    step(wire, base_url, http, history).await?;
    if !matches!(history.last(), Some(Message::ToolResults { .. })) {
        return Err("no tool was called".to_owned());
    }
    step(wire, base_url, http, history).await
}

/// Calls the model once, and adds the results of its tool calls.
async fn step(wire: Wire, base_url: &str, http: &Http, history: &mut Vec<Message>) -> Result<(), String> {
    let request = ModelRequest {
        tools: tools(),
        provider_params: Some(Arc::new(merged(wire.thinking(), wire.search()))),
        ..ask(history.clone())
    };
    let answer = wire.model(base_url, http).generate(&request, &|_| {}).await;
    let ModelResponse { blocks, stop_reason, .. } = answer.map_err(|failure| failure.to_string())?;
    let message = Message::Assistant { blocks, stop_reason, created_at: AT };
    let calls = message.tool_calls();
    history.push(message);
    if !calls.is_empty() {
        let image = vec![words("an image"), image_block("image/png")];
        let result = |(at, id): (usize, String)| {
            if at == 0 { text_result(&id, "some text") } else { media_result(&id, image.clone()) }
        };
        history.push(results(calls.into_iter().map(|call| call.id).enumerate().map(result).collect()));
    }
    Ok(())
}

fn merged(mut one: Value, other: Value) -> Value {
    if let (Value::Object(one), Value::Object(other)) = (&mut one, other) {
        one.extend(other);
    }
    one
}
