//! Built-in tools in sessions.

use std::collections::BTreeSet;

use meerkat::{
    Content, FileAccess, NewSessionOptions, Outcome, RunControl, RunInput, RunResult, Runtime,
    RuntimeOptions, ToolboxOptions, TurnOptions,
};
use meerkat_testkit::Scratch;

fn runtime(scratch: &Scratch) -> Runtime {
    let tools = ToolboxOptions { workspace: Some(scratch.path().to_owned()), ..ToolboxOptions::default() };
    Runtime::ephemeral(RuntimeOptions { tools, ..RuntimeOptions::default() }).unwrap()
}

fn say(text: &str, builtins: Option<bool>, shell: Option<bool>) -> TurnOptions {
    TurnOptions {
        input: RunInput { prompt: Content::text(text), ..RunInput::default() },
        builtins,
        shell,
        ..TurnOptions::default()
    }
}

fn answer(result: &RunResult) -> &str {
    let Outcome::Completed(done) = &result.report.outcome else { panic!("{result:?}") };
    &done.text
}

/// Returns the tools that the offline model lists.
async fn seen(builtins: Option<bool>, shell: Option<bool>) -> BTreeSet<String> {
    let scratch = Scratch::new();
    let turn = say("which tools do you have?", builtins, shell);
    let sessions = runtime(&scratch).sessions();
    let result = sessions.create(NewSessionOptions::default(), turn, RunControl::default()).await.unwrap();
    let words = answer(&result).split(|letter: char| !letter.is_alphanumeric() && letter != '_');
    let known = ["datetime", "read_file", "apply_patch", "task_create", "shell", "shell_jobs"];
    words.filter(|word| known.contains(word)).map(str::to_owned).collect()
}

#[tokio::test]
async fn builtin_tools_are_enabled_on_request() {
    let set = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<BTreeSet<_>>();
    let safe = ["datetime", "read_file", "apply_patch", "task_create"];
    assert_eq!(seen(None, None).await, set(&[]));
    assert_eq!(seen(Some(true), None).await, set(&safe));
    assert_eq!(seen(Some(true), Some(true)).await, &set(&safe) | &set(&["shell", "shell_jobs"]));
    assert_eq!(seen(Some(false), Some(true)).await, set(&[]));
}

#[tokio::test]
async fn read_only_files_stay_read_only_on_resume() {
    let scratch = Scratch::new();
    let file = scratch.path().join("file");
    std::fs::write(&file, "text").unwrap();
    let patch = r"*** Begin Patch\n*** Delete File: file\n*** End Patch";
    let delete = || say(&format!(r#"call apply_patch {{"patch": "{patch}"}}"#), None, None);
    let sessions = runtime(&scratch).sessions();
    let first = TurnOptions { files: Some(FileAccess::ReadOnly), builtins: Some(true), ..delete() };
    let done = sessions.create(NewSessionOptions::default(), first, RunControl::default()).await.unwrap();
    assert!(answer(&done).contains("no tool is named `apply_patch`"), "{}", answer(&done));
    let again = TurnOptions { builtins: Some(true), ..delete() };
    let again = sessions.start_turn(done.session_id, again, RunControl::default()).await.unwrap();
    assert!(answer(&again).contains("no tool is named `apply_patch`"), "{}", answer(&again));
    assert!(file.exists());
    let read = say(r#"call read_file {"path": "file"}"#, None, None);
    let read = sessions.start_turn(done.session_id, read, RunControl::default()).await.unwrap();
    assert_eq!(answer(&read), "read_file → text");
    let writing = TurnOptions { files: Some(FileAccess::ReadWrite), ..delete() };
    let wrote = sessions.start_turn(done.session_id, writing, RunControl::default()).await.unwrap();
    assert!(answer(&wrote).contains("deleted_files"), "{}", answer(&wrote));
    assert!(!file.exists());
}

#[tokio::test]
async fn tasks_persist_within_their_session() {
    let scratch = Scratch::new();
    let sessions = runtime(&scratch).sessions();
    let make = say(r#"call task_create {"subject": "first", "description": "d"}"#, Some(true), None);
    let one = sessions.create(NewSessionOptions::default(), make, RunControl::default()).await.unwrap();
    let list = || say("call task_list {}", None, None);
    let again = sessions.start_turn(one.session_id, list(), RunControl::default()).await.unwrap();
    assert!(answer(&again).contains(r#""subject":"first""#), "{}", answer(&again));
    let other = TurnOptions { builtins: Some(true), ..list() };
    let other = sessions.create(NewSessionOptions::default(), other, RunControl::default()).await.unwrap();
    assert_eq!(answer(&other), "task_list → []");
}
