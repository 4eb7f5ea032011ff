//! What a run itself says to the model. Nothing else here puts words into a request.

use std::sync::Arc;

use crate::{Compaction, Content, Message, NoticeKind, Timestamp};

/// The longest quotation of a model's own output in a message back to it.
const QUOTE: usize = 2000;

fn user(text: impl Into<String>, at: Timestamp) -> Arc<Message> {
    Arc::new(Message::User { content: Content::text(text), created_at: at })
}

/// Asks for the structured output, in the user's own words if there are any.
pub(super) fn extraction(own: Option<&str>, at: Timestamp) -> Arc<Message> {
    const OURS: &str = "Give the result of the conversation above as one JSON value that fits the required schema. \
                        Reply with the JSON alone: no explanation, no code fence.";
    user(own.unwrap_or(OURS), at)
}

/// Asks for the structured output again and says what was wrong.
pub(super) fn extraction_again(reason: &str, at: Timestamp) -> Arc<Message> {
    let reason: String = reason.chars().take(QUOTE).collect();
    user(
        format!("That does not fit the schema: {reason}\nReply again with the corrected JSON value alone."),
        at,
    )
}

/// Asks for a summary of the conversation.
pub(super) fn summary_request(at: Timestamp) -> Arc<Message> {
    user(
        "Summarise the conversation so far for whoever continues it without having seen it. Cover what was asked, \
         what has been done and decided, constraints and preferences, file paths, names and other data that will \
         be needed, which tools worked or failed and how, and what remains to be done. Be brief and concrete.",
        at,
    )
}

/// Stands for the messages that were summarised; the skills among them stay whole.
pub(super) fn summary(text: &str, skills: &[String], at: Timestamp) -> Arc<Message> {
    let text = text.trim();
    notice(format!("{} What came before, in short:\n\n{text}{}", Compaction::MARK, kept(skills)), at)
}

fn kept(skills: &[String]) -> String {
    if skills.is_empty() {
        return String::new();
    }
    format!("\n\nThese skills still hold:\n\n{}", skills.join("\n\n"))
}

/// Stands for messages that were left out without a summary.
pub(super) fn dropped(count: u64, skills: &[String], at: Timestamp) -> Arc<Message> {
    notice(
        format!(
            "{} The oldest {count} messages were left out; no summary of them could be made.{}",
            Compaction::MARK,
            kept(skills)
        ),
        at,
    )
}

fn notice(body: String, at: Timestamp) -> Arc<Message> {
    Arc::new(Message::SystemNotice { kind: NoticeKind::Generic, body, created_at: at })
}

/// Says that a tool call was cut off.
pub(super) const INTERRUPTED: &str = "interrupted; may have taken effect";
/// Says that a tool call never began.
pub(super) const NOT_STARTED: &str = "interrupted before it started; it had no effect";
/// Says that the caller moved on.
pub(super) const SUPERSEDED: &str = "superseded by new input";
/// Says that a budget left no room for a call.
pub(super) const NO_BUDGET: &str = "not run: the run's budget is used up";
