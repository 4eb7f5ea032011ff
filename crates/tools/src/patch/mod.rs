//! `apply_patch`: several files changed together, or none.

mod apply;
mod edit;
mod parse;

use std::sync::Arc;

use meerkat_core::{SessionId, ToolImpact};
use schemars::JsonSchema;
use serde::Deserialize;

use self::parse::{FileChange, PatchError};
use crate::blocking::blocking;
use crate::builtin::{Builtin, Reply, reply};
use crate::files::Root;

/// Maximum length of a patch.
const MAX_PATCH: usize = 4 * 1024 * 1024;

pub(crate) struct ApplyPatch(pub(crate) Arc<Root>);

/// The patch to apply.
#[derive(Deserialize, JsonSchema)]
pub(crate) struct Arguments {
    /// The patch, from `*** Begin Patch` to `*** End Patch`.
    patch: String,
}

impl Builtin for ApplyPatch {
    const NAME: &'static str = "apply_patch";
    const DESCRIPTION: &'static str = "Change files in the workspace, all or none. The patch starts with \
        `*** Begin Patch`, ends with `*** End Patch`, and contains for each file one of: `*** Add File: PATH` and its \
        lines, each after a `+`; `*** Delete File: PATH`; or `*** Update File: PATH`, if it moves `*** Move to: PATH`, \
        and hunks. A hunk starts with `@@`, or with `@@ ` and a line of the file that precedes it; its lines start with \
        a space if they stay, `-` if removed, `+` if added. `*** End of File` after a hunk means that it ends the \
        file, which then has no newline at its end. Paths are relative to the workspace.";
    const IMPACT: ToolImpact = ToolImpact::Destructive;
    type Arguments = Arguments;

    async fn run(&self, arguments: Arguments, _: SessionId) -> Reply {
        let root = Arc::clone(&self.0);
        blocking(move |_| {
            if arguments.patch.len() > MAX_PATCH {
                return Err(PatchError::TooLong.into());
            }
            reply(&apply::apply(&root, parse::parse(&arguments.patch)?)?)
        })
        .await
    }
}

/// Returns the files that a patch names; `None` if it cannot be parsed.
pub(crate) fn patched_files(patch: &str) -> Option<Vec<String>> {
    let files = |change| match change {
        FileChange::Add { path, .. } | FileChange::Delete { path } => vec![path],
        FileChange::Update { path, move_to, .. } => [path].into_iter().chain(move_to).collect(),
    };
    Some(parse::parse(patch).ok()?.into_iter().flat_map(files).collect())
}

/// Parses a patch and applies it to a text, for fuzzing. Returns the length of the result.
#[must_use]
pub fn probe_patch(patch: &str, text: &str) -> usize {
    let Ok(changes) = parse::parse(patch) else { return 0 };
    let edited = |change: &FileChange| match change {
        FileChange::Update { path, hunks, .. } => edit::edit(path, text, hunks).map_or(0, |text| text.len()),
        FileChange::Add { lines, .. } => lines.len(),
        FileChange::Delete { .. } => 0,
    };
    changes.iter().map(edited).sum()
}
