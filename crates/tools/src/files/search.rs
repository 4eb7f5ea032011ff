//! `search_files`.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;
use std::sync::Arc;

use grep_regex::{RegexMatcher, RegexMatcherBuilder};
use grep_searcher::{BinaryDetection, Searcher, SearcherBuilder, Sink, SinkContext, SinkMatch};
use meerkat_core::{Redactor, SessionId, ToolImpact, ToolOutput};
use rustix::fs::FileType;
use schemars::JsonSchema;
use serde::Deserialize;

use super::root::{Root, WorkspacePath};
use super::walk::{Entry, Walk};
use crate::Error;
use crate::blocking::{CancelFlag, blocking};
use crate::builtin::{Builtin, Reply};

/// Default and maximum number of matches per call.
const DEFAULT_MATCHES: usize = 100;
const MAX_MATCHES: usize = 1000;
/// Maximum output of one call, in bytes.
const MAX_BYTES: usize = 64 * 1024;
/// Maximum length of an output line.
const MAX_LINE: usize = 400;
/// Maximum length of a searched line, and maximum number of bytes searched in a file.
const MAX_SEARCHED_LINE: usize = 1024 * 1024;
const MAX_SEARCHED: u64 = 256 * 1024 * 1024;
/// Maximum size of a compiled pattern.
const MAX_PATTERN: usize = 4 * 1024 * 1024;

pub(crate) struct SearchFiles {
    pub(crate) root: Arc<Root>,
    pub(crate) redactor: Redactor,
}

/// The pattern, and the files to search.
#[derive(Deserialize, JsonSchema)]
pub(crate) struct Arguments {
    /// Regular expression in ripgrep syntax.
    pattern: String,
    /// Directory or file to search, relative to the workspace; the workspace itself if omitted.
    path: Option<String>,
    /// Only files whose path matches this pattern, for example `**/*.rs`.
    glob: Option<String>,
    /// Whether to ignore case.
    #[serde(default)]
    ignore_case: bool,
    /// Number of lines of context around each match.
    context: Option<usize>,
    /// Maximum number of matches; 100 if omitted.
    limit: Option<usize>,
}

impl Builtin for SearchFiles {
    const NAME: &'static str = "search_files";
    const DESCRIPTION: &'static str = "Search the files of the workspace for a regular expression. Each match is a line \
        `path:line:text`, lines around it are `path-line-text`. Files ignored by git are omitted.";
    const IMPACT: ToolImpact = ToolImpact::ReadOnly;
    type Arguments = Arguments;

    async fn run(&self, arguments: Arguments, _: SessionId) -> Reply {
        let (root, redactor) = (Arc::clone(&self.root), self.redactor.clone());
        blocking(move |abandoned| {
            let limit = arguments.limit.unwrap_or(DEFAULT_MATCHES).clamp(1, MAX_MATCHES);
            let found =
                SearchOutput { text: String::new(), matches: 0, limit, partial: 0, redactor, abandoned };
            search(&root, &arguments, found).map(ToolOutput::text)
        })
        .await
    }
}

fn search(root: &Root, arguments: &Arguments, mut found: SearchOutput<'_>) -> Result<String, Error> {
    let abandoned = found.abandoned;
    let matcher = matcher(arguments)?;
    let place = root.parse_path(arguments.path.as_deref().unwrap_or("."))?;
    let start = match root.kind(&place)? {
        FileType::Directory => root.real_dir(&place)?,
        _ => {
            root.open_file(&place)?;
            place.path().to_owned()
        }
    };
    let context = arguments.context.unwrap_or(0).min(10);
    let mut searcher = SearcherBuilder::new()
        .line_number(true)
        .binary_detection(BinaryDetection::quit(0))
        .before_context(context)
        .after_context(context)
        .heap_limit(Some(MAX_SEARCHED_LINE))
        .build();
    let walk = Walk { root, start, glob: arguments.glob.as_deref(), depth: None };
    for entry in walk.entries()?.filter(Entry::is_file) {
        // A file that cannot be read has no matches.
        let Ok((file, _)) = root.open_file(&WorkspacePath::beneath(entry.path.clone())) else { continue };
        let mut part = Part { file: file.take(MAX_SEARCHED), abandoned };
        let done =
            searcher.search_reader(&matcher, &mut part, FileSink { path: &entry.path, found: &mut found });
        if abandoned.is_cancelled() {
            return Err(Error::Interrupted);
        }
        if found.is_full() {
            break;
        }
        found.partial += usize::from(done.is_err() || part.file.limit() == 0);
    }
    Ok(found.into_text())
}

/// The searched part of a file; reading stops when the call is abandoned.
struct Part<'a> {
    file: io::Take<File>,
    abandoned: &'a CancelFlag,
}

impl Read for Part<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.abandoned.is_cancelled() {
            Err(io::ErrorKind::ConnectionAborted.into())
        } else {
            self.file.read(buffer)
        }
    }
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

struct SearchOutput<'a> {
    text: String,
    matches: usize,
    limit: usize,
    /// Number of files that were searched only in part.
    partial: usize,
    redactor: Redactor,
    abandoned: &'a CancelFlag,
}

impl SearchOutput<'_> {
    fn is_full(&self) -> bool {
        self.matches > self.limit || self.text.len() > MAX_BYTES || self.abandoned.is_cancelled()
    }

    fn into_text(mut self) -> String {
        if self.matches == 0 {
            self.text.push_str("[no match]");
        }
        if self.is_full() {
            self.text.push_str("[more matches; pass a path, a glob, or a narrower pattern]");
        }
        if self.partial > 0 {
            let separator = if self.text.ends_with('\n') { "" } else { "\n" };
            let files = match self.partial {
                1 => "1 file was".to_owned(),
                count => format!("{count} files were"),
            };
            let note = format!(
                "{separator}[{files} only searched in part: a line is longer than 1 MB, or the file is larger than 256 MB]"
            );
            self.text.push_str(&note);
        }
        self.text
    }
}

/// Collects the matches in one file.
struct FileSink<'a, 'f> {
    path: &'a Path,
    found: &'a mut SearchOutput<'f>,
}

impl FileSink<'_, '_> {
    fn line(&mut self, number: Option<u64>, mark: char, bytes: &[u8]) {
        let line = String::from_utf8_lossy(bytes);
        // A secret that is cut off cannot be recognized later.
        let line = self.found.redactor.redact(line.trim_end_matches(['\n', '\r'])).into_owned();
        let cut = line.floor_char_boundary(MAX_LINE);
        let more = if cut < line.len() { "…" } else { "" };
        let number = number.unwrap_or(0);
        let text = format!("{}{mark}{number}{mark}{}{more}\n", self.path.display(), &line[..cut]);
        self.found.text.push_str(&text);
    }
}

impl Sink for FileSink<'_, '_> {
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
