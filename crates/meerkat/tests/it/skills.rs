//! Skills as provided to agents, and as listed and shown by `meerkat_skills`.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use meerkat::skills::{Roots, Trust};
use meerkat::{
    Error, ErrorKind, NewSessionOptions, Runtime, RuntimeOptions, SkillKey, Skills, SkillsOptions,
    ToolOverlay, TurnOptions,
};
use meerkat_testkit::{Recorder, Scratch, Script, ScriptedModel};
use serde_json::{Value, json};

use crate::world::{answers, client_tool, fits, object, say, then, watch};

const EMBEDDED: &str = "00000000-0000-4b11-8111-000000000001";
const PROJECT: &str = "00000000-0000-4b11-8111-000000000002";

/// A runtime in a separate project.
struct Project {
    runtime: Runtime,
    model: Arc<ScriptedModel>,
    scratch: Scratch,
}

impl Project {
    fn new(script: impl IntoIterator<Item = Script>) -> Self {
        let scratch = Scratch::new();
        let model = ScriptedModel::new(script);
        let roots = Roots {
            project: Some(scratch.join("project")),
            home: Some(scratch.join("home")),
            ..Roots::default()
        };
        let options = RuntimeOptions {
            models: vec![Arc::clone(&model) as _],
            skills: Some(Skills::new(skills_options(roots))),
            ..RuntimeOptions::default()
        };
        Self { runtime: Runtime::ephemeral(options).unwrap(), model, scratch }
    }

    fn write(&self, name: &str, description: &str, body: &str) -> PathBuf {
        let dir = self.scratch.join("project/.rkat/skills").join(name);
        std::fs::create_dir_all(&dir).unwrap();
        let text = format!("---\nname: {name}\ndescription: {description}\n---\n{body}\n");
        std::fs::write(dir.join("SKILL.md"), text).unwrap();
        dir
    }

    async fn run(&self, turn: TurnOptions) -> Result<meerkat::RunResult, Error> {
        self.runtime.sessions().create(NewSessionOptions::default(), turn, Default::default()).await
    }

    async fn call(&self, name: &str, arguments: Value) -> Result<Value, Error> {
        let call = meerkat::operations::Call { runtime: self.runtime.clone(), control: Default::default() };
        meerkat::operations::find(name).unwrap().call(call, arguments).await.map(|reply| reply.json)
    }

    async fn configure(&self, patch: Value) {
        let change = meerkat::ConfigChange::Patch(object(patch));
        self.runtime.config().change(change, None).await.unwrap();
    }

    /// Returns the last system prompt after its first section, and the tools.
    fn last_request(&self) -> (String, Vec<String>) {
        let seen = self.model.seen().pop().unwrap();
        let rest = seen.system.split_once("\n\n").map(|(_, rest)| rest.to_owned()).unwrap_or_default();
        (rest, seen.tools)
    }
}

/// Options with which a run waits for its scan even on a busy machine.
fn skills_options(roots: Roots) -> SkillsOptions {
    SkillsOptions { scan_limit: Duration::from_secs(60), ..SkillsOptions::from_roots(roots) }
}

fn key(source: &str, name: &str) -> SkillKey {
    SkillKey { source_uuid: source.to_owned(), skill_name: name.to_owned() }
}

const TOOLS: [&str; 4] = ["browse_skills", "load_skill", "skill_list_resources", "skill_read_resource"];

