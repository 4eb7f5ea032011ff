//! The parts of a text that are nearest to a question, by the words they have in common.

use std::collections::BTreeSet;

/// How many parts are given at most.
const MOST: usize = 3;

/// Words that say nothing about what a question is about.
const COMMON: [&str; 46] = [
    "a", "about", "an", "and", "are", "as", "at", "be", "by", "can", "do", "does", "for", "from", "get",
    "has", "have", "how", "i", "if", "in", "is", "it", "its", "me", "my", "of", "on", "or", "please", "so",
    "that", "the", "them", "then", "there", "this", "to", "use", "was", "what", "when", "which", "with",
    "you", "your",
];

/// A paragraph or a point of a list, and the heading it stands under.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Passage {
    pub(super) heading: String,
    pub(super) text: String,
}

/// Takes a text apart.
pub(super) fn passages(text: &str) -> Vec<Passage> {
    let mut found: Vec<Passage> = Vec::new();
    let mut heading = String::new();
    let mut is_open = false;
    for line in text.lines() {
        if let Some(title) = line.strip_prefix('#') {
            title.trim_start_matches('#').trim().clone_into(&mut heading);
            is_open = false;
        } else if line.trim().is_empty() {
            is_open = false;
        } else if is_open && !line.starts_with("- ") {
            if let Some(last) = found.last_mut() {
                last.text.push('\n');
                last.text.push_str(line);
            }
        } else {
            found.push(Passage { heading: heading.clone(), text: line.to_owned() });
            is_open = true;
        }
    }
    found
}

/// Returns the passages that have most to do with a question, in their own order; none if none has anything.
pub(super) fn nearest<'p>(question: &str, passages: &'p [Passage]) -> Vec<&'p Passage> {
    let asked: BTreeSet<String> = words(question).filter(|word| !COMMON.contains(&word.as_str())).collect();
    let known: Vec<[BTreeSet<String>; 2]> = passages
        .iter()
        .map(|passage| [words(&passage.text).collect(), words(&passage.heading).collect()])
        .collect();
    let mut scores = vec![0.0_f64; passages.len()];
    for word in &asked {
        let has = |set: &BTreeSet<String>| set.iter().any(|other| is_alike(word, other));
        let count = known.iter().filter(|[text, heading]| has(text) || has(heading)).count();
        // A word that is everywhere tells nothing, one that is rare tells much.
        let worth = (passages.len() as f64 / count.max(1) as f64).ln();
        for (score, [text, heading]) in scores.iter_mut().zip(&known) {
            *score += worth * if has(text) { 1.0 } else { 0.0 };
            *score += worth * if has(heading) { 0.5 } else { 0.0 };
        }
    }
    let mut order: Vec<usize> = (0..passages.len()).filter(|index| scores[*index] > 0.0).collect();
    order.sort_by(|one, other| scores[*other].total_cmp(&scores[*one]));
    let best = order.first().map_or(0.0, |index| scores[*index]);
    order.retain(|index| scores[*index] >= best / 2.0);
    order.truncate(MOST);
    order.sort_unstable();
    order.into_iter().map(|index| &passages[index]).collect()
}

fn words(text: &str) -> impl Iterator<Item = String> {
    let words = text.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty());
    words.map(str::to_lowercase)
}

/// Says whether two words are forms of one: `resume` and `resumed`, `session` and `sessions`.
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
    fn a_text_is_taken_apart_at_its_paragraphs_and_points() {
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
    fn what_shares_rare_words_with_the_question_is_nearest() {
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
