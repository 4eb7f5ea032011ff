//! Skills as agents get them, and as `meerkat_skills` lists and shows them.

use std::path::PathBuf;
use std::sync::Arc;

use meerkat::skill::{Roots, Trust};
use meerkat::{
    Error, ErrorKind, NewSessionOptions, Runtime, RuntimeOptions, SkillKey, Skills, SkillsOptions,
    ToolOverlay, TurnOptions,
};
use meerkat_testkit::{Recorder, Scratch, Script, ScriptedModel};
use serde_json::{Value, json};

use crate::world::{answers, client_tool, fits, object, say, then, watch};

const EMBEDDED: &str = "00000000-0000-4b11-8111-000000000001";
const PROJECT: &str = "00000000-0000-4b11-8111-000000000002";

/// A runtime in a project of its own.
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
            skills: Some(Skills::new(SkillsOptions::of(roots))),
            ..RuntimeOptions::default()
        };
        Self { runtime: Runtime::ephemeral(options).unwrap(), model, scratch }
    }

    fn write(&self, name: &str, description: &str, body: &str) -> PathBuf {
        let folder = self.scratch.join("project/.rkat/skills").join(name);
        std::fs::create_dir_all(&folder).unwrap();
        let text = format!("---\nname: {name}\ndescription: {description}\n---\n{body}\n");
        std::fs::write(folder.join("SKILL.md"), text).unwrap();
        folder
    }

    async fn run(&self, turn: TurnOptions) -> Result<meerkat::RunResult, Error> {
        self.runtime.sessions().create(NewSessionOptions::default(), turn, Default::default()).await
    }

    async fn call(&self, name: &str, arguments: Value) -> Result<Value, Error> {
        let call = meerkat::ops::Call { runtime: self.runtime.clone(), control: Default::default() };
        meerkat::ops::find(name).unwrap().call(call, arguments).await
    }

    async fn configure(&self, patch: Value) {
        let change = meerkat::ConfigChange::Patch(object(patch));
        self.runtime.config().change(change, None).await.unwrap();
    }

    /// What the model was told last: the system prompt beyond its first sentences, and the tools.
    fn told(&self) -> (String, Vec<String>) {
        let seen = self.model.seen().pop().unwrap();
        let rest = seen.system.split_once("\n\n").map(|(_, rest)| rest.to_owned()).unwrap_or_default();
        (rest, seen.tools)
    }
}

fn key(source: &str, name: &str) -> SkillKey {
    SkillKey { source_uuid: source.to_owned(), skill_name: name.to_owned() }
}

const TOOLS: [&str; 4] = ["browse_skills", "load_skill", "skill_list_resources", "skill_read_resource"];