#[tokio::test]
async fn user_skills_are_listed_in_the_prompt() {
    let project = Project::new([]);
    project.run(say("hi")).await.unwrap();
    assert_eq!(project.last_request(), (String::new(), vec![]), "no skills exist yet");
    project.write("deploy", "Ship <it> & see.", "Run the script.");
    project.run(say("hi")).await.unwrap();
    let (list, tools) = project.last_request();
    assert_eq!(tools, TOOLS);
    insta::assert_snapshot!(list, @r#"
    <available_skills>
    <skill id="00000000-0000-4b11-8111-000000000002/deploy"><description>Ship &lt;it> &amp; see.</description></skill>
    </available_skills>
    Read a skill with load_skill before you follow it; find more with browse_skills.
    "#);
}

#[tokio::test]
async fn companion_skills_are_listed_with_builtin_tools() {
    let project = Project::new([]);
    project.run(TurnOptions { builtins: Some(true), ..say("hi") }).await.unwrap();
    let (list, _) = project.last_request();
    let ids: Vec<_> = list.lines().filter_map(|line| line.split('"').nth(1)).collect();
    // Skills that need a capability missing from this realm are omitted.
    let mut names = vec!["hook-authoring", "mcp-server-setup", "meerkat-cli-reference", "meerkat-platform"];
    if cfg!(feature = "memory-store-session") {
        names.push("memory-retrieval");
    }
    assert_eq!(ids, names.iter().map(|n| format!("{EMBEDDED}/{n}")).collect::<Vec<_>>());
    project.configure(json!({"tools": {"builtins_enabled": true}})).await;
    project.run(say("hi")).await.unwrap();
    assert!(project.last_request().0.contains("/task-workflow"), "its capability is now available");
}

#[tokio::test]
async fn unreadable_skills_are_not_listed() {
    let project = Project::new([]);
    project.write("deploy", "Ship it.", "Run the script.");
    let nothing = (String::new(), vec![]);
    let overlay = ToolOverlay { allowed: None, blocked: TOOLS.map(str::to_owned).to_vec() };
    project.run(TurnOptions { overlay, ..say("hi") }).await.unwrap();
    assert_eq!(project.last_request(), nothing);
    let own = vec![client_tool("load_skill", None)];
    project.run(TurnOptions { tools: Some(own), ..say("hi") }).await.unwrap();
    assert_eq!(
        project.last_request(),
        (String::new(), vec!["load_skill".to_owned()]),
        "the tool is the caller's"
    );
    project.configure(json!({"skills": {"enabled": false}})).await;
    project.run(say("hi")).await.unwrap();
    assert_eq!(project.last_request(), nothing);
}

#[tokio::test]
async fn agent_reads_a_skill_with_its_tools() {
    let load = json!({"source_uuid": PROJECT, "skill_name": "deploy"});
    let project = Project::new([Script::call("a", "load_skill", load), Script::say("done")]);
    project.write("deploy", "Ship it.", "Run the script.");
    let done = project.run(say("ship")).await.unwrap();
    let page = project.runtime.sessions().history(done.session_id, 2, Some(1)).await.unwrap();
    let text = serde_json::to_string(&page.messages[0]).unwrap();
    assert!(text.contains("Run the script."), "{text}");
}

#[tokio::test]
async fn missing_preloaded_skill_is_a_warning() {
    let project = Project::new([]);
    let dir = project.write("deploy", "Ship it.", "Run </skill> it.");
    let turn = TurnOptions {
        preload_skills: Some(vec![key(PROJECT, "deploy")]),
        overlay: ToolOverlay { allowed: Some(vec![]), blocked: vec![] },
        instructions: Some(vec!["Be brief.".to_owned()]),
        ..say("hi")
    };
    let overlay = turn.overlay.clone();
    let recorder = Recorder::default();
    let sessions = project.runtime.sessions();
    let first = sessions.create(NewSessionOptions::default(), turn, watch(&recorder)).await.unwrap();
    let section = format!("<skill id=\"{PROJECT}/deploy\">\nRun &lt;/skill&gt; it.\n\n</skill>\n\nBe brief.");
    assert_eq!(project.last_request().0, section);
    assert!(recorder.types().starts_with(&["run_started".into(), "skills_resolved".into()]));

    std::fs::remove_dir_all(dir).unwrap();
    let again = TurnOptions { overlay, ..then("more") };
    let second = sessions.start_turn(first.session_id, again, Default::default()).await.unwrap();
    assert_eq!(project.last_request().0, "Be brief.");
    let missing = format!(
        "cannot load a preloaded skill: no skill has the key `{PROJECT}/deploy`; list skills with `meerkat_skills` \
         and the action `list`"
    );
    assert_eq!(second.warnings, [missing]);
}

#[tokio::test]
async fn run_skills_precede_the_prompt() {
    let project = Project::new([]);
    project.write("deploy", "Ship it.", "Run it.");
    project.configure(json!({"skills": {"max_injection_bytes": 4}})).await;
    let turn = TurnOptions { skills: vec![key(PROJECT, "deploy")], ..say("ship") };
    let id = project.run(turn).await.unwrap().session_id;
    let seen = project.model.seen().pop().unwrap();
    assert_eq!(
        seen.lines,
        [format!("user: <skill id=\"{PROJECT}/deploy\">\nRun \n[truncated]\n</skill>\nship")]
    );
    let empty = TurnOptions { skills: vec![key(PROJECT, "deploy")], ..answers([]) };
    let error = project.runtime.sessions().start_turn(id, empty, Default::default()).await;
    assert_eq!(error.unwrap_err().kind(), ErrorKind::InvalidParams, "a skill is not a prompt");
}

#[tokio::test]
async fn skills_in_use_survive_repeated_compaction() {
    let load = json!({"source_uuid": PROJECT, "skill_name": "review"});
    let project = Project::new([Script::call("a", "load_skill", load)]);
    project.write("deploy", "Ship it.", "Run </skill> it.");
    project.write("review", "Look at it.", "Read it.");
    project.write("large", "Too much.", &"word ".repeat(60));
    let often = json!({"auto_compact_threshold": 200, "min_turns_between_compactions": 1});
    project.configure(json!({"compaction": often})).await;
    let skills = vec![key(PROJECT, "large"), key(PROJECT, "deploy")];
    let id = project.run(TurnOptions { skills, ..say("ship") }).await.unwrap().session_id;
    let recorder = Recorder::default();
    for _ in 0..3 {
        let more = then(&"more ".repeat(200));
        project.runtime.sessions().start_turn(id, more, watch(&recorder)).await.unwrap();
    }
    assert!(recorder.by_type("compaction_completed").len() > 1);
    let context = project.model.seen().pop().unwrap().lines;
    let (_, carried) = context[0].split_once("still applies verbatim:\n\n").unwrap();
    let expected = format!(
        "<skill id=\"{PROJECT}/deploy\">\nRun &lt;/skill&gt; it.\n\n</skill>\n\n\
         <skill id=\"{PROJECT}/review\">\nRead it.\n\n</skill>",
    );
    assert_eq!(carried, expected);
    let requests = project.model.seen();
    let first = requests.iter().find(|request| request.lines[0].contains("[Context compacted]")).unwrap();
    let note = format!("read them again before relying on them: {PROJECT}/large");
    assert!(first.lines[0].ends_with(&note), "{}", first.lines[0]);
}

#[tokio::test]
async fn unavailable_skill_rejects_the_run() {
    let project = Project::new([]);
    let reference = |source: &str, name: &str| {
        json!({
            "prompt": "hi", "model": ScriptedModel::ID,
            "skill_refs": [{"kind": "structured", "source_uuid": source, "skill_name": name}],
        })
    };
    let preload = |name: &str| {
        json!({
            "prompt": "hi", "model": ScriptedModel::ID,
            "preload_skills": [{"source_uuid": EMBEDDED, "skill_name": name}],
        })
    };
    let cases = [
        (reference(PROJECT, "nothing"), ErrorKind::SkillNotFound),
        (reference("project", "deploy"), ErrorKind::InvalidParams),
        (reference(PROJECT, "../x"), ErrorKind::InvalidParams),
        (preload("nothing"), ErrorKind::SkillNotFound),
        (preload("shell-patterns"), ErrorKind::SkillNotFound),
    ];
    for (arguments, kind) in cases {
        let error = project.call("meerkat_run", arguments.clone()).await.unwrap_err();
        assert_eq!(error.kind(), kind, "{arguments}: {error}");
    }
    let strings = json!({"prompt": "hi", "skill_refs": [format!("{PROJECT}/deploy")]});
    assert_eq!(project.call("meerkat_run", strings).await.unwrap_err().kind(), ErrorKind::InvalidParams);
    assert_eq!(project.runtime.sessions().list(Default::default()).await.unwrap(), []);
    project.call("meerkat_run", preload("meerkat-platform")).await.unwrap();
}

#[tokio::test]
async fn skills_are_listed_with_their_source() {
    let project = Project::new([]);
    project.configure(json!({"tools": {"builtins_enabled": true}})).await;
    project.write("task-workflow", "Ours", "Ours.");
    let listed = project.call("meerkat_skills", json!({"action": "list"})).await.unwrap();
    fits("meerkat_skills", &listed);
    let find = |name: &str| -> Vec<&Value> {
        let skills = listed["skills"].as_array().unwrap().iter();
        skills.filter(|skill| skill["key"]["skill_name"] == name).collect()
    };
    let source = json!({
        "source_uuid": PROJECT, "display_name": "project", "transport_kind": "filesystem",
        "fingerprint": "filesystem:.rkat/skills", "status": "active",
    });
    let [ours, companion] = find("task-workflow")[..] else { panic!("{listed}") };
    assert_eq!(
        *ours,
        json!({
            "key": {"source_uuid": PROJECT, "skill_name": "task-workflow"},
            "name": "task-workflow", "description": "Ours", "scope": "project",
            "source": source, "is_active": true,
        })
    );
    assert_eq!(
        (&companion["name"], &companion["is_active"], &companion["shadowed_by"]),
        (&json!("Task Workflow"), &json!(false), &source)
    );
}

#[tokio::test]
async fn skill_is_shown_in_full() {
    let project = Project::new([]);
    project.write("deploy", "Ship it.", "# Deploy\n\nRun it.");
    let key = json!({"source_uuid": PROJECT, "skill_name": "deploy"});
    let inspect = |source: Value| json!({"action": "inspect", "skill_key": key, "source": source});
    let skill = project.call("meerkat_skills", inspect(json!(PROJECT))).await.unwrap();
    fits("meerkat_skills", &skill);
    assert_eq!(skill["body"], "# Deploy\n\nRun it.\n");
    assert_eq!(skill, project.call("meerkat_skills", inspect(Value::Null)).await.unwrap());
    let cases = [
        (json!({"action": "inspect"}), ErrorKind::InvalidParams),
        (json!({"action": "burn"}), ErrorKind::InvalidParams),
        (inspect(json!("somewhere")), ErrorKind::InvalidParams),
        (inspect(json!(EMBEDDED)), ErrorKind::SkillNotFound),
        (
            json!({"action": "inspect", "skill_key": {"source_uuid": PROJECT, "skill_name": "x"}}),
            ErrorKind::SkillNotFound,
        ),
    ];
    for (arguments, kind) in cases {
        let error = project.call("meerkat_skills", arguments.clone()).await.unwrap_err();
        assert_eq!(error.kind(), kind, "{arguments}: {error}");
    }
    project.configure(json!({"skills": {"enabled": false}})).await;
    let error = project.call("meerkat_skills", json!({"action": "list"})).await.unwrap_err();
    assert_eq!(
        (error.kind(), error.to_string()),
        (ErrorKind::CapabilityUnavailable, "skills are disabled (`skills.enabled`)".to_owned())
    );
}

#[tokio::test]
async fn remapped_key_resolves_to_its_skill() {
    let project = Project::new([]);
    project.write("deploy", "Ship it.", "Run it.");
    let old = json!({"source_uuid": EMBEDDED, "skill_name": "ship"});
    let new = json!({"source_uuid": PROJECT, "skill_name": "deploy"});
    let circle = json!({"source_uuid": EMBEDDED, "skill_name": "round"});
    // If a key is remapped twice, the first remap applies.
    let remaps =
        json!([{"from": old, "to": new}, {"from": circle, "to": circle}, {"from": old, "to": circle}]);
    project.configure(json!({"skills": {"identity": {"remaps": remaps}}})).await;
    let inspect = |key: &Value| json!({"action": "inspect", "skill_key": key});
    assert_eq!(project.call("meerkat_skills", inspect(&old)).await.unwrap()["key"], new);
    let error = project.call("meerkat_skills", inspect(&circle)).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::SkillResolutionFailed);
}

