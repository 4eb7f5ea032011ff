//! Model input for the built-in tools: patches, and shell command lines.

use meerkat_tools::{probe_command, probe_patch};

use super::texts;
use crate::engine::{Target, Verdict};
use crate::mutate::Style;
use crate::random::Random;

pub(super) const PATCHES: Target =
    Target { name: "patches", style: Style::Text, corpus: patches, run: run_patch };
pub(super) const LINES: Target = Target { name: "lines", style: Style::Text, corpus: lines, run: run_line };

/// The text that patches are applied to.
const TEXT: &str = "one\ntwo\n  three\n\nfour\nfive\n";

fn patches() -> Vec<Vec<u8>> {
    texts(&[
        "*** Begin Patch\n*** Add File: a/b.txt\n+one\n+two\n*** End Patch\n",
        "*** Begin Patch\n*** Delete File: a.txt\n*** End Patch",
        "*** Begin Patch\n*** Update File: a.txt\n@@ one\n two\n-  three\n+  3\n*** End Patch\n",
        "*** Begin Patch\n*** Update File: a.txt\n*** Move to: b.txt\n@@\n-four\n five\n*** End of File\n*** End Patch\n",
    ])
}

/// Applying a patch twice yields the same result, which is no longer than its parts allow.
fn run_patch(input: &[u8], _: &mut Random) -> Verdict {
    let patch = String::from_utf8_lossy(input);
    let length = probe_patch(&patch, TEXT);
    if length != probe_patch(&patch, TEXT) {
        return Err("applying it twice yields different results".to_owned());
    }
    let files = patch.matches("*** ").count();
    if length > patch.len() + files * TEXT.len() {
        return Err(format!("{length} bytes were made of a patch of {} and {files} files", patch.len()));
    }
    Ok(format!("{}", length.min(80)))
}

fn lines() -> Vec<Vec<u8>> {
    texts(&[
        "ls -la | grep 'a b' && echo \"done\" > out; rm -rf x &",
        "A=1 B=\"$HOME\" /usr/bin/env sh -c 'echo `id`'",
        "cat <<EOF\ntext $(id)\nEOF\n(cd a; { ls; }) || ! true",
        "for f in *.txt; do echo ${f%.txt}; done # a remark",
        "git commit -m \"it's\" --no-verify \\\n  -- a\\ b",
    ])
}

/// A line that can be parsed yields the same commands when white space surrounds it.
fn run_line(input: &[u8], _: &mut Random) -> Verdict {
    let line = String::from_utf8_lossy(input);
    let count = probe_command(&line);
    if count > line.len() {
        return Err(format!("{count} commands in a line of {}", line.len()));
    }
    let padded = probe_command(&format!("  {line}"));
    if padded != count {
        return Err(format!("{count} commands, and {padded} after two blanks"));
    }
    Ok(format!("{}", count.min(9)))
}
