//! The run's own messages to the model. Nothing else in this crate adds text to a request.

use std::sync::Arc;

use crate::compact::CarriedOver;
use crate::{AssistantBlock, Compaction, Content, Message, NoticeKind, StopReason, Timestamp};

/// Maximum length of a quotation of the model's own output, in characters.
const MAX_QUOTE: usize = 2000;

fn user(text: impl Into<String>, at: Timestamp) -> Arc<Message> {
    Arc::new(Message::User { content: Content::text(text), created_at: at })
}

/// Requests the structured output, with the user's own prompt if there is one.
pub(super) fn extraction(custom: Option<&str>, at: Timestamp) -> Arc<Message> {
    const DEFAULT: &str = "Give the result of the conversation above as one JSON value that matches the required \
                        schema. Reply with the JSON alone: no explanation, no code fence.";
    user(custom.unwrap_or(DEFAULT), at)
}

/// Requests the structured output again, with the reason why it was invalid.
pub(super) fn extraction_retry(reason: &str, at: Timestamp) -> Arc<Message> {
    let reason: String = reason.chars().take(MAX_QUOTE).collect();
    user(
        format!("That does not match the schema: {reason}\nReply again with the corrected JSON value alone."),
        at,
    )
}

/// Requests a summary of the conversation.
pub(super) fn summary_request(at: Timestamp) -> Arc<Message> {
    user(
        "Summarize the conversation so far for someone who continues it without having seen it. Cover what was \
         asked, what has been done and decided, constraints and preferences, file paths, names, and other data \
         that will be needed, which tools worked or failed and how, and what remains to be done. Be brief and \
         concrete.",
        at,
    )
}

/// Replaces the messages that were summarized.
pub(super) fn summary(text: &str, carried: &CarriedOver, at: Timestamp) -> Arc<Message> {
    let (mark, carried) = (Compaction::MARK, verbatim_section(carried));
    notice(format!("{mark} Summary of the conversation so far:\n\n{}{carried}", text.trim()), at)
}

/// Replaces messages that were dropped without a summary.
pub(super) fn dropped(count: u64, carried: &CarriedOver, at: Timestamp) -> Arc<Message> {
    let (mark, carried) = (Compaction::MARK, verbatim_section(carried));
    let what = format!("The oldest {count} messages were omitted; they could not be summarized.");
    notice(format!("{mark} {what}{carried}"), at)
}

/// Formats the texts that still apply verbatim.
fn verbatim_section(CarriedOver { texts, omitted: left_out }: &CarriedOver) -> String {
    let mut section = String::new();
    if !texts.is_empty() {
        section.push_str("\n\nThe following was provided earlier and still applies verbatim:\n\n");
        section.push_str(&texts.join("\n\n"));
    }
    if !left_out.is_empty() {
        section.push_str("\n\nThese did not fit; read them again before relying on them: ");
        section.push_str(&left_out.join(", "));
    }
    section
}

/// Creates a response that was cut short by an interrupt.
pub(super) fn cancelled_message(blocks: Vec<AssistantBlock>, created_at: Timestamp) -> Arc<Message> {
    Arc::new(Message::Assistant { blocks, stop_reason: StopReason::Cancelled, created_at })
}

fn notice(body: String, at: Timestamp) -> Arc<Message> {
    Arc::new(Message::SystemNotice { kind: NoticeKind::Generic, body, created_at: at })
}

/// Result of a tool call that was cut off.
pub(super) const INTERRUPTED: &str = "interrupted; may have taken effect";
/// Result of a tool call that never started.
pub(super) const NOT_STARTED: &str = "interrupted before it started; it had no effect";
/// Result of a call that the caller abandoned for new input.
pub(super) const SUPERSEDED: &str = "superseded by new input";
/// Result of a call that was not approved in time.
pub(super) const APPROVAL_TIMED_OUT: &str = "not run: approval timed out";
/// Result of a call that was denied.
pub(super) const DENIED: &str = "not run: the user did not approve it";
/// Result of a call that exceeded a budget.
pub(super) const NO_BUDGET: &str = "not run: the run's budget is exhausted";