#[tokio::test]
async fn configured_directory_is_a_skill_source() {
    let project = Project::new([]);
    let dir = project.scratch.join("team/review");
    std::fs::create_dir_all(&dir).unwrap();
    std::fs::write(dir.join("SKILL.md"), "---\nname: review\ndescription: d\n---\nLook.\n").unwrap();
    let uuid = "11111111-1111-4111-8111-111111111111";
    let team = json!({
        "type": "filesystem", "name": "team", "source_uuid": uuid, "path": project.scratch.join("team"),
    });
    project.configure(json!({"skills": {"repositories": [team]}})).await;
    let key = json!({"source_uuid": uuid, "skill_name": "review"});
    let skill = project.call("meerkat_skills", json!({"action": "inspect", "skill_key": key})).await.unwrap();
    assert_eq!((&skill["source"]["display_name"], &skill["scope"]), (&json!("team"), &json!("user")));
    let twice = json!({"skills": {"repositories": [team, team]}});
    let change = meerkat::ConfigChange::Patch(object(twice));
    let error = project.runtime.config().change(change, None).await.unwrap_err().to_string();
    assert_eq!(
        error,
        "invalid config: `skills.repositories[1].source_uuid` is already used by another repository"
    );
    let mut reserved = team.clone();
    reserved["source_uuid"] = json!("00000000-0000-4b11-8111-000000000009");
    let change = meerkat::ConfigChange::Patch(object(json!({"skills": {"repositories": [reserved]}})));
    let error = project.runtime.config().change(change, None).await.unwrap_err().to_string();
    let expected = "invalid config: `skills.repositories[0].source_uuid` is reserved for a built-in source; \
                    generate another id";
    assert_eq!(error, expected);
}

