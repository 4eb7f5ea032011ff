//! `list_files`.

use std::sync::Arc;

use meerkat_core::{SessionId, ToolImpact, ToolOutput};
use schemars::JsonSchema;
use serde::Deserialize;

use super::root::Root;
use super::walk::Walk;
use crate::Error;
use crate::blocking::{CancelFlag, blocking};
use crate::builtin::{Builtin, Reply};

/// Default and maximum number of entries per call.
const DEFAULT_ENTRIES: usize = 500;
const MAX_ENTRIES: usize = 5000;

pub(crate) struct ListFiles(pub(crate) Arc<Root>);

/// The files to list.
#[derive(Deserialize, JsonSchema)]
pub(crate) struct Arguments {
    /// Directory to list, relative to the workspace; the workspace itself if omitted.
    path: Option<String>,
    /// Only files whose path matches this pattern, for example `**/*.rs`.
    glob: Option<String>,
    /// Maximum depth; 1 lists only the directory itself.
    depth: Option<usize>,
    /// Maximum number of entries; 500 if omitted.
    limit: Option<usize>,
}

impl Builtin for ListFiles {
    const NAME: &'static str = "list_files";
    const DESCRIPTION: &'static str = "List the files in the workspace or in one of its directories, one path per line. \
        Directories end with `/`. Files ignored by git are omitted.";
    const IMPACT: ToolImpact = ToolImpact::ReadOnly;
    type Arguments = Arguments;

    async fn run(&self, arguments: Arguments, _: SessionId) -> Reply {
        let root = Arc::clone(&self.0);
        blocking(move |abandoned| list(&root, &arguments, abandoned).map(ToolOutput::text)).await
    }
}

fn list(root: &Root, arguments: &Arguments, abandoned: &CancelFlag) -> Result<String, Error> {
    let start = root.real_dir(&root.parse_path(arguments.path.as_deref().unwrap_or("."))?)?;
    let walk = Walk { root, start, glob: arguments.glob.as_deref(), depth: arguments.depth };
    let limit = arguments.limit.unwrap_or(DEFAULT_ENTRIES).clamp(1, MAX_ENTRIES);
    let mut lines = Vec::new();
    for entry in walk.entries()? {
        if abandoned.is_cancelled() {
            return Err(Error::Interrupted);
        }
        if entry.is_dir() && arguments.glob.is_some() {
            continue;
        }
        if lines.len() == limit {
            lines.push(format!("[more than {limit} entries; pass a path, glob, or depth]"));
            break;
        }
        lines.push(format!("{}{}", entry.path.display(), if entry.is_dir() { "/" } else { "" }));
    }
    if lines.is_empty() {
        lines.push("[nothing]".to_owned());
    }
    Ok(lines.join("\n"))
}
