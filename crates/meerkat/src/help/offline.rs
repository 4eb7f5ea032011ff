//! Offline answers to questions about Meerkat: the parts of the reference that best match the question.

use meerkat_core::{
    AssistantBlock, BoxFuture, Content, Delta, DeltaSink, Message, Model, ModelError, ModelInfo,
    ModelRequest, ModelResponse, Provider, ResponseStatus, StopReason, Usage,
};

use super::search::{Passage, nearest, passages};
use super::{QUESTION, reference};

/// Id of the model that answers from the reference.
pub(crate) const OFFLINE_HELP_ID: &str = "offline-help";

/// Model that answers questions from the reference.
pub(crate) struct OfflineHelp {
    info: ModelInfo,
}

impl OfflineHelp {
    pub(crate) fn new() -> Self {
        Self { info: ModelInfo::new(OFFLINE_HELP_ID, Provider::Other) }
    }
}

impl Model for OfflineHelp {
    fn info(&self) -> &ModelInfo {
        &self.info
    }

    fn generate<'a>(
        &'a self,
        request: &'a ModelRequest,
        deltas: DeltaSink<'a>,
    ) -> BoxFuture<'a, Result<ModelResponse, ModelError>> {
        Box::pin(async move {
            let prompt = request.messages.iter().rev().find_map(|message| match &**message {
                Message::User { content, .. } => Some(Content::to_text(content)),
                _ => None,
            });
            let text = answer(question(&prompt.unwrap_or_default()));
            deltas(Delta::Text(text.clone()));
            Ok(ModelResponse {
                blocks: vec![AssistantBlock::Text { text, meta: None }],
                stop_reason: StopReason::EndTurn,
                extent: ResponseStatus::Complete,
                usage: Usage::default(),
            })
        })
    }
}

/// Extracts the question from its prompt.
fn question(prompt: &str) -> &str {
    let rest = prompt.strip_prefix(QUESTION).unwrap_or(prompt);
    rest.rsplit_once("\n\nThe time is ").map_or(rest, |(question, _)| question)
}

fn answer(question: &str) -> String {
    let parts: Vec<Passage> = reference().iter().flat_map(|text| passages(text)).collect();
    let matches = nearest(question, &parts);
    let opening = "No API key is set, so no model can answer this.";
    if matches.is_empty() {
        let mut headings: Vec<_> = parts.iter().map(|part| part.heading.as_str()).collect();
        headings.dedup();
        return format!(
            "{opening} Nothing in the reference matches the question. It covers: {}.",
            headings.join(", ")
        );
    }
    let mut text = format!("{opening} These parts of the reference best match the question:");
    let mut heading = "";
    for part in matches {
        if part.heading != heading {
            heading = &part.heading;
            text.push_str(&format!("\n\n## {heading}"));
        }
        text.push_str("\n\n");
        text.push_str(&part.text);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn common_questions_find_the_right_passage() {
        let cases = [
            ("How do I resume a session?", "`meerkat_resume {session_id, prompt}` continues it"),
            ("Which environment variable holds my API key?", "`ANTHROPIC_API_KEY`"),
            ("What does SESSION_BUSY mean?", "A second gets `SESSION_BUSY`"),
            ("What are the exit codes of rkat?", "Exit codes: 0 success"),
            ("How can I give the agent my own tools?", "Callback tools"),
            ("How do I limit the tokens of a run?", "`budget_limits`"),
        ];
        for (question, expected) in cases {
            let text = answer(question);
            assert!(text.contains(expected), "{question}\n{text}");
        }
    }

    #[test]
    fn unrelated_question_lists_the_headings() {
        let text = answer("Zymurgy?");
        let opening = "No API key is set, so no model can answer this. Nothing in the reference matches the question. \
            It covers: Meerkat, Sessions, Tools of the MCP server, ";
        assert!(text.starts_with(opening) && text.ends_with(", Command line."), "{text}");
    }

    #[test]
    fn question_is_extracted_from_its_prompt() {
        let prompt = "Question: How?\n\nThe time is 1970-01-01T00:00:00Z (UTC). Explain; do not plan.";
        assert_eq!((question(prompt), question("And then?")), ("How?", "And then?"));
    }
}
