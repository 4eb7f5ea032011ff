//! Fits a list of descriptions into a budget.
//!
//! Long descriptions are truncated first, all to the same length. Entries are dropped only if none can be truncated
//! further.

/// Minimum length of a truncated description, in bytes. A shorter one would not explain when to use a skill.
const SHORTEST: usize = 60;

/// Size of a list entry, in bytes.
#[derive(Debug, Clone, Copy)]
pub(super) struct EntrySize {
    /// Size of everything but the description.
    pub(super) fixed: usize,
    pub(super) description: usize,
}

/// A list that fits its budget.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Fit {
    /// Indexes of the listed entries, in order.
    pub(super) listed: Vec<usize>,
    /// Length to which longer descriptions are truncated, in bytes.
    pub(super) longest: usize,
}

impl Fit {
    /// Fits entries, the most important first, into a budget in bytes. An entry that does not fit is dropped; later
    /// ones may still fit.
    pub(super) fn new(entries: &[EntrySize], budget: usize) -> Self {
        let mut left = budget;
        let mut listed = Vec::with_capacity(entries.len());
        for (index, entry) in entries.iter().enumerate() {
            if let Some(rest) = left.checked_sub(entry.fixed + entry.description.min(SHORTEST)) {
                left = rest;
                listed.push(index);
            }
        }
        let fixed: usize = listed.iter().map(|index| entries[*index].fixed).sum();
        let lengths = listed.iter().map(|index| entries[*index].description).collect();
        let longest = longest(lengths, budget.saturating_sub(fixed));
        Self { listed, longest }
    }
}

/// Returns the length to which longer texts must be truncated so that all fit together.
fn longest(mut lengths: Vec<usize>, budget: usize) -> usize {
    lengths.sort_unstable();
    let (mut left, count) = (budget, lengths.len());
    for (index, length) in lengths.into_iter().enumerate() {
        let share = left / (count - index);
        if length > share {
            return share;
        }
        left -= length;
    }
    usize::MAX
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fit(descriptions: &[usize], budget: usize) -> (usize, usize) {
        let entry = |description: &usize| EntrySize { fixed: 10, description: *description };
        let fit = Fit::new(&descriptions.iter().map(entry).collect::<Vec<_>>(), budget);
        (fit.listed.len(), fit.longest)
    }

    #[test]
    fn long_descriptions_are_cut_to_equal_length() {
        assert_eq!(fit(&[100, 200, 300], 630), (3, usize::MAX));
        assert_eq!(fit(&[100, 200, 300], 629), (3, 299));
        assert_eq!(fit(&[100, 200, 300], 430), (3, 150), "the short one leaves room for the others");
        assert_eq!(fit(&[100, 200, 300], 210), (3, 60));
        assert_eq!(fit(&[], 0), (0, usize::MAX));
    }

    #[test]
    fn entries_are_dropped_when_none_can_be_cut() {
        assert_eq!(fit(&[100, 200, 300], 209), (2, 94));
        assert_eq!(fit(&[5, 5, 300], 80), (2, usize::MAX));
        assert_eq!(fit(&[100], 20), (0, usize::MAX));
    }

    #[test]
    fn oversized_entry_leaves_room_for_others() {
        let sizes = [(10, 5), (500, 5), (10, 300)];
        let entries = sizes.map(|(fixed, description)| EntrySize { fixed, description });
        assert_eq!(Fit::new(&entries, 100), Fit { listed: vec![0, 2], longest: 75 });
    }
}
