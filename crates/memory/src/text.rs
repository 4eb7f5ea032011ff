//! From messages to what is remembered, and from a question to words.

use std::collections::BTreeSet;
use std::sync::Arc;

use meerkat_core::{ContentBlock, Message};
use meerkat_store::NewMemory;

/// How much of one message is remembered, in bytes.
const MOST: usize = 64 * 1024;
/// How many words are looked for at most.
const MOST_WORDS: usize = 24;

/// Words that nearly every text has, so that they find nothing.
const COMMON: [&str; 48] = [
    "a", "about", "all", "an", "and", "any", "are", "as", "at", "be", "by", "can", "did", "do", "does",
    "for", "from", "had", "has", "have", "how", "i", "in", "is", "it", "me", "my", "not", "of", "on", "or",
    "our", "so", "that", "the", "there", "this", "to", "was", "we", "were", "what", "when", "where", "which",
    "who", "with", "you",
];

/// Returns what is remembered of messages whose first has the sequence number `first`: what the user and the agent
/// said. Results of tools, which the agent can have again, and notices are not.
#[must_use]
pub fn memories(first: u64, messages: &[Arc<Message>]) -> Vec<NewMemory> {
    let said = |message: &Message| match message {
        Message::User { content, .. } => {
            let text = |block: &ContentBlock| match block {
                ContentBlock::Text { text } => Some(text.clone()),
                ContentBlock::Image { .. } | ContentBlock::Video { .. } | ContentBlock::File { .. } => None,
            };
            content.blocks().iter().filter_map(text).collect::<Vec<_>>().join("\n")
        }
        message => message.assistant_text().unwrap_or_default(),
    };
    let remembered = |(seq, message): (u64, &Arc<Message>)| {
        let mut text = said(message);
        text.truncate(text.floor_char_boundary(MOST));
        (!text.trim().is_empty()).then_some(NewMemory { seq, text })
    };
    (first..).zip(messages).filter_map(remembered).collect()
}

/// Returns the words of a question that are worth looking for.
#[must_use]
pub fn words(question: &str) -> Vec<String> {
    let all = question.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty());
    let mut seen = BTreeSet::new();
    let all: Vec<_> = all.map(str::to_lowercase).filter(|word| seen.insert(word.clone())).collect();
    let telling: Vec<_> = all.iter().filter(|word| !COMMON.contains(&word.as_str())).cloned().collect();
    let mut words = if telling.is_empty() { all } else { telling };
    words.truncate(MOST_WORDS);
    words
}

#[cfg(test)]
mod tests {
    use meerkat_core::{AssistantBlock, Content, NoticeKind, StopReason, Timestamp, ToolOutput};

    use super::*;

    const AT: Timestamp = Timestamp::UNIX_EPOCH;

    #[test]
    fn what_was_said_is_remembered_with_its_place() {
        let user = |text: &str| Message::User { content: Content::text(text), created_at: AT };
        let answer = |blocks| Message::Assistant { blocks, stop_reason: StopReason::EndTurn, created_at: AT };
        let text = AssistantBlock::Text { text: "it is here".to_owned(), meta: None };
        let thought = AssistantBlock::Reasoning { text: "hm".to_owned(), meta: None };
        let result = ToolOutput::text("seen").answering("c");
        let messages = [
            user("where is it"),
            answer(vec![thought, text]),
            Message::ToolResults { results: vec![result], created_at: AT },
            Message::SystemNotice { kind: NoticeKind::Generic, body: "so".to_owned(), created_at: AT },
            user("  "),
        ];
        let found = memories(7, &messages.map(Arc::new));
        let expected = [(7, "where is it"), (8, "it is here")];
        assert_eq!(found, expected.map(|(seq, text)| NewMemory { seq, text: text.to_owned() }));
    }

    #[test]
    fn a_question_is_reduced_to_the_words_that_tell() {
        assert_eq!(words("Where did we put the BLUE key, the blue one?"), ["put", "blue", "key", "one"]);
        assert_eq!(words("who are you"), ["who", "are", "you"], "unless there are no others");
        assert_eq!(words("\"'; DROP"), ["drop"]);
        assert_eq!(words(" ?"), [""; 0]);
    }
}