#[tokio::test]
async fn skills_toml_adds_repositories() {
    let project = Project::new([]);
    let dir = project.scratch.join("team/review");
    std::fs::create_dir_all(&dir).unwrap();
    std::fs::write(dir.join("SKILL.md"), "---\nname: review\ndescription: d\n---\nLook.\n").unwrap();
    let uuid = "11111111-1111-4111-8111-111111111111";
    let text = format!(
        "max_injection_bytes = 2\n[[repositories]]\ntype = \"filesystem\"\nname = \"team\"\n\
         source_uuid = \"{uuid}\"\npath = \"{}\"\n",
        project.scratch.join("team").display()
    );
    std::fs::create_dir_all(project.scratch.join("home/.rkat")).unwrap();
    std::fs::write(project.scratch.join("home/.rkat/skills.toml"), text).unwrap();
    let turn = TurnOptions { skills: vec![key(uuid, "review")], ..say("go") };
    project.run(turn).await.unwrap();
    assert!(project.model.seen().pop().unwrap().lines[0].contains("\nLo\n[truncated]\n"));

    std::fs::create_dir_all(project.scratch.join("project/.rkat")).unwrap();
    std::fs::write(project.scratch.join("project/.rkat/skills.toml"), "repositories = 3\n").unwrap();
    project.call("meerkat_skills", json!({"action": "list"})).await.unwrap();
    let snapshot = project.runtime.skills().catalog().snapshot();
    let paths: Vec<_> = snapshot.problems().iter().map(|problem| &problem.path).collect();
    assert!(paths.contains(&&project.scratch.join("project/.rkat/skills.toml")), "{paths:?}");
    assert!(snapshot.by_name("review").is_ok(), "the other file still applies");
}

