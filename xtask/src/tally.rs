//! Counts tests from the output of their runners.

use std::fmt;

/// Number of tests that passed and failed so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tally {
    passed: u64,
    failed: u64,
}

impl Tally {
    /// Adds a line of `cargo test`: `test result: ok. 3 passed; 0 failed; …`. Other lines count nothing.
    pub(crate) fn add_cargo_line(&mut self, line: &str) {
        if let Some((_, summary)) = line.split_once("test result: ") {
            self.add(summary.split_once(". ").map_or(summary, |(_, counts)| counts), ';');
        }
    }

    /// Adds the last line of a client test: `3 passed, 0 failed`. Other lines count nothing.
    pub(crate) fn add_client_line(&mut self, line: &str) {
        self.add(line, ',');
    }

    /// Counts a step that failed without naming a failed test: it crashed or did not compile.
    pub(crate) fn add_broken_step(&mut self, before: Self) {
        if self.failed == before.failed {
            self.failed += 1;
        }
    }

    fn add(&mut self, counts: &str, separator: char) {
        let mut parts = counts.split(separator);
        let passed = parts.next().and_then(|part| count(part, "passed"));
        let failed = parts.next().and_then(|part| count(part, "failed"));
        if let (Some(passed), Some(failed)) = (passed, failed) {
            self.passed += passed;
            self.failed += failed;
        }
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} passed, {} failed", self.passed, self.failed)
    }
}

fn count(part: &str, word: &str) -> Option<u64> {
    part.trim().strip_suffix(word)?.trim_end().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::Tally;

    #[test]
    fn cargo_results_add_up() {
        let mut tally = Tally::default();
        for line in [
            "running 3 tests",
            "test run::finishes ... ok",
            "test result: ok. 3 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.00s",
            "test result: FAILED. 10 passed; 2 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.10s",
            "test result: unreadable",
        ] {
            tally.add_cargo_line(line);
        }
        assert_eq!(tally, Tally { passed: 13, failed: 2 });
    }

    #[test]
    fn client_results_add_up() {
        let mut tally = Tally { passed: 1, failed: 0 };
        for line in ["ok   lists its tools (0.1 s)", "7 passed, 1 failed", "passed, failed", "7 passed"] {
            tally.add_client_line(line);
        }
        assert_eq!(tally, Tally { passed: 8, failed: 1 });
    }

    #[test]
    fn broken_step_counts_once() {
        let before = Tally { passed: 4, failed: 0 };
        let mut tally = before;
        tally.add_broken_step(before);
        assert_eq!(tally.to_string(), "4 passed, 1 failed");

        let mut reported = Tally { passed: 4, failed: 2 };
        reported.add_broken_step(before);
        assert_eq!(reported.to_string(), "4 passed, 2 failed");
    }
}
