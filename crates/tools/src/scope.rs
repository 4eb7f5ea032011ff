//! Scopes of lasting approvals: further calls that a person would not distinguish from the approved one.
//!
//! A scope is as narrow as the arguments of a tool allow: the program that a command line runs, or the directory of the
//! touched files. If neither is known, it is the call itself.

use std::collections::BTreeSet;
use std::fmt;
use std::path::{Component, Path, PathBuf};

use meerkat_core::ToolCall;
use serde_json::{Map, Value};

use crate::blobs::{BlobLoadFile, BlobSaveFile};
use crate::builtin::Builtin as _;
use crate::files::{ReadFile, ViewImage};
use crate::patch::{ApplyPatch, patched_files};
use crate::shell::{Shell, program};

/// The calls that a lasting approval covers.
#[derive(Debug, Clone, PartialEq)]
pub struct ApprovalScope {
    tool: String,
    extent: Extent,
}

#[derive(Debug, Clone, PartialEq)]
enum Extent {
    /// Command lines that run only one program, with the same options.
    Program { words: Vec<String>, terms: Map<String, Value> },
    /// Files beneath a directory of the workspace.
    Directory { path: PathBuf, terms: Map<String, Value> },
    /// Some files of the workspace.
    Files { paths: BTreeSet<PathBuf>, terms: Map<String, Value> },
    /// Calls with the same arguments.
    Arguments(Value),
}

impl ApprovalScope {
    /// Returns the scope that a call is an example of.
    #[must_use]
    pub fn for_call(call: &ToolCall) -> Self {
        let extent = program_extent(call).or_else(|| files_extent(call));
        Self {
            tool: call.name.clone(),
            extent: extent.unwrap_or_else(|| Extent::Arguments(call.args.clone())),
        }
    }

    /// Returns `true` if a call is in the scope.
    #[must_use]
    pub fn covers(&self, call: &ToolCall) -> bool {
        if self.tool != call.name {
            return false;
        }
        match &self.extent {
            Extent::Program { .. } => program_extent(call).as_ref() == Some(&self.extent),
            Extent::Directory { path, terms } => {
                touched_files(call).is_some_and(|files| files.iter().all(|file| file.starts_with(path)))
                    && *terms == file_terms(call)
            }
            Extent::Files { paths, terms } => {
                touched_files(call).is_some_and(|files| files.is_subset(paths)) && *terms == file_terms(call)
            }
            Extent::Arguments(args) => *args == call.args,
        }
    }
}

impl fmt::Display for ApprovalScope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let tool = &self.tool;
        match &self.extent {
            Extent::Program { words, .. } => {
                write!(f, "`{tool}` commands that only run `{}`", words.join(" "))
            }
            Extent::Directory { path, .. } => write!(f, "`{tool}` on files in `{}/`", path.display()),
            Extent::Files { paths, .. } => {
                let names: Vec<_> = paths.iter().map(|path| format!("`{}`", path.display())).collect();
                write!(f, "`{tool}` on {}", names.join(", "))
            }
            Extent::Arguments(_) => write!(f, "`{tool}` with exactly these arguments"),
        }
    }
}

fn program_extent(call: &ToolCall) -> Option<Extent> {
    let mut terms = call.args.as_object().filter(|_| call.name == Shell::NAME)?.clone();
    let line = terms.remove("command")?;
    // A timeout does not change what a command does.
    terms.remove("timeout_secs");
    Some(Extent::Program { words: program(line.as_str()?)?, terms })
}

fn files_extent(call: &ToolCall) -> Option<Extent> {
    let (paths, terms) = (touched_files(call)?, file_terms(call));
    let mut parents = paths.iter().filter_map(|path| path.parent());
    let first = parents.next()?.to_owned();
    let common = parents.fold(first, |common, parent| {
        common.components().zip(parent.components()).take_while(|(a, b)| a == b).map(|(a, _)| a).collect()
    });
    // The workspace itself would cover everything.
    if common.as_os_str().is_empty() {
        return Some(Extent::Files { paths, terms });
    }
    Some(Extent::Directory { path: common, terms })
}

/// Returns the arguments, apart from files, that must be equal in other calls.
fn file_terms(call: &ToolCall) -> Map<String, Value> {
    let overwrite = call.args.get("overwrite").filter(|value| **value != Value::Bool(false));
    overwrite.map(|value| ("overwrite".to_owned(), value.clone())).into_iter().collect()
}