#[cfg(unix)]
#[tokio::test]
async fn slow_skills_file_does_not_block_other_tasks() {
    let project = Project::new([]);
    let file = project.scratch.join("home/.rkat/skills.toml");
    std::fs::create_dir_all(file.parent().unwrap()).unwrap();
    assert!(std::process::Command::new("mkfifo").arg(&file).status().unwrap().success());
    let (opened, is_open) = tokio::sync::oneshot::channel();
    let (done, is_done) = std::sync::mpsc::channel();
    let writer = std::thread::spawn(move || {
        // Opening the pipe waits for the reader, which then waits until the pipe is closed.
        let pipe = std::fs::File::options().write(true).open(&file).unwrap();
        opened.send(()).unwrap();
        let other_task_ran = is_done.recv_timeout(std::time::Duration::from_secs(20)).is_ok();
        std::fs::remove_file(file).unwrap();
        drop(pipe);
        other_task_ran
    });
    let other = async {
        is_open.await.unwrap();
        assert_eq!(project.runtime.skills().update().await.len(), 0);
        let _ = done.send(());
    };
    let (listed, ()) = tokio::join!(project.call("meerkat_skills", json!({"action": "list"})), other);
    listed.unwrap();
    assert!(writer.join().unwrap(), "another task waited for the file");
}

#[tokio::test]
async fn untrusted_skills_are_marked() {
    let scratch = Scratch::new();
    let dir = scratch.join("project/.agent/skills/deploy");
    std::fs::create_dir_all(&dir).unwrap();
    std::fs::write(dir.join("SKILL.md"), "---\nname: deploy\ndescription: d\n---\nRun it.\n").unwrap();
    let roots = Roots { project: Some(scratch.join("project")), trust: Trust::Untrusted, ..Roots::default() };
    let model = ScriptedModel::new([]);
    let options = RuntimeOptions {
        models: vec![Arc::clone(&model) as _],
        skills: Some(Skills::new(skills_options(roots))),
        ..RuntimeOptions::default()
    };
    let runtime = Runtime::ephemeral(options).unwrap();
    let agent = "00000000-0000-4b11-8111-000000000004";
    let turn = TurnOptions { skills: vec![key(agent, "deploy")], ..say("go") };
    runtime.sessions().create(NewSessionOptions::default(), turn, Default::default()).await.unwrap();
    let seen = model.seen().pop().unwrap();
    let mark = format!("<skill id=\"{agent}/deploy\" trusted=\"no\">");
    assert!(
        seen.system.contains(&mark) && seen.system.contains("the user has not trusted"),
        "{}",
        seen.system
    );
    assert!(seen.lines[0].contains(&mark), "{:?}", seen.lines);
}
