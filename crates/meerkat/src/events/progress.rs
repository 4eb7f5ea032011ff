//! Short status lines about the progress of a run.

use meerkat_core::{AgentEvent, BudgetType};

/// Maximum length of a name or an error message, in characters.
const MAX_CHARS: usize = 80;

/// Returns a short status line for a run after this event, or `None` if the event does not change the status.
#[must_use]
pub fn describe_progress(event: &AgentEvent) -> Option<String> {
    Some(match event {
        AgentEvent::RunStarted { .. } => "starting".to_owned(),
        AgentEvent::TurnStarted { turn_number } => {
            format!("calling the model, step {}", turn_number.saturating_add(1))
        }
        AgentEvent::ReasoningDelta { .. } => "thinking".to_owned(),
        AgentEvent::TextDelta { .. } => "writing the answer".to_owned(),
        AgentEvent::ServerToolContent { name, .. } => format!("the provider used {}", short(name)),
        AgentEvent::AssistantImageAppended { .. } => "generated an image".to_owned(),
        AgentEvent::ToolExecutionStarted { name, .. } => format!("running {}", short(name)),
        AgentEvent::ToolExecutionCompleted { name, is_error: false, .. } => {
            format!("{} is done", short(name))
        }
        AgentEvent::ToolExecutionCompleted { name, is_error: true, .. } => format!("{} failed", short(name)),
        AgentEvent::ToolExecutionTimedOut { name, .. } => format!("{} took too long", short(name)),
        AgentEvent::CompactionStarted { .. } => "summarizing the conversation so far".to_owned(),
        AgentEvent::Retrying { delay_ms, error, .. } => {
            format!("retrying in {}: {}", span(*delay_ms), short(error))
        }
        AgentEvent::BudgetWarning { budget_type, percent, .. } => {
            format!("{:.0} % of the {} budget is used", percent * 100.0, budget(*budget_type))
        }
        AgentEvent::RunCompleted { extraction_required: true, .. } => {
            "requesting the structured output".to_owned()
        }
        AgentEvent::HookStarted { hook_id, .. } => format!("running hook {}", short(hook_id)),
        AgentEvent::SkillsResolved { skills, .. } => format!("read {} skills", skills.len()),
        AgentEvent::InteractionCallbackPending { tool_name, .. } => {
            format!("waiting for the result of {}", short(tool_name))
        }
        AgentEvent::BackgroundJobCompleted { display_name, .. } => format!("{} ended", short(display_name)),
        _ => return None,
    })
}

/// Returns the first line of a text, truncated.
fn short(text: &str) -> String {
    let line = text.trim().lines().next().unwrap_or_default();
    let mut short: String = line.chars().take(MAX_CHARS).collect();
    if short.len() < line.len() {
        short.push('…');
    }
    short
}

fn span(ms: u64) -> String {
    if ms < 1000 { format!("{ms} ms") } else { format!("{} s", ms.div_ceil(1000)) }
}

const fn budget(kind: BudgetType) -> &'static str {
    match kind {
        BudgetType::Tokens => "token",
        BudgetType::Time => "time",
        BudgetType::ToolCalls => "tool call",
        BudgetType::Cost => "cost",
    }
}

#[cfg(test)]
mod tests {
    use meerkat_core::{Content, SessionId, Usage};
    use serde_json::json;
    use uuid::Uuid;

    use super::*;

    #[test]
    fn events_map_to_status_lines() {
        let session_id = SessionId::from_uuid(Uuid::nil());
        let tool = || "shell".to_owned();
        let retrying = |error: &str, delay_ms| AgentEvent::Retrying {
            attempt: 1,
            max_attempts: 3,
            error: error.to_owned(),
            delay_ms,
            retry: None,
        };
        let completed = |extraction_required| AgentEvent::RunCompleted {
            session_id,
            result: "done".to_owned(),
            structured_output: None,
            extraction_required,
            usage: Usage::default(),
            terminal_cause_kind: None,
        };
        let ended = |is_error| AgentEvent::ToolExecutionCompleted {
            id: "c1".to_owned(),
            name: tool(),
            result: String::new(),
            content: Vec::new(),
            is_error,
            duration_ms: 1,
        };
        let cases = [
            (AgentEvent::RunStarted { session_id, prompt: Content::text("hi") }, Some("starting")),
            (AgentEvent::TurnStarted { turn_number: 1 }, Some("calling the model, step 2")),
            (AgentEvent::ReasoningDelta { delta: "hm".to_owned() }, Some("thinking")),
            (AgentEvent::TextDelta { delta: "so".to_owned() }, Some("writing the answer")),
            (AgentEvent::TextComplete { content: "so".to_owned() }, None),
            (AgentEvent::ToolExecutionStarted { id: "c1".to_owned(), name: tool() }, Some("running shell")),
            (ended(false), Some("shell is done")),
            (ended(true), Some("shell failed")),
            (
                AgentEvent::ToolExecutionTimedOut { id: "c1".to_owned(), name: tool(), timeout_ms: 5 },
                Some("shell took too long"),
            ),
            (retrying("rate limited", 2_500), Some("retrying in 3 s: rate limited")),
            (retrying("no answer\nsecond line", 500), Some("retrying in 500 ms: no answer")),
            (
                AgentEvent::BudgetWarning {
                    budget_type: BudgetType::Tokens,
                    used: 8,
                    limit: 10,
                    percent: 0.8,
                },
                Some("80 % of the token budget is used"),
            ),
            (completed(true), Some("requesting the structured output")),
            (completed(false), None),
            (
                AgentEvent::InteractionCallbackPending {
                    interaction_id: "r".to_owned(),
                    tool_name: "read_file".to_owned(),
                    args: json!({}),
                },
                Some("waiting for the result of read_file"),
            ),
        ];
        for (event, expected) in cases {
            assert_eq!(describe_progress(&event).as_deref(), expected, "{event:?}");
        }
    }

    #[test]
    fn long_names_are_truncated() {
        let name = "é".repeat(500);
        let status =
            describe_progress(&AgentEvent::ToolExecutionStarted { id: String::new(), name }).unwrap();
        assert_eq!(status, format!("running {}…", "é".repeat(80)));
    }
}
