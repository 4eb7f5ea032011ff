//! `read_file`.

use std::fs::File;
use std::io::{BufRead as _, BufReader, Read as _};
use std::sync::Arc;

use meerkat_core::{Cut, Redactor, SessionId, ToolImpact, ToolOutput};
use schemars::JsonSchema;
use serde::Deserialize;

use super::root::{Root, WorkspacePath};
use crate::Error;
use crate::blocking::{CancelFlag, blocking};
use crate::builtin::{Builtin, Reply};

/// Maximum output of one call, in bytes.
const MAX_BYTES: usize = 64 * 1024;
/// Default number of lines per call.
const DEFAULT_LINES: u64 = 2000;
/// Maximum number of bytes read to reach a line.
const MAX_READ: u64 = 256 * 1024 * 1024;
/// Number of bytes examined to detect text.
const PROBE: u64 = 8 * 1024;

pub(crate) struct ReadFile {
    pub(crate) root: Arc<Root>,
    pub(crate) redactor: Redactor,
}

/// The file and the lines to read.
#[derive(Deserialize, JsonSchema)]
pub(crate) struct Arguments {
    /// The file, relative to the workspace.
    path: String,
    /// First line to read; 1 if omitted.
    offset: Option<u64>,
    /// Maximum number of lines; 2000 if omitted.
    limit: Option<u64>,
}

impl Builtin for ReadFile {
    const NAME: &'static str = "read_file";
    const DESCRIPTION: &'static str = "Read a text file in the workspace, or some of its lines.";
    const IMPACT: ToolImpact = ToolImpact::ReadOnly;
    type Arguments = Arguments;

    async fn run(&self, arguments: Arguments, _: SessionId) -> Reply {
        let (root, redactor) = (Arc::clone(&self.root), self.redactor.clone());
        blocking(move |abandoned| {
            let place = root.parse_file_path(&arguments.path)?;
            let first = arguments.offset.unwrap_or(1).max(1);
            let (file, _) = root.open_file(&place)?;
            let count = arguments.limit.unwrap_or(DEFAULT_LINES);
            let page = Page { first, count, redactor };
            page.read(file, &place, abandoned).map(ToolOutput::text)
        })
        .await
    }
}

/// A range of lines.
struct Page {
    first: u64,
    count: u64,
    redactor: Redactor,
}

impl Page {
    fn read(&self, mut file: File, place: &WorkspacePath, abandoned: &CancelFlag) -> Result<String, Error> {
        let failed = |error| place.failed("cannot read it", error);
        let mut probe = Vec::new();
        (&mut file).take(PROBE).read_to_end(&mut probe).map_err(failed)?;
        if probe.contains(&0) {
            let why = "is not text; view_image shows images, and blob_load_file stores any file as a blob";
            return Err(place.unusable(why));
        }
        let mut reader = BufReader::new(probe.chain(file).take(MAX_READ));
        let mut page = Vec::new();
        let mut number = 1;
        loop {
            let mut line = Vec::new();
            let room = MAX_BYTES as u64 + 1;
            let read = (&mut reader).take(room).read_until(b'\n', &mut line).map_err(failed)?;
            if abandoned.is_cancelled() {
                return Err(Error::Interrupted);
            }
            if read == 0 {
                break;
            }
            if !line.ends_with(b"\n") && read as u64 == room {
                // Skip the rest of a line that is longer than the limit.
                reader.skip_until(b'\n').map_err(failed)?;
            }
            if number >= self.first {
                let full = page.len() + line.len() > MAX_BYTES;
                if number - self.first >= self.count || (full && !page.is_empty()) {
                    return Ok(self.with_note(&page, number));
                }
                page.extend_from_slice(&line[..line.len().min(MAX_BYTES)]);
            }
            number += 1;
        }
        if reader.get_ref().limit() == 0 {
            return self.cut_off(&page, place);
        }
        if page.is_empty() && number > 1 {
            return Ok(format!("[the file has {} lines]", number - 1));
        }
        Ok(self.text(&page))
    }

    /// Returns the page as text, without the start of a secret at the end of a truncated line.
    fn text(&self, page: &[u8]) -> String {
        let cut = if page.len() < MAX_BYTES { Cut::None } else { Cut::End };
        self.redactor.redact_cut(&String::from_utf8_lossy(page), cut).into_owned()
    }

    /// Returns the result if the rest of the file is beyond the read limit.
    fn cut_off(&self, page: &[u8], place: &WorkspacePath) -> Result<String, Error> {
        if page.is_empty() {
            let why = "is too long: a line that starts after the first 256 MB is not read";
            return Err(place.unusable(why));
        }
        Ok(format!("{}\n[only the first 256 MB of the file were read]", self.text(page)))
    }

    fn with_note(&self, page: &[u8], next: u64) -> String {
        let text = self.text(page);
        let end = if text.is_empty() || text.ends_with('\n') { "" } else { "\n" };
        format!("{text}{end}[lines {} to {}; more follow from offset {next}]", self.first, next - 1)
    }
}
