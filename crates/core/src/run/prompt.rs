//! What a run itself says to the model. Nothing else here puts words into a request.

use std::sync::Arc;

use crate::compact::Carried;
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
        "Summarize the conversation so far for whoever continues it without having seen it. Cover what was asked, \
         what has been done and decided, constraints and preferences, file paths, names and other data that will \
         be needed, which tools worked or failed and how, and what remains to be done. Be brief and concrete.",
        at,
    )
}

/// Stands for the messages that were summarized.
pub(super) fn summary(text: &str, carried: &Carried, at: Timestamp) -> Arc<Message> {
    let (mark, carried) = (Compaction::MARK, word_for_word(carried));
    notice(format!("{mark} What came before, in short:\n\n{}{carried}", text.trim()), at)
}

/// Stands for messages that were left out without a summary.
pub(super) fn dropped(count: u64, carried: &Carried, at: Timestamp) -> Arc<Message> {
    let (mark, carried) = (Compaction::MARK, word_for_word(carried));
    let what = format!("The oldest {count} messages were left out; no summary of them could be made.");
    notice(format!("{mark} {what}{carried}"), at)
}

/// What came before and still holds word for word.
fn word_for_word(Carried { texts, left_out }: &Carried) -> String {
    let mut section = String::new();
    if !texts.is_empty() {
        section.push_str("\n\nWhat follows was given before and still holds, word for word:\n\n");
        section.push_str(&texts.join("\n\n"));
    }
    if !left_out.is_empty() {
        section.push_str("\n\nThere was no room for the following; read it again before you rely on it: ");
        section.push_str(&left_out.join(", "));
    }
    section
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
/// Says that nobody approved a call in time.
pub(super) const TOO_LATE: &str = "not run: nobody approved it in time";
/// Says that somebody denied a call.
pub(super) const DENIED: &str = "not run: the user did not approve it";
/// Says that a budget left no room for a call.
pub(super) const NO_BUDGET: &str = "not run: the run's budget is used up";
