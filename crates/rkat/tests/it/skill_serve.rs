//! `rkat skill serve`: the `skill` tool over stdio.

use std::fs;
use std::path::Path;

use meerkat_testkit::McpClient;
use serde_json::{Value, json};

use crate::support::Rkat;

fn write(rkat: &Rkat, file: &str, text: &str) {
    let path = rkat.work().join(file);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

fn skill(rkat: &Rkat, root: &str, name: &str, description: &str) {
    let text = format!("---\nname: {name}\ndescription: {description}\n---\n# {name}\n");
    write(rkat, &format!("{root}/{name}/SKILL.md"), &text);
}

fn serve(rkat: &Rkat) -> McpClient {
    let log = fs::File::create(rkat.work().join("stderr")).unwrap();
    let mut command = rkat.command(Path::new(env!("CARGO_BIN_EXE_rkat")));
    McpClient::start(command.args(["skill", "serve"]).stderr(log))
}

fn tools(client: &mut McpClient) -> Vec<Value> {
    client.request("tools/list", json!({}))["result"]["tools"].as_array().unwrap().clone()
}

fn load(client: &mut McpClient, arguments: &Value) -> Value {
    client.request("tools/call", json!({ "name": "skill", "arguments": arguments }))["result"].clone()
}

/// Waits until the client is notified that the tool list has changed.
fn wait_for_list_changed(client: &mut McpClient, seen: usize) {
    loop {
        client.request("ping", json!({}));
        let notices = &client.notifications()[seen..];
        if notices.iter().any(|notice| notice["method"] == "notifications/tools/list_changed") {
            return;
        }
    }
}

#[test]
fn tool_matches_documentation() {
    let rkat = Rkat::new();
    skill(&rkat, ".agent/skills", "git", "Git deployment workflow skill");
    let mut client = serve(&rkat);
    let [tool] = &tools(&mut client)[..] else { panic!() };
    assert_eq!((&tool["name"], &tool["title"]), (&json!("skill"), &json!("Load Skill")));
    let hints = json!({
        "readOnlyHint": true, "destructiveHint": false, "idempotentHint": true, "openWorldHint": false,
    });
    assert_eq!(tool["annotations"], hints);
    let name = json!({
        "type": "string", "minLength": 1, "description": "Name of the skill to load (case-insensitive)",
    });
    let schema = json!({
        "type": "object", "properties": { "name": name }, "required": ["name"], "additionalProperties": false,
    });
    assert_eq!(tool["inputSchema"], schema);
    insta::assert_snapshot!(tool["description"].as_str().unwrap(), @r#"
    Execute a skill within the main conversation

    <skills_instructions>
    When users ask you to perform tasks, check if any of the available skills below can help complete the task more effectively. Skills provide specialized capabilities and domain knowledge.

    How to use skills:
    - Invoke skills using this tool with the skill name only (no arguments)
    - When you invoke a skill, you will see <command-message>The "{name}" skill is loading</command-message>
    - The skill's prompt will expand and provide detailed instructions on how to complete the task
    - Examples:
      - `command: "pdf"` - invoke the pdf skill
      - `command: "xlsx"` - invoke the xlsx skill
      - `command: "ms-office-suite:pdf"` - invoke using fully qualified name

    Important:
    - Only use skills listed in <available_skills> below
    - Do not invoke a skill that is already running
    - Do not use this tool for built-in CLI commands (like /help, /clear, etc.)
    </skills_instructions>

    <available_skills>
    <skill>
    <name>git</name>
    <description>Git deployment workflow skill</description>
    <location>project</location>
    </skill>
    </available_skills>
    "#);
}

#[test]
fn skill_name_is_case_insensitive() {
    let rkat = Rkat::new();
    skill(&rkat, ".agent/skills", "mcp-builder", "MCP development");
    let mut client = serve(&rkat);
    let dir = rkat.work().join(".agent/skills/mcp-builder").canonicalize().unwrap();
    let text = format!(
        "Loading: mcp-builder\nBase directory: {}\n\n---\nname: mcp-builder\ndescription: MCP development\n---\n\
         # mcp-builder\n",
        dir.display()
    );
    for arguments in [
        json!({ "name": "mcp-builder" }),
        json!({ "name": "MCP-Builder" }),
        json!({ "command": "mcp-builder" }),
    ] {
        let result = load(&mut client, &arguments);
        assert_eq!(result["content"], json!([{ "type": "text", "text": text }]));
        assert_ne!(result["isError"], true);
    }
}

#[test]
fn unknown_skill_lists_available_skills() {
    let rkat = Rkat::new();
    skill(&rkat, ".agent/skills", "git", "Git workflow");
    skill(&rkat, ".agent/skills", "postgres", "PostgreSQL operations");
    let result = load(&mut serve(&rkat), &json!({ "name": "nonexistent" }));
    let text = "Skill 'nonexistent' not found.\n\nAvailable skills:\n- git: Git workflow\n\
                - postgres: PostgreSQL operations\n\nUse the exact skill name (case-insensitive) to load a skill.";
    assert_eq!(result["content"], json!([{ "type": "text", "text": text }]));
}

#[test]
fn invalid_arguments_are_rejected() {
    let rkat = Rkat::new();
    skill(&rkat, ".agent/skills", "git", "Git workflow");
    let mut client = serve(&rkat);
    let cases = [
        (json!({ "name": "" }), "Skill name cannot be empty"),
        (json!({}), "`name` is missing; give the skill's name"),
        (json!({ "name": "git", "more": 1 }), "unknown argument `more`; give the skill's `name`"),
        (
            json!({ "name": "../../../etc/passwd" }),
            "`../../../etc/passwd` is not a valid skill name: it has a path separator",
        ),
    ];
    for (arguments, message) in cases {
        let result = load(&mut client, &arguments);
        let body: Value = serde_json::from_str(result["content"][0]["text"].as_str().unwrap()).unwrap();
        assert_eq!(
            (&result["isError"], body),
            (&json!(true), json!({ "code": "INVALID_PARAMS", "message": message })),
            "{arguments}"
        );
    }
}

#[test]
fn project_skills_precede_home_skills() {
    let rkat = Rkat::new();
    skill(&rkat, "../home/.agent/skills", "git", "The user's");
    skill(&rkat, ".agent/skills", "git", "The project's");
    skill(&rkat, "../home/.claude/skills", "pdf", "The user's");
    // The project is not trusted, which does not change the order.
    let mut client = serve(&rkat);
    let loaded = load(&mut client, &json!({ "name": "git" }))["content"][0]["text"].to_string();
    assert!(loaded.contains("The project's"), "{loaded}");
    let description = tools(&mut client)[0]["description"].as_str().unwrap().to_owned();
    let list = description.split("<available_skills>").last().unwrap();
    let words: Vec<_> =
        list.lines().filter(|line| line.starts_with("<d") || line.starts_with("<l")).collect();
    assert_eq!(
        words,
        [
            "<description>The project's</description>",
            "<location>project</location>",
            "<description>The user's</description>",
            "<location>global</location>",
        ]
    );
}

#[test]
fn tool_list_follows_added_and_deleted_skills() {
    let rkat = Rkat::new();
    let mut client = serve(&rkat);
    assert_eq!(tools(&mut client), [Value::Null; 0], "without skills, no tool is listed");
    let seen = client.notifications().len();
    skill(&rkat, ".claude/skills", "git", "Git workflow");
    wait_for_list_changed(&mut client, seen);
    assert_eq!(tools(&mut client).len(), 1);
    let seen = client.notifications().len();
    fs::remove_dir_all(rkat.work().join(".claude/skills/git")).unwrap();
    wait_for_list_changed(&mut client, seen);
    assert_eq!(tools(&mut client), [Value::Null; 0]);
}

#[test]
fn malformed_skills_are_skipped_and_reported() {
    let rkat = Rkat::new();
    skill(&rkat, ".agent/skills", "good", "It works");
    write(&rkat, ".agent/skills/broken/SKILL.md", "---\nname: [broken\n");
    write(&rkat, ".agent/skills/nameless/SKILL.md", "---\ndescription: d\n---\nb\n");
    write(&rkat, ".agent/skills/dull/SKILL.md", "---\nname: dull\n---\nb\n");
    let unreadable = rkat.work().join(".agent/skills/closed");
    fs::create_dir_all(&unreadable).unwrap();
    // A directory in place of the file is unreadable for every user.
    fs::create_dir_all(unreadable.join("SKILL.md")).unwrap();
    let mut client = serve(&rkat);
    assert_ne!(load(&mut client, &json!({ "name": "good" }))["isError"], true);
    let names = tools(&mut client)[0]["description"].as_str().unwrap().matches("<name>").count();
    assert_eq!(names, 1);
    let log = fs::read_to_string(rkat.work().join("stderr")).unwrap();
    for name in ["broken", "nameless", "dull", "closed"] {
        assert!(log.contains(&format!(".agent/skills/{name}/SKILL.md")), "{name}: {log}");
    }
}

#[test]
fn server_exits_with_its_client() {
    let rkat = Rkat::new();
    skill(&rkat, ".agent/skills", "git", "Git workflow");
    let client = serve(&rkat);
    assert!(client.close().success());
}

#[test]
fn configured_repositories_are_served() {
    let rkat = Rkat::new();
    skill(&rkat, "../team", "review", "The team's");
    let team = rkat.work().parent().unwrap().join("team");
    let text = format!(
        "[[repositories]]\ntype = \"filesystem\"\nname = \"team\"\n\
         source_uuid = \"11111111-1111-4111-8111-111111111111\"\npath = \"{}\"\n",
        team.display()
    );
    write(&rkat, "../home/.rkat/skills.toml", &text);
    let loaded = load(&mut serve(&rkat), &json!({ "name": "review" }));
    assert!(loaded["content"][0]["text"].as_str().unwrap().starts_with("Loading: review\n"), "{loaded}");
}
