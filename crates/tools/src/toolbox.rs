//! The tools of a runtime, and which of them a run gets.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use jiff::tz::TimeZone;
use meerkat_core::{Clock, FinishedJob, SessionId, Tool, ToolSource};

use crate::blobs::{BlobInspect, BlobLoadFile, BlobSaveFile};
use crate::builtin::tool;
use crate::clock::Datetime;
use crate::files::{ListFiles, ReadFile, Root, SearchFiles, ViewImage};
use crate::patch::ApplyPatch;
use crate::shelf::Shelf;
use crate::shell::{Host, Jobs, Shell, ShellJobCancel, ShellJobStatus, ShellJobs, ShellOptions};
use crate::tasks::{TaskBook, TaskCreate, TaskGet, TaskList, TaskUpdate};

/// Where tools work.
#[derive(Debug, Clone)]
pub struct ToolboxOptions {
    /// The workspace; without it there are no tools for files and no shell.
    pub workspace: Option<PathBuf>,
    /// The user's own folder, where secrets are.
    pub home: Option<PathBuf>,
    /// The folder for temporary files; `/tmp` if not given.
    pub temporary: Option<PathBuf>,
    /// More folders that commands must not see.
    pub private: Vec<PathBuf>,
    /// The environment; commands get the harmless part of it.
    pub environment: BTreeMap<String, String>,
    /// The program itself, which must call [`supervise`](meerkat_process::supervise) first thing. Without it there is
    /// no shell.
    pub supervisor: Option<PathBuf>,
    /// The time zone of `datetime`.
    pub zone: TimeZone,
}

impl Default for ToolboxOptions {
    fn default() -> Self {
        Self {
            workspace: None,
            home: None,
            temporary: None,
            private: Vec::new(),
            environment: BTreeMap::new(),
            supervisor: None,
            zone: TimeZone::UTC,
        }
    }
}

/// What a run wants of the tools.
#[derive(Debug, Clone, Default)]
pub struct Wanted {
    /// Whether its model reads pictures in tool results.
    pub images: bool,
    /// How commands are run; not at all without it.
    pub shell: Option<ShellOptions>,
}

/// The tools of a runtime.
pub struct Toolbox {
    common: Vec<Arc<dyn Tool>>,
    workspace: Option<Workspace>,
    shelf: Arc<dyn Shelf>,
    jobs: Arc<Jobs>,
}

struct Workspace {
    root: Arc<Root>,
    host: Arc<Host>,
    view_image: Arc<dyn Tool>,
}

impl Toolbox {
    /// Makes the tools. A workspace that cannot be opened is none.
    #[must_use]
    pub fn new(options: &ToolboxOptions, shelf: Arc<dyn Shelf>, clock: Arc<dyn Clock>) -> Self {
        let root = options.workspace.as_deref().and_then(|path| Root::open(path).ok()).map(Arc::new);
        let book = Arc::new(TaskBook::new(Arc::clone(&shelf), Arc::clone(&clock)));
        let mut common = vec![
            tool(Datetime { clock: Arc::clone(&clock), zone: options.zone.clone() }),
            tool(TaskCreate(Arc::clone(&book))),
            tool(TaskGet(Arc::clone(&book))),
            tool(TaskList(Arc::clone(&book))),
            tool(TaskUpdate(book)),
            tool(BlobInspect(Arc::clone(&shelf))),
        ];
        if let Some(root) = &root {
            common.extend(file_tools(root, &shelf));
        }
        let workspace = root.map(|root| Workspace {
            host: Arc::new(Host::new(options, root.path().to_owned())),
            view_image: tool(ViewImage(Arc::clone(&root))),
            root,
        });
        Self { common, workspace, shelf, jobs: Arc::new(Jobs::new(clock)) }
    }

    /// Offers the tools of a run.
    #[must_use]
    pub fn source(&self, session: SessionId, wanted: Wanted) -> Arc<dyn ToolSource> {
        let mut tools = self.common.clone();
        if let Some(workspace) = &self.workspace {
            if wanted.images {
                tools.push(Arc::clone(&workspace.view_image));
            }
            if let Some(options) = wanted.shell {
                tools.extend(self.shell_tools(workspace, options));
            }
        }
        Arc::new(Offer { session, tools, jobs: Arc::clone(&self.jobs) })
    }

    fn shell_tools(&self, workspace: &Workspace, options: ShellOptions) -> [Arc<dyn Tool>; 4] {
        let shell = Shell {
            host: Arc::clone(&workspace.host),
            root: Arc::clone(&workspace.root),
            shelf: Arc::clone(&self.shelf),
            jobs: Arc::clone(&self.jobs),
            options,
        };
        [
            tool(shell),
            tool(ShellJobs(Arc::clone(&self.jobs))),
            tool(ShellJobStatus(Arc::clone(&self.jobs))),
            tool(ShellJobCancel(Arc::clone(&self.jobs))),
        ]
    }

    /// Ends the jobs of a session.
    pub fn forget(&self, session: SessionId) {
        self.jobs.forget(session);
    }

    /// Ends all jobs.
    pub fn close(&self) {
        self.jobs.close();
    }
}

fn file_tools(root: &Arc<Root>, shelf: &Arc<dyn Shelf>) -> [Arc<dyn Tool>; 6] {
    let (root, shelf) = (|| Arc::clone(root), || Arc::clone(shelf));
    [
        tool(ReadFile(root())),
        tool(ListFiles(root())),
        tool(SearchFiles(root())),
        tool(ApplyPatch(root())),
        tool(BlobLoadFile { root: root(), shelf: shelf() }),
        tool(BlobSaveFile { root: root(), shelf: shelf() }),
    ]
}

struct Offer {
    session: SessionId,
    tools: Vec<Arc<dyn Tool>>,
    jobs: Arc<Jobs>,
}

impl ToolSource for Offer {
    fn tools(&self) -> Vec<Arc<dyn Tool>> {
        self.tools.clone()
    }

    fn finished(&self) -> Vec<FinishedJob> {
        self.jobs.finished(self.session)
    }
}
