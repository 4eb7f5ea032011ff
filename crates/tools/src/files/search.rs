//! `search_files`.

use std::path::Path;
use std::sync::Arc;

use grep_regex::{RegexMatcher, RegexMatcherBuilder};
use grep_searcher::{BinaryDetection, Searcher, SearcherBuilder, Sink, SinkContext, SinkMatch};
use meerkat_core::{SessionId, ToolImpact, ToolOutput};
use schemars::JsonSchema;
use serde::Deserialize;

use super::root::{Place, Root};
use super::walk::{Walk, inside};
use crate::Error;
use crate::builtin::Builtin;
use crate::work::{Abandoned, blocking};

/// How many matches one call shows unless it says otherwise, and at most.
const DEFAULT_MATCHES: usize = 100;
const MAX_MATCHES: usize = 1000;
/// How much one call shows.
const MAX_BYTES: usize = 64 * 1024;
/// How much of one line is shown.
const MAX_LINE: usize = 400;
/// How large a pattern may become.
const MAX_PATTERN: usize = 4 * 1024 * 1024;

pub(crate) struct SearchFiles(pub(crate) Arc<Root>);

/// What to look for, and where.
#[derive(Deserialize, JsonSchema)]
pub(crate) struct Arguments {
    /// A regular expression, as ripgrep takes it.
    pattern: String,
    /// The folder or file to look in, relative to the workspace; the whole workspace if left out.
    path: Option<String>,
    /// Only files whose path fits this pattern, for example `**/*.rs`.
    glob: Option<String>,
    /// Whether capital and small letters are the same.
    #[serde(default)]
    ignore_case: bool,
    /// How many lines to show around each match.
    context: Option<usize>,
    /// How many matches to show at most; 100 if left out.
    limit: Option<usize>,
}

impl Builtin for SearchFiles {
    const NAME: &'static str = "search_files";
    const DESCRIPTION: &'static str = "Search the files of the workspace for a regular expression. Each match is a line \
        `path:line:text`, lines around it are `path-line-text`. What is ignored by git is left out.";
    const IMPACT: ToolImpact = ToolImpact::ReadOnly;
    type Arguments = Arguments;

    async fn run(&self, arguments: Arguments, _: SessionId) -> Result<ToolOutput, Error> {
        let root = Arc::clone(&self.0);
        blocking(move |abandoned| search(&root, &arguments, abandoned).map(ToolOutput::text)).await
    }
}

fn search(root: &Root, arguments: &Arguments, abandoned: &Abandoned) -> Result<String, Error> {
    let matcher = matcher(arguments)?;
    let place = root.place(arguments.path.as_deref().unwrap_or("."))?;
    let start = match root.open_file(&place) {
        Ok(_) => root.path().join(place.path()),
        Err(_) => root.folder(&place)?,
    };
    let context = arguments.context.unwrap_or(0).min(10);
    let mut searcher = SearcherBuilder::new()
        .line_number(true)
        .binary_detection(BinaryDetection::quit(0))
        .before_context(context)
        .after_context(context)
        .build();
    let limit = arguments.limit.unwrap_or(DEFAULT_MATCHES).clamp(1, MAX_MATCHES);
    let mut found = Found { text: String::new(), matches: 0, limit, abandoned };
    let walk = Walk { start: &start, glob: arguments.glob.as_deref(), depth: None };
    for entry in walk.entries()?.filter(|entry| entry.file_type().is_some_and(|kind| kind.is_file())) {
        let Some(path) = inside(root.path(), &entry) else { continue };
        // A file that cannot be read has nothing to be found in.
        let Ok((file, _)) = root.open_file(&Place::beneath(path.clone())) else { continue };
        let _ = searcher.search_file(&matcher, &file, InFile { path: &path, found: &mut found });
        if abandoned.is_so() {
            return Err(Error::BrokeOff);
        }
        if found.is_full() {
            break;
        }
    }
    Ok(found.said())
}

fn matcher(arguments: &Arguments) -> Result<RegexMatcher, Error> {
    RegexMatcherBuilder::new()
        .case_insensitive(arguments.ignore_case)
        .line_terminator(Some(b'\n'))
        .size_limit(MAX_PATTERN)
        .dfa_size_limit(MAX_PATTERN)
        .build(&arguments.pattern)
        .map_err(|error| Error::Argument { argument: "pattern", why: error.to_string() })
}

struct Found<'a> {
    text: String,
    matches: usize,
    limit: usize,
    abandoned: &'a Abandoned,
}

impl Found<'_> {
    fn is_full(&self) -> bool {
        self.matches > self.limit || self.text.len() > MAX_BYTES || self.abandoned.is_so()
    }

    fn said(mut self) -> String {
        if self.matches == 0 {
            return "[no match]".to_owned();
        }
        if self.is_full() {
            self.text.push_str("[more matches; name a folder, a glob or a narrower pattern]");
        }
        self.text
    }
}

/// Collects what is found in one file.
struct InFile<'a, 'f> {
    path: &'a Path,
    found: &'a mut Found<'f>,
}

impl InFile<'_, '_> {
    fn line(&mut self, number: Option<u64>, mark: char, bytes: &[u8]) {
        let line = String::from_utf8_lossy(bytes);
        let line = line.trim_end_matches(['\n', '\r']);
        let cut = line.floor_char_boundary(MAX_LINE);
        let more = if cut < line.len() { "…" } else { "" };
        let number = number.unwrap_or(0);
        let text = format!("{}{mark}{number}{mark}{}{more}\n", self.path.display(), &line[..cut]);
        self.found.text.push_str(&text);
    }
}

impl Sink for InFile<'_, '_> {
    type Error = std::io::Error;

    fn matched(&mut self, _: &Searcher, found: &SinkMatch<'_>) -> Result<bool, Self::Error> {
        self.found.matches += 1;
        if self.found.is_full() {
            return Ok(false);
        }
        self.line(found.line_number(), ':', found.bytes());
        Ok(true)
    }

    fn context(&mut self, _: &Searcher, around: &SinkContext<'_>) -> Result<bool, Self::Error> {
        self.line(around.line_number(), '-', around.bytes());
        Ok(true)
    }
}