/// Returns the files that a call names; `None` if they are unknown or not clearly inside the workspace.
fn touched_files(call: &ToolCall) -> Option<BTreeSet<PathBuf>> {
    let text = |key: &str| call.args.get(key).and_then(Value::as_str);
    let names = match call.name.as_str() {
        ReadFile::NAME | ViewImage::NAME | BlobLoadFile::NAME | BlobSaveFile::NAME => {
            vec![text("path")?.to_owned()]
        }
        ApplyPatch::NAME => patched_files(text("patch")?)?,
        _ => return None,
    };
    let paths: Option<BTreeSet<_>> = names.iter().map(|name| workspace_path(name)).collect();
    paths.filter(|paths| !paths.is_empty())
}

fn workspace_path(name: &str) -> Option<PathBuf> {
    let parts = Path::new(name).components().filter(|part| *part != Component::CurDir);
    let path = parts
        .map(|part| matches!(part, Component::Normal(_)).then_some(part))
        .collect::<Option<PathBuf>>()?;
    path.file_name().is_some().then_some(path)
}

#[cfg(test)]
mod tests {
    use meerkat_core::ToolCall;
    use serde_json::{Value, json};

    use super::ApprovalScope;

    fn call(name: &str, args: Value) -> ToolCall {
        ToolCall { id: "call_1".to_owned(), name: name.to_owned(), args }
    }

    fn shell(command: &str) -> ToolCall {
        call("shell", json!({ "command": command }))
    }

    fn patch(files: &[&str]) -> ToolCall {
        let parts: String = files.iter().map(|file| format!("*** Delete File: {file}\n")).collect();
        call("apply_patch", json!({ "patch": format!("*** Begin Patch\n{parts}*** End Patch") }))
    }

    /// Checks which calls the scope of the first one covers, and how it is displayed.
    fn expect(first: &ToolCall, written: &str, covered: &[ToolCall], others: &[ToolCall]) {
        let scope = ApprovalScope::for_call(first);
        assert_eq!(scope.to_string(), written);
        for call in covered.iter().chain([first]) {
            assert!(scope.covers(call), "{written}: {call:?}");
        }
        for call in others {
            assert!(!scope.covers(call), "{written}: {call:?}");
        }
    }

    #[test]
    fn command_covers_only_its_program() {
        let elsewhere = call("shell", json!({ "command": "echo two", "working_dir": "sub" }));
        let slower = call("shell", json!({ "command": "echo two", "timeout_secs": 9 }));
        expect(
            &shell("echo one"),
            "`shell` commands that only run `echo`",
            &[shell("echo two three"), slower],
            &[shell("rm -rf sub"), shell("echo one; rm -rf sub"), shell("echo `rm x`"), elsewhere],
        );
        expect(
            &shell("git status"),
            "`shell` commands that only run `git status`",
            &[shell("git status -s")],
            &[shell("git push --force"), shell("git -C x status")],
        );
    }

    #[test]
    fn unbounded_command_covers_only_itself() {
        let written = "`shell` with exactly these arguments";
        expect(&shell("rm a"), written, &[], &[shell("rm -rf b"), shell("echo a")]);
        expect(&shell("ls | sort"), written, &[], &[shell("ls | sh")]);
    }

    #[test]
    fn file_covers_its_directory() {
        let read = |path: &str| call("read_file", json!({ "path": path }));
        expect(
            &read("src/a.rs"),
            "`read_file` on files in `src/`",
            &[read("./src/b.rs"), read("src/deep/c.rs")],
            &[read("src2/a.rs"), read("src/../key"), read("/src/a.rs"), read("a.rs"), patch(&["src/a.rs"])],
        );
        expect(&read("a.rs"), "`read_file` on `a.rs`", &[read("./a.rs")], &[read("b.rs"), read("src/a.rs")]);
    }

    #[test]
    fn patch_covers_common_directory_of_its_files() {
        expect(
            &patch(&["src/a/x.rs", "src/b/y.rs"]),
            "`apply_patch` on files in `src/`",
            &[patch(&["src/c.rs"])],
            &[patch(&["src/c.rs", "Cargo.toml"])],
        );
        expect(&patch(&["a", "b/c"]), "`apply_patch` on `a`, `b/c`", &[patch(&["a"])], &[patch(&["b/d"])]);
    }

    #[test]
    fn write_scope_does_not_cover_replacing() {
        let save = |overwrite: bool| {
            call("blob_save_file", json!({ "blob_id": "x", "path": "out/a.png", "overwrite": overwrite }))
        };
        expect(&save(false), "`blob_save_file` on files in `out/`", &[], &[save(true)]);
    }

    #[test]
    fn other_tools_cover_only_the_same_call() {
        let comment = |text: &str| call("github__comment", json!({ "path": "src/a", "text": text }));
        expect(&comment("a"), "`github__comment` with exactly these arguments", &[], &[comment("b")]);
    }
}