#[tokio::test]
async fn agents_are_told_of_the_skills_that_people_brought() {
    let project = Project::new([]);
    project.run(say("hi")).await.unwrap();
    assert_eq!(project.told(), (String::new(), vec![]), "there are none");
    project.write("deploy", "Ship <it> & see.", "Run the script.");
    project.run(say("hi")).await.unwrap();
    let (list, tools) = project.told();
    assert_eq!(tools, TOOLS);
    insta::assert_snapshot!(list, @r#"
    <available_skills>
    <skill id="00000000-0000-4b11-8111-000000000002/deploy"><description>Ship &lt;it> &amp; see.</description></skill>
    </available_skills>
    Read a skill with load_skill before you follow it; find more with browse_skills.
    "#);
}

#[tokio::test]
async fn those_who_have_built_in_tools_are_told_how_to_use_them() {
    let project = Project::new([]);
    project.run(TurnOptions { builtins: Some(true), ..say("hi") }).await.unwrap();
    let (list, _) = project.told();
    let ids: Vec<_> = list.lines().filter_map(|line| line.split('"').nth(1)).collect();
    // What needs a capability that this realm lacks is not there.
    let mut names = vec!["hook-authoring", "mcp-server-setup", "meerkat-cli-reference", "meerkat-platform"];
    if cfg!(feature = "memory-store-session") {
        names.push("memory-retrieval");
    }
    assert_eq!(ids, names.iter().map(|n| format!("{EMBEDDED}/{n}")).collect::<Vec<_>>());
    project.configure(json!({"tools": {"builtins_enabled": true}})).await;
    project.run(say("hi")).await.unwrap();
    assert!(project.told().0.contains("/task-workflow"), "its capability is available now");
}

#[tokio::test]
async fn nobody_is_told_of_skills_that_cannot_be_read() {
    let project = Project::new([]);
    project.write("deploy", "Ship it.", "Run the script.");
    let nothing = (String::new(), vec![]);
    let overlay = ToolOverlay { allowed: None, blocked: TOOLS.map(str::to_owned).to_vec() };
    project.run(TurnOptions { overlay, ..say("hi") }).await.unwrap();
    assert_eq!(project.told(), nothing);
    let own = vec![client_tool("load_skill", None)];
    project.run(TurnOptions { tools: Some(own), ..say("hi") }).await.unwrap();
    assert_eq!(project.told(), (String::new(), vec!["load_skill".to_owned()]), "it is the caller's");
    project.configure(json!({"skills": {"enabled": false}})).await;
    project.run(say("hi")).await.unwrap();
    assert_eq!(project.told(), nothing);
}

#[tokio::test]
async fn an_agent_reads_a_skill_with_its_tools() {
    let load = json!({"source_uuid": PROJECT, "skill_name": "deploy"});
    let project = Project::new([Script::call("a", "load_skill", load), Script::say("done")]);
    project.write("deploy", "Ship it.", "Run the script.");
    let done = project.run(say("ship")).await.unwrap();
    let page = project.runtime.sessions().history(done.session_id, 2, Some(1)).await.unwrap();
    let text = serde_json::to_string(&page.messages[0]).unwrap();
    assert!(text.contains("Run the script."), "{text}");
}

#[tokio::test]
async fn preloaded_skills_stay_in_the_system_prompt_and_a_lost_one_is_told() {
    let project = Project::new([]);
    let folder = project.write("deploy", "Ship it.", "Run </skill> it.");
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
    assert_eq!(project.told().0, section);
    assert!(recorder.types().starts_with(&["run_started".into(), "skills_resolved".into()]));

    std::fs::remove_dir_all(folder).unwrap();
    let again = TurnOptions { overlay, ..then("more") };
    let second = sessions.start_turn(first.session_id, again, Default::default()).await.unwrap();
    assert_eq!(project.told().0, "Be brief.");
    let missing = format!(
        "a skill of this session is missing: no skill has the key `{PROJECT}/deploy`; `meerkat_skills` with the \
         action `list` shows those there are"
    );
    assert_eq!(second.warnings, [missing]);
}

#[tokio::test]
async fn skills_of_one_run_stand_before_what_the_user_says() {
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
    let refused = project.runtime.sessions().start_turn(id, empty, Default::default()).await;
    assert_eq!(refused.unwrap_err().kind(), ErrorKind::InvalidParams, "a skill is no prompt");
}

#[tokio::test]
async fn skills_in_use_are_read_word_for_word_however_often_a_conversation_is_shortened() {
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
    assert!(recorder.of_type("compaction_completed").len() > 1);
    let context = project.model.seen().pop().unwrap().lines;
    let (_, kept) = context[0].split_once("word for word:\n\n").unwrap();
    let expected = format!(
        "<skill id=\"{PROJECT}/deploy\">\nRun &lt;/skill&gt; it.\n\n</skill>\n\n\
         <skill id=\"{PROJECT}/review\">\nRead it.\n\n</skill>",
    );
    assert_eq!(kept, expected);
    let requests = project.model.seen();
    let first = requests.iter().find(|request| request.lines[0].contains("[Context compacted]")).unwrap();
    let told = format!("read it again before you rely on it: {PROJECT}/large");
    assert!(first.lines[0].ends_with(&told), "{}", first.lines[0]);
}

#[tokio::test]
async fn a_skill_that_cannot_be_had_refuses_the_run() {
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
async fn skills_are_listed_with_where_they_come_from() {
    let project = Project::new([]);
    project.configure(json!({"tools": {"builtins_enabled": true}})).await;
    project.write("task-workflow", "Ours", "Ours.");
    let listed = project.call("meerkat_skills", json!({"action": "list"})).await.unwrap();
    fits("meerkat_skills", &listed);
    let of = |name: &str| -> Vec<&Value> {
        let skills = listed["skills"].as_array().unwrap().iter();
        skills.filter(|skill| skill["key"]["skill_name"] == name).collect()
    };
    let source = json!({
        "source_uuid": PROJECT, "display_name": "project", "transport_kind": "filesystem",
        "fingerprint": "filesystem:.rkat/skills", "status": "active",
    });
    let [ours, companion] = of("task-workflow")[..] else { panic!("{listed}") };
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
async fn one_skill_is_shown_in_full() {
    let project = Project::new([]);
    project.write("deploy", "Ship it.", "# Deploy\n\nRun it.");
    let wanted = json!({"source_uuid": PROJECT, "skill_name": "deploy"});
    let inspect = |source: Value| json!({"action": "inspect", "skill_key": wanted, "source": source});
    let shown = project.call("meerkat_skills", inspect(json!(PROJECT))).await.unwrap();
    fits("meerkat_skills", &shown);
    assert_eq!(shown["body"], "# Deploy\n\nRun it.\n");
    assert_eq!(shown, project.call("meerkat_skills", inspect(Value::Null)).await.unwrap());
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
        (ErrorKind::CapabilityUnavailable, "skills are switched off (`skills.enabled`)".to_owned())
    );
}

#[tokio::test]
async fn a_key_that_has_changed_still_leads_to_its_skill() {
    let project = Project::new([]);
    project.write("deploy", "Ship it.", "Run it.");
    let old = json!({"source_uuid": EMBEDDED, "skill_name": "ship"});
    let new = json!({"source_uuid": PROJECT, "skill_name": "deploy"});
    let circle = json!({"source_uuid": EMBEDDED, "skill_name": "round"});
    // Of two remaps of one key the first counts.
    let remaps =
        json!([{"from": old, "to": new}, {"from": circle, "to": circle}, {"from": old, "to": circle}]);
    project.configure(json!({"skills": {"identity": {"remaps": remaps}}})).await;
    let inspect = |key: &Value| json!({"action": "inspect", "skill_key": key});
    assert_eq!(project.call("meerkat_skills", inspect(&old)).await.unwrap()["key"], new);
    let error = project.call("meerkat_skills", inspect(&circle)).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::SkillResolutionFailed);
}

#[tokio::test]
async fn a_configured_folder_is_a_source_like_another() {
    let project = Project::new([]);
    let folder = project.scratch.join("team/review");
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join("SKILL.md"), "---\nname: review\ndescription: d\n---\nLook.\n").unwrap();
    let uuid = "11111111-1111-4111-8111-111111111111";
    let team = json!({
        "type": "filesystem", "name": "team", "source_uuid": uuid, "path": project.scratch.join("team"),
    });
    project.configure(json!({"skills": {"repositories": [team]}})).await;
    let key = json!({"source_uuid": uuid, "skill_name": "review"});
    let shown = project.call("meerkat_skills", json!({"action": "inspect", "skill_key": key})).await.unwrap();
    assert_eq!((&shown["source"]["display_name"], &shown["scope"]), (&json!("team"), &json!("user")));
    let twice = json!({"skills": {"repositories": [team, team]}});
    let change = meerkat::ConfigChange::Patch(object(twice));
    let refused = project.runtime.config().change(change, None).await.unwrap_err().to_string();
    assert_eq!(refused, "invalid config: `skills.repositories[1].source_uuid` is that of another repository");
    let mut reserved = team.clone();
    reserved["source_uuid"] = json!("00000000-0000-4b11-8111-000000000009");
    let change = meerkat::ConfigChange::Patch(object(json!({"skills": {"repositories": [reserved]}})));
    let refused = project.runtime.config().change(change, None).await.unwrap_err().to_string();
    let expected = "invalid config: `skills.repositories[0].source_uuid` is that of a place that is always there; \
                    make another one";
    assert_eq!(refused, expected);
}

#[tokio::test]
async fn files_beside_the_config_name_further_places() {
    let project = Project::new([]);
    let folder = project.scratch.join("team/review");
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join("SKILL.md"), "---\nname: review\ndescription: d\n---\nLook.\n").unwrap();
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
    let snapshot = project.runtime.skills().catalogue().snapshot();
    let told: Vec<_> = snapshot.problems().iter().map(|problem| &problem.path).collect();
    assert!(told.contains(&&project.scratch.join("project/.rkat/skills.toml")), "{told:?}");
    assert!(snapshot.by_name("review").is_ok(), "the other file still counts");
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
        // Opening it waits for the reader, which then waits until it is closed.
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
async fn skills_of_a_folder_that_is_not_trusted_are_marked() {
    let scratch = Scratch::new();
    let folder = scratch.join("project/.agent/skills/deploy");
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join("SKILL.md"), "---\nname: deploy\ndescription: d\n---\nRun it.\n").unwrap();
    let roots = Roots { project: Some(scratch.join("project")), trust: Trust::Untrusted, ..Roots::default() };
    let model = ScriptedModel::new([]);
    let options = RuntimeOptions {
        models: vec![Arc::clone(&model) as _],
        skills: Some(Skills::new(SkillsOptions::of(roots))),
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
