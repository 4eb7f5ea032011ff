//! Extraction of memories from messages, and of search terms from questions.

use std::collections::BTreeSet;
use std::sync::Arc;

use meerkat_core::{ContentBlock, Message};
use meerkat_store::NewMemory;

/// Maximum number of bytes remembered per message.
const MAX_MEMORY_BYTES: usize = 64 * 1024;
/// Maximum number of search terms.
const MAX_WORDS: usize = 24;

/// Stop words: too common to narrow a search.
const COMMON: [&str; 48] = [
    "a", "about", "all", "an", "and", "any", "are", "as", "at", "be", "by", "can", "did", "do", "does",
    "for", "from", "had", "has", "have", "how", "i", "in", "is", "it", "me", "my", "not", "of", "on", "or",
    "our", "so", "that", "the", "there", "this", "to", "was", "we", "were", "what", "when", "where", "which",
    "who", "with", "you",
];

/// Returns the memories of `messages`, the first of which has the sequence number `first`: the text of the user and
/// the agent. Notices and tool results, which the agent can request again, are not remembered.
#[must_use]
pub fn memories(first: u64, messages: &[Arc<Message>]) -> Vec<NewMemory> {
    let text_of = |message: &Message| match message {
        Message::User { content, .. } => {
            let text = |block: &ContentBlock| match block {
                ContentBlock::Text { text } => Some(text.clone()),
                ContentBlock::Image { .. } | ContentBlock::Video { .. } | ContentBlock::File { .. } => None,
            };
            content.blocks().iter().filter_map(text).collect::<Vec<_>>().join("\n")
        }
        message => message.assistant_text().unwrap_or_default(),
    };
    let memory = |(seq, message): (u64, &Arc<Message>)| {
        let mut text = text_of(message);
        text.truncate(text.floor_char_boundary(MAX_MEMORY_BYTES));
        (!text.trim().is_empty()).then_some(NewMemory { seq, text })
    };
    (first..).zip(messages).filter_map(memory).collect()
}

/// Returns the search terms of a question.
#[must_use]
pub fn words(question: &str) -> Vec<String> {
    let all = question.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty());
    let mut seen = BTreeSet::new();
    let all: Vec<_> = all.map(str::to_lowercase).filter(|word| seen.insert(word.clone())).collect();
    let specific: Vec<_> = all.iter().filter(|word| !COMMON.contains(&word.as_str())).cloned().collect();
    let mut words = if specific.is_empty() { all } else { specific };
    words.truncate(MAX_WORDS);
    words
}

#[cfg(test)]
mod tests {
    use meerkat_core::{AssistantBlock, Content, NoticeKind, StopReason, Timestamp, ToolOutput};

    use super::*;

    const AT: Timestamp = Timestamp::UNIX_EPOCH;

    #[test]
    fn user_and_agent_text_is_remembered() {
        let user = |text: &str| Message::User { content: Content::text(text), created_at: AT };
        let answer = |blocks| Message::Assistant { blocks, stop_reason: StopReason::EndTurn, created_at: AT };
        let text = AssistantBlock::Text { text: "it is here".to_owned(), meta: None };
        let thought = AssistantBlock::Reasoning { text: "hm".to_owned(), meta: None };
        let result = ToolOutput::text("seen").into_result("c");
        let messages = [
            user("where is it"),
            answer(vec![thought, text]),
            Message::ToolResults { results: vec![result], created_at: AT },
            Message::SystemNotice { kind: NoticeKind::Generic, body: "so".to_owned(), created_at: AT },
            user("  "),
        ];
        let actual = memories(7, &messages.map(Arc::new));
        let expected = [(7, "where is it"), (8, "it is here")];
        assert_eq!(actual, expected.map(|(seq, text)| NewMemory { seq, text: text.to_owned() }));
    }

    #[test]
    fn stop_words_are_dropped_from_questions() {
        assert_eq!(words("Where did we put the BLUE key, the blue one?"), ["put", "blue", "key", "one"]);
        assert_eq!(words("who are you"), ["who", "are", "you"], "kept if all are stop words");
        assert_eq!(words("\"'; DROP"), ["drop"]);
        assert_eq!(words(" ?"), [""; 0]);
    }
}
