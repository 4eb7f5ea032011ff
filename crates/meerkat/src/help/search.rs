//! Search for the parts of a text that best match a question, based on common words.

use std::collections::BTreeSet;

/// Maximum number of passages returned.
const MAX_PASSAGES: usize = 3;

/// Stop words: words that are irrelevant to the topic of a question.
const COMMON: [&str; 46] = [
    "a", "about", "an", "and", "are", "as", "at", "be", "by", "can", "do", "does", "for", "from", "get",
    "has", "have", "how", "i", "if", "in", "is", "it", "its", "me", "my", "of", "on", "or", "please", "so",
    "that", "the", "them", "then", "there", "this", "to", "use", "was", "what", "when", "which", "with",
    "you", "your",
];

/// A paragraph or list item, and its heading.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Passage {
    pub(super) heading: String,
    pub(super) text: String,
}

/// Splits a text into passages.
pub(super) fn passages(text: &str) -> Vec<Passage> {
    let mut result: Vec<Passage> = Vec::new();
    let mut heading = String::new();
    let mut is_open = false;
    for line in text.lines() {
        if let Some(title) = line.strip_prefix('#') {
            title.trim_start_matches('#').trim().clone_into(&mut heading);
            is_open = false;
        } else if line.trim().is_empty() {
            is_open = false;
        } else if is_open && !line.starts_with("- ") {
            if let Some(last) = result.last_mut() {
                last.text.push('\n');
                last.text.push_str(line);
            }
        } else {
            result.push(Passage { heading: heading.clone(), text: line.to_owned() });
            is_open = true;
        }
    }
    result
}

/// Returns the passages that best match a question, in their original order; empty if nothing matches.
pub(super) fn nearest<'p>(question: &str, passages: &'p [Passage]) -> Vec<&'p Passage> {
    let query_words: BTreeSet<String> =
        words(question).filter(|word| !COMMON.contains(&word.as_str())).collect();
    let passage_words: Vec<[BTreeSet<String>; 2]> = passages
        .iter()
        .map(|passage| [words(&passage.text).collect(), words(&passage.heading).collect()])
        .collect();
    let mut scores = vec![0.0_f64; passages.len()];
    for word in &query_words {
        let has = |set: &BTreeSet<String>| set.iter().any(|other| is_alike(word, other));
        let count = passage_words.iter().filter(|[text, heading]| has(text) || has(heading)).count();
        // Rare words weigh more than common ones; a word in every passage has no weight.
        let weight = (passages.len() as f64 / count.max(1) as f64).ln();
        for (score, [text, heading]) in scores.iter_mut().zip(&passage_words) {
            *score += weight * if has(text) { 1.0 } else { 0.0 };
            *score += weight * if has(heading) { 0.5 } else { 0.0 };
        }
    }
    let mut order: Vec<usize> = (0..passages.len()).filter(|index| scores[*index] > 0.0).collect();
    order.sort_by(|one, other| scores[*other].total_cmp(&scores[*one]));
    let best = order.first().map_or(0.0, |index| scores[*index]);
    order.retain(|index| scores[*index] >= best / 2.0);
    order.truncate(MAX_PASSAGES);
    order.sort_unstable();
    order.into_iter().map(|index| &passages[index]).collect()
}

fn words(text: &str) -> impl Iterator<Item = String> {
    let words = text.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty());
    words.map(str::to_lowercase)
}

/// Returns `true` if two words are forms of the same word: `resume` and `resumed`, `session` and `sessions`.
fn is_alike(one: &str, other: &str) -> bool {
    const STEM: usize = 4;
    one == other || (one.len().min(other.len()) >= STEM && (one.starts_with(other) || other.starts_with(one)))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str =
        "# Zoo\n\nAnimals live here.\nThey eat.\n\n## Birds\n\n- Parrots talk.\n- Owls hoot\n  at night.\n";

    #[test]
    fn text_is_split_into_paragraphs_and_items() {
        let parts: Vec<_> = passages(TEXT)
            .into_iter()
            .map(|passage| format!("{}: {}", passage.heading, passage.text))
            .collect();
        assert_eq!(
            parts,
            [
                "Zoo: Animals live here.\nThey eat.",
                "Birds: - Parrots talk.",
                "Birds: - Owls hoot\n  at night."
            ]
        );
    }

    #[test]
    fn passages_with_rare_common_words_match_best() {
        let all = passages(TEXT);
        let texts = |question: &str| -> Vec<String> {
            nearest(question, &all).into_iter().map(|passage| passage.text.clone()).collect()
        };
        assert_eq!(texts("When does an owl hoot?"), ["- Owls hoot\n  at night."]);
        assert_eq!(texts("Which birds are there?"), ["- Parrots talk.", "- Owls hoot\n  at night."]);
        assert_eq!(texts("What is the price?"), [""; 0]);
        assert_eq!(texts(""), [""; 0]);
    }
}
