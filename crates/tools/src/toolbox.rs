//! The tools of a runtime, and the selection for a run.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use meerkat_core::{Clock, FinishedJob, Redactor, SessionId, Tool, ToolSource};
use serde::{Deserialize, Serialize};

use crate::blobs::{BlobInspect, BlobLoadFile, BlobSaveFile};
use crate::builtin::tool;
use crate::clock::Datetime;
use crate::files::{ListFiles, ReadFile, Root, SearchFiles, ViewImage};
use crate::options::ToolboxOptions;
use crate::patch::ApplyPatch;
use crate::secrets::Secrets;
use crate::shell::{CommandRunner, Jobs, Shell, ShellJobCancel, ShellJobStatus, ShellJobs, ShellOptions};
use crate::storage::ToolStorage;
use crate::tasks::{TaskCreate, TaskGet, TaskList, TaskStore, TaskUpdate};

/// Permissions of the file tools.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FileAccess {
    /// Read, list, and search files.
    ReadOnly,
    /// Change, create, and delete files as well.
    #[default]
    ReadWrite,
}

/// The tools that a run selects.
#[derive(Debug, Clone, Default)]
pub struct ToolSelection {
    /// Whether its model reads images in tool results.
    pub images: bool,
    /// Permissions of the file tools. They do not restrict a shell.
    pub files: FileAccess,
    /// Options for running commands; if `None`, there is no shell.
    pub shell: Option<ShellOptions>,
    /// Additional secrets: paths that start with `~/` or `/`, or names of files in the workspace. An entry with `!`
    /// before it is not a secret.
    pub secrets: Vec<String>,
}

/// The tools of a runtime.
pub struct Toolbox {
    common: Vec<Arc<dyn Tool>>,
    workspace: Option<Workspace>,
    shelf: Arc<dyn ToolStorage>,
    jobs: Arc<Jobs>,
    redactor: Redactor,
}

struct Workspace {
    path: PathBuf,
    home: Option<PathBuf>,
    hidden_dirs: Vec<PathBuf>,
    host: Arc<CommandRunner>,
    /// The tools for the most recently requested secrets.
    kit: Mutex<Arc<FileTools>>,
}

/// The file tools, and the secrets hidden from them.
struct FileTools {
    secrets: Vec<String>,
    root: Arc<Root>,
    reading: Vec<Arc<dyn Tool>>,
    writing: Vec<Arc<dyn Tool>>,
    view_image: Arc<dyn Tool>,
}

impl Toolbox {
    /// Creates the tools. A workspace that cannot be opened is ignored. Texts are redacted where a tool truncates them.
    #[must_use]
    pub fn new(
        options: &ToolboxOptions,
        shelf: Arc<dyn ToolStorage>,
        clock: Arc<dyn Clock>,
        redactor: Redactor,
    ) -> Self {
        let book = Arc::new(TaskStore::new(Arc::clone(&shelf), Arc::clone(&clock)));
        let common = vec![
            tool(Datetime { clock: Arc::clone(&clock), zone: options.time_zone }),
            tool(TaskCreate(Arc::clone(&book))),
            tool(TaskGet(Arc::clone(&book))),
            tool(TaskList(Arc::clone(&book))),
            tool(TaskUpdate(book)),
            tool(BlobInspect(Arc::clone(&shelf))),
        ];
        let workspace = Workspace::open(options, &shelf, &redactor);
        let jobs = Arc::new(Jobs::new(clock, redactor.clone()));
        Self { common, workspace, shelf, jobs, redactor }
    }

    /// Returns a source of the selected tools for a run.
    #[must_use]
    pub fn source(&self, session: SessionId, wanted: ToolSelection) -> Arc<dyn ToolSource> {
        let mut tools = self.common.clone();
        if let Some(workspace) = &self.workspace
            && let Some(kit) = workspace.kit(wanted.secrets, &self.shelf, &self.redactor)
        {
            tools.extend(kit.reading.iter().cloned());
            if wanted.files == FileAccess::ReadWrite {
                tools.extend(kit.writing.iter().cloned());
            }
            if wanted.images {
                tools.push(Arc::clone(&kit.view_image));
            }
            if let Some(options) = wanted.shell {
                tools.extend(self.shell_tools(&workspace.host, &kit.root, options));
            }
        }
        Arc::new(RunTools { session, tools, jobs: Arc::clone(&self.jobs) })
    }

    fn shell_tools(
        &self,
        host: &Arc<CommandRunner>,
        root: &Arc<Root>,
        options: ShellOptions,
    ) -> [Arc<dyn Tool>; 4] {
        let shell = Shell {
            host: Arc::clone(host),
            root: Arc::clone(root),
            shelf: Arc::clone(&self.shelf),
            jobs: Arc::clone(&self.jobs),
            redactor: self.redactor.clone(),
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

impl Workspace {
    fn open(options: &ToolboxOptions, shelf: &Arc<dyn ToolStorage>, redactor: &Redactor) -> Option<Self> {
        let real = |path: &PathBuf| path.canonicalize().unwrap_or_else(|_| path.clone());
        let home = options.home.as_ref().map(real);
        let path = options.workspace.as_ref()?.canonicalize().ok()?;
        let secrets = Secrets::new(&[], home.as_deref(), &options.hidden_dirs);
        let kit = FileTools::new(Vec::new(), Root::open(&path, secrets).ok()?, shelf, redactor);
        let host = Arc::new(CommandRunner::new(options, path.clone()));
        Some(Self {
            path,
            home,
            hidden_dirs: options.hidden_dirs.clone(),
            host,
            kit: Mutex::new(Arc::new(kit)),
        })
    }

    /// Returns the tools for these secrets, or `None` if the workspace is gone.
    fn kit(
        &self,
        wanted: Vec<String>,
        shelf: &Arc<dyn ToolStorage>,
        redactor: &Redactor,
    ) -> Option<Arc<FileTools>> {
        let mut last = self.kit.lock().unwrap_or_else(PoisonError::into_inner);
        if last.secrets != wanted {
            let secrets = Secrets::new(&wanted, self.home.as_deref(), &self.hidden_dirs);
            let root = Root::open(&self.path, secrets).ok()?;
            *last = Arc::new(FileTools::new(wanted, root, shelf, redactor));
        }
        Some(Arc::clone(&last))
    }
}

impl FileTools {
    fn new(secrets: Vec<String>, root: Root, shelf: &Arc<dyn ToolStorage>, redactor: &Redactor) -> Self {
        let own = Arc::new(root);
        let (root, shelf) = (|| Arc::clone(&own), || Arc::clone(shelf));
        let reading = vec![
            tool(ReadFile { root: root(), redactor: redactor.clone() }),
            tool(ListFiles(root())),
            tool(SearchFiles { root: root(), redactor: redactor.clone() }),
            tool(BlobLoadFile { root: root(), shelf: shelf() }),
        ];
        let writing = vec![tool(ApplyPatch(root())), tool(BlobSaveFile { root: root(), shelf: shelf() })];
        Self { secrets, reading, writing, view_image: tool(ViewImage(root())), root: own }
    }
}

struct RunTools {
    session: SessionId,
    tools: Vec<Arc<dyn Tool>>,
    jobs: Arc<Jobs>,
}

impl ToolSource for RunTools {
    fn tools(&self) -> Vec<Arc<dyn Tool>> {
        self.tools.clone()
    }

    fn take_finished_jobs(&self) -> Vec<FinishedJob> {
        self.jobs.finished(self.session)
    }
}
