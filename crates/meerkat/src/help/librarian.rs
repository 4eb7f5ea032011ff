//! Answers to questions about Meerkat where there is no model to give them: the reference itself, where it is
//! nearest to the question.

use meerkat_core::{
    Answer, AssistantBlock, BoxFuture, Content, Delta, DeltaSink, Extent, Message, Model, ModelError,
    ModelInfo, ModelRequest, Provider, StopReason, Usage,
};

use super::nearest::{Passage, nearest, passages};
use super::{QUESTION, reference};

/// The id of the model that looks the answer up.
pub(crate) const LIBRARIAN_ID: &str = "offline-help";

/// Looks answers up in the reference.
pub(crate) struct Librarian {
    info: ModelInfo,
}

impl Librarian {
    pub(crate) fn new() -> Self {
        Self { info: ModelInfo::new(LIBRARIAN_ID, Provider::Other) }
    }
}

impl Model for Librarian {
    fn info(&self) -> &ModelInfo {
        &self.info
    }

    fn ask<'a>(
        &'a self,
        request: &'a ModelRequest,
        deltas: DeltaSink<'a>,
    ) -> BoxFuture<'a, Result<Answer, ModelError>> {
        Box::pin(async move {
            let said = request.messages.iter().rev().find_map(|message| match &**message {
                Message::User { content, .. } => Some(Content::to_text(content)),
                _ => None,
            });
            let text = answer(question(&said.unwrap_or_default()));
            deltas(Delta::Text(text.clone()));
            Ok(Answer {
                blocks: vec![AssistantBlock::Text { text, meta: None }],
                stop_reason: StopReason::EndTurn,
                extent: Extent::Whole,
                usage: Usage::default(),
            })
        })
    }
}

/// Takes the question out of what was written around it.
fn question(prompt: &str) -> &str {
    let rest = prompt.strip_prefix(QUESTION).unwrap_or(prompt);
    rest.rsplit_once("\n\nThe time is ").map_or(rest, |(question, _)| question)
}

fn answer(question: &str) -> String {
    let parts: Vec<Passage> = reference().iter().flat_map(|text| passages(text)).collect();
    let found = nearest(question, &parts);
    let opening = "There is no API key, so no model answers this.";
    if found.is_empty() {
        let mut headings: Vec<_> = parts.iter().map(|part| part.heading.as_str()).collect();
        headings.dedup();
        return format!(
            "{opening} Nothing in the reference is near the question. It is about: {}.",
            headings.join(", ")
        );
    }
    let mut text = format!("{opening} These parts of the reference are nearest to the question:");
    let mut heading = "";
    for part in found {
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
    fn questions_that_people_ask_lead_to_the_place_that_answers_them() {
        let cases = [
            ("How do I resume a session?", "`meerkat_resume {session_id, prompt}` goes on"),
            ("Which environment variable holds my API key?", "`ANTHROPIC_API_KEY`"),
            ("What does SESSION_BUSY mean?", "A second gets `SESSION_BUSY`"),
            ("What are the exit codes of rkat?", "Exit codes: 0 done"),
            ("How can I give the agent my own tools?", "Callback tools"),
            ("How do I limit the tokens of a run?", "`budget_limits`"),
        ];
        for (question, expected) in cases {
            let found = answer(question);
            assert!(found.contains(expected), "{question}\n{found}");
        }
    }

    #[test]
    fn a_question_about_something_else_gets_a_list_of_what_there_is() {
        let found = answer("Zymurgy?");
        let opening = "There is no API key, so no model answers this. Nothing in the reference is near the question. It is \
            about: Meerkat, Sessions, Tools of the MCP server, ";
        assert!(found.starts_with(opening) && found.ends_with(", Command line."), "{found}");
    }

    #[test]
    fn the_question_is_found_in_what_is_written_around_it() {
        let prompt = "Question: How?\n\nThe time is 1970-01-01T00:00:00Z (UTC). Explain; do not plan.";
        assert_eq!((question(prompt), question("And then?")), ("How?", "And then?"));
    }
}
