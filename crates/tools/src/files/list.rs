//! `list_files`.

use std::sync::Arc;

use meerkat_core::{SessionId, ToolImpact, ToolOutput};
use schemars::JsonSchema;
use serde::Deserialize;

use super::root::Root;
use super::walk::Walk;
use crate::Error;
use crate::builtin::Builtin;
use crate::work::{Abandoned, blocking};

/// How many entries one call shows unless it says otherwise, and at most.
const DEFAULT_ENTRIES: usize = 500;
const MAX_ENTRIES: usize = 5000;

pub(crate) struct ListFiles(pub(crate) Arc<Root>);

/// What to list.
#[derive(Deserialize, JsonSchema)]
pub(crate) struct Arguments {
    /// The directory, relative to the workspace; the whole workspace if left out.
    path: Option<String>,
    /// Only files whose path fits this pattern, for example `**/*.rs`.
    glob: Option<String>,
    /// How many directories deep to look; 1 lists the directory alone.
    depth: Option<usize>,
    /// How many entries to show at most; 500 if left out.
    limit: Option<usize>,
}

impl Builtin for ListFiles {
    const NAME: &'static str = "list_files";
    const DESCRIPTION: &'static str = "List the files of the workspace or of a directory in it, one path on each line. \
        Directories end with `/`. What is ignored by git is left out.";
    const IMPACT: ToolImpact = ToolImpact::ReadOnly;
    type Arguments = Arguments;

    async fn run(&self, arguments: Arguments, _: SessionId) -> Result<ToolOutput, Error> {
        let root = Arc::clone(&self.0);
        blocking(move |abandoned| list(&root, &arguments, abandoned).map(ToolOutput::text)).await
    }
}

fn list(root: &Root, arguments: &Arguments, abandoned: &Abandoned) -> Result<String, Error> {
    let start = root.real_dir(&root.place(arguments.path.as_deref().unwrap_or("."))?)?;
    let walk = Walk { root, start, glob: arguments.glob.as_deref(), depth: arguments.depth };
    let limit = arguments.limit.unwrap_or(DEFAULT_ENTRIES).clamp(1, MAX_ENTRIES);
    let mut lines = Vec::new();
    for entry in walk.entries()? {
        if abandoned.is_so() {
            return Err(Error::BrokeOff);
        }
        if entry.is_dir() && arguments.glob.is_some() {
            continue;
        }
        if lines.len() == limit {
            lines.push(format!("[more than {limit} entries; name a directory, a glob or a depth]"));
            break;
        }
        lines.push(format!("{}{}", entry.path.display(), if entry.is_dir() { "/" } else { "" }));
    }
    if lines.is_empty() {
        lines.push("[nothing]".to_owned());
    }
    Ok(lines.join("\n"))
}
