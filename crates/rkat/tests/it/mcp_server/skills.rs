//! Skills over MCP: the tool, resources, prompts, and the extension, and propagation of changes to all of them.

use std::fs;

use meerkat_testkit::{McpClient, eventually};
use serde_json::{Value, json};
use sha2::Digest as _;

use super::support::TestEnv;

/// Starts a server with a project.
fn server(env: &TestEnv) -> McpClient {
    fs::create_dir_all(env.path("project")).unwrap();
    let project = env.path("project");
    McpClient::start(&mut env.command(&["--realm", "test", "--context-root", project.to_str().unwrap()]))
}

fn write(env: &TestEnv, name: &str, description: &str, body: &str) {
    let dir = env.path("project/.agent/skills").join(name);
    fs::create_dir_all(&dir).unwrap();
    let text = format!("---\nname: {name}\ndescription: {description}\n---\n{body}\n");
    fs::write(dir.join("SKILL.md"), text).unwrap();
}

fn tool(client: &mut McpClient) -> Value {
    let listed = client.request("tools/list", json!({}))["result"]["tools"].clone();
    listed.as_array().unwrap().iter().find(|tool| tool["name"] == "skill").cloned().unwrap_or_default()
}

fn load(client: &mut McpClient, name: &str) -> (bool, String) {
    let call = json!({ "name": "skill", "arguments": { "name": name } });
    let result = client.request("tools/call", call)["result"].clone();
    (result["isError"] == true, result["content"][0]["text"].as_str().unwrap_or_default().to_owned())
}

fn names(client: &mut McpClient, method: &str, list: &str) -> Vec<String> {
    let listed = client.request(method, json!({}))["result"][list].clone();
    listed.as_array().unwrap().iter().map(|one| one["name"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn current_directory_takes_precedence() {
    let env = TestEnv::new();
    let dir = env.path("project/pkg/.agent/skills/deploy");
    fs::create_dir_all(&dir).unwrap();
    let text = "---\nname: deploy\ndescription: Of the package.\n---\nPackage.\n";
    fs::write(dir.join("SKILL.md"), text).unwrap();
    write(&env, "deploy", "Of the project.", "Project.");
    let (project, package) = (env.path("project"), env.path("project/pkg"));
    let mut command = env.command(&["--realm", "test", "--context-root", project.to_str().unwrap()]);
    let mut client = McpClient::start(command.current_dir(package));
    assert!(load(&mut client, "deploy").1.ends_with("Package.\n"));
    assert!(load(&mut client, "deploy@project-agent").1.ends_with("Project.\n"));
    let run = json!({ "prompt": "call browse_skills {\"query\":\"deploy\"}\nthen\nsay done" });
    let session = client.expect_tool("meerkat_run", run)["session_id"].clone();
    let history = client.expect_tool("meerkat_history", json!({ "session_id": session })).to_string();
    assert!(history.contains("Of the package."), "{history}");
}

#[test]
fn skill_is_the_same_in_every_view() {
    let env = TestEnv::new();
    write(&env, "deploy", "Ship <it>.", "# Deploy\n\nShip $ARGUMENTS now.");
    let dir = env.path("project/.agent/skills/deploy");
    fs::create_dir_all(dir.join("scripts")).unwrap();
    fs::write(dir.join("scripts/run.sh"), "echo hi\n").unwrap();
    fs::write(dir.join("logo.png"), [0x89, b'P', 0xff]).unwrap();
    let mut client = server(&env);
    let text = fs::read_to_string(dir.join("SKILL.md")).unwrap();
    let base = dir.canonicalize().unwrap().display().to_string();
    let skill_tool = tool(&mut client);
    let listed = "<skill>\n<name>deploy</name>\n<description>Ship &lt;it>.</description>\n\
                  <location>project</location>\n</skill>";
    assert!(skill_tool["description"].as_str().unwrap().contains(listed), "{skill_tool}");
    assert_eq!(
        load(&mut client, "DEPLOY"),
        (false, format!("Loading: deploy\nBase directory: {base}\n\n{text}"))
    );
    let (is_error, answer) = load(&mut client, "nothing");
    assert!(!is_error && answer.starts_with("Skill 'nothing' not found.\n\nAvailable skills:\n- deploy: "));
    let key = json!({ "source_uuid": "00000000-0000-4b11-8111-000000000004", "skill_name": "deploy" });
    let inspected = client.expect_tool("meerkat_skills", json!({ "action": "inspect", "skill_key": key }));
    assert_eq!(inspected["body"], "# Deploy\n\nShip $ARGUMENTS now.\n");

    let uri = "skill://deploy/SKILL.md";
    let read = client.request("resources/read", json!({ "uri": uri }))["result"]["contents"].clone();
    assert_eq!(read, json!([{ "uri": uri, "mimeType": "text/markdown", "text": text }]));
    let prompt = json!({ "name": "deploy", "arguments": { "arguments": "to production" } });
    let prompt = client.request("prompts/get", prompt)["result"]["messages"].clone();
    let expected = format!("Base directory of this skill: {base}\n\n# Deploy\n\nShip to production now.");
    assert_eq!(prompt, json!([{ "role": "user", "content": { "type": "text", "text": expected } }]));

    let entry = client.request("skills/get", json!({ "uri": uri }))["result"]["skill"].clone();
    assert_eq!(entry["frontmatter"], json!({ "name": "deploy", "description": "Ship <it>." }));
    let digest = |bytes: &[u8]| {
        let hex: String = sha2::Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect();
        format!("sha256:{hex}")
    };
    let files = ["SKILL.md", "logo.png", "scripts/run.sh"].map(|file| {
        let bytes = fs::read(dir.join(file)).unwrap();
        json!({ "uri": format!("skill://deploy/{file}"), "digest": digest(&bytes), "size": bytes.len() })
    });
    assert_eq!(entry["resources"], json!(files));
    let all = client.request("skills/list", json!({}))["result"].clone();
    assert!(all["skills"].as_array().unwrap().contains(&entry), "{all}");
    let image = client.request("resources/read", json!({ "uri": "skill://deploy/logo.png" }));
    assert_eq!(image["result"]["contents"][0]["blob"], "iVD/");
    let children = client.request("resources/directory/read", json!({ "uri": "skill://deploy" }));
    let children: Vec<_> = children["result"]["resources"].as_array().unwrap().iter().collect();
    assert_eq!(children.len(), 3);
    assert_eq!(
        *children[2],
        json!({ "uri": "skill://deploy/scripts", "name": "scripts", "mimeType": "inode/directory" })
    );
}

#[test]
fn extension_is_declared_with_cache_hints() {
    let env = TestEnv::new();
    let mut client = McpClient::spawn(&mut env.command(&["--realm", "test"]));
    let meta = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": { "name": "it", "version": "0" },
        "io.modelcontextprotocol/clientCapabilities": {},
    });
    let discovered = client.request("server/discover", json!({ "_meta": meta }));
    let extensions = &discovered["result"]["capabilities"]["extensions"];
    assert_eq!(
        extensions["io.modelcontextprotocol/skills"],
        json!({ "directoryRead": true }),
        "{discovered}"
    );
    let listed = client.request("skills/list", json!({ "_meta": meta }))["result"].clone();
    assert_eq!(
        (&listed["resultType"], &listed["ttlMs"], &listed["cacheScope"]),
        (&json!("complete"), &json!(0), &json!("private")),
        "{listed}"
    );
}

#[test]
fn paths_outside_a_skill_are_rejected() {
    let env = TestEnv::new();
    write(&env, "deploy", "d", "b");
    fs::write(env.path("secret"), "secret").unwrap();
    #[cfg(unix)]
    std::os::unix::fs::symlink(env.path("secret"), env.path("project/.agent/skills/deploy/link.md")).unwrap();
    let mut client = server(&env);
    for uri in [
        "skill://deploy/../../../secret",
        "skill://deploy/..%2f..%2fsecret",
        "skill://deploy/%2e%2e/SKILL.md",
        "skill://deploy/link.md",
        "skill://deploy//etc/passwd",
        "skill://../SKILL.md",
        "skill://deploy/SKILL.md%00",
        "skill://nothing/SKILL.md",
        "file:/etc/passwd",
    ] {
        let reply = client.request("resources/read", json!({ "uri": uri }));
        assert_eq!((&reply["error"]["code"], &reply["error"]["data"]["uri"]), (&json!(-32002), &json!(uri)));
        for method in ["skills/get", "resources/directory/read"] {
            assert_eq!(
                client.request(method, json!({ "uri": uri }))["error"]["code"],
                -32602,
                "{method} {uri}"
            );
        }
    }
    for name in ["../../../etc/passwd", ".ssh/id_rsa", "", " ", "a\0b"] {
        let (is_error, message) = load(&mut client, name);
        let body: Value = serde_json::from_str(&message).unwrap();
        assert!(is_error && body["code"] == "INVALID_PARAMS", "{name:?}: {message}");
    }
    assert_eq!(client.request("skills/get", json!({}))["error"]["code"], -32602);
    assert_eq!(client.request("skills/list", json!({ "cursor": "x" }))["error"]["code"], -32602);
}

/// Waits for a notification after the first `seen` ones.
fn wait_for_notification(client: &mut McpClient, seen: &mut usize, method: &str, uri: Option<&str>) {
    let fits =
        |notice: &Value| notice["method"] == method && uri.is_none_or(|uri| notice["params"]["uri"] == uri);
    eventually(&format!("{method} is received"), || {
        client.request("ping", json!({}));
        client.notifications()[*seen..].iter().any(fits)
    });
}

#[test]
fn skill_changes_reach_every_view() {
    let env = TestEnv::new();
    let mut client = server(&env);
    let lists = ["tools", "prompts", "resources"].map(|list| format!("notifications/{list}/list_changed"));
    let key = json!({ "source_uuid": "00000000-0000-4b11-8111-000000000004", "skill_name": "deploy" });
    let inspect = json!({ "action": "inspect", "skill_key": key });
    // The agent calls a skill tool, which it has only if it knows of a skill.
    let agent = |client: &mut McpClient| {
        let run = client.tool("meerkat_run", json!({ "prompt": "call browse_skills {}" }));
        let session = run.payload["session_id"].clone();
        client.expect_tool("meerkat_history", json!({ "session_id": session })).to_string()
    };
    assert_eq!(client.tool("meerkat_skills", inspect.clone()).payload["code"], "SKILL_NOT_FOUND");
    assert!(!agent(&mut client).contains("deploy"));

    let mut seen = client.notifications().len();
    write(&env, "deploy", "One", "First.");
    for list in &lists {
        wait_for_notification(&mut client, &mut seen, list, None);
    }
    assert!(tool(&mut client)["description"].as_str().unwrap().contains("<description>One</description>"));
    assert_eq!(client.expect_tool("meerkat_skills", inspect.clone())["body"], "First.\n");
    assert!(names(&mut client, "prompts/list", "prompts").contains(&"deploy".to_owned()));
    assert!(names(&mut client, "resources/list", "resources").contains(&"deploy".to_owned()));
    assert!(agent(&mut client).contains(r#"\"description\":\"One\""#));

    let uri = "skill://deploy/SKILL.md";
    client.request("resources/subscribe", json!({ "uri": uri }));
    seen = client.notifications().len();
    write(&env, "deploy", "Two", "Second.");
    wait_for_notification(&mut client, &mut seen, "notifications/resources/updated", Some(uri));
    for list in &lists {
        wait_for_notification(&mut client, &mut seen, list, None);
    }
    assert!(tool(&mut client)["description"].as_str().unwrap().contains("<description>Two</description>"));
    assert!(load(&mut client, "deploy").1.ends_with("Second.\n"));
    assert_eq!(client.expect_tool("meerkat_skills", inspect.clone())["body"], "Second.\n");
    assert!(agent(&mut client).contains(r#"\"description\":\"Two\""#));

    let notes = env.path("project/.agent/skills/deploy/notes.md");
    fs::write(&notes, "One").unwrap();
    client.request("resources/subscribe", json!({ "uri": "skill://deploy/notes.md" }));
    seen = client.notifications().len();
    fs::write(&notes, "Two").unwrap();
    wait_for_notification(
        &mut client,
        &mut seen,
        "notifications/resources/updated",
        Some("skill://deploy/notes.md"),
    );

    seen = client.notifications().len();
    fs::remove_dir_all(env.path("project/.agent/skills/deploy")).unwrap();
    for list in &lists {
        wait_for_notification(&mut client, &mut seen, list, None);
    }
    assert!(!tool(&mut client)["description"].as_str().unwrap().contains("<name>deploy</name>"));
    assert_eq!(client.tool("meerkat_skills", inspect).payload["code"], "SKILL_NOT_FOUND");
    assert!(!names(&mut client, "prompts/list", "prompts").contains(&"deploy".to_owned()));
    assert!(!names(&mut client, "resources/list", "resources").contains(&"deploy".to_owned()));
    assert_eq!(client.request("resources/read", json!({ "uri": uri }))["error"]["code"], -32002);
    assert!(!agent(&mut client).contains("deploy"));
}

#[test]
fn disabled_skills_are_absent_from_every_view() {
    let env = TestEnv::new();
    write(&env, "deploy", "d", "b");
    let mut client = server(&env);
    assert_ne!(tool(&mut client), Value::Null);
    let seen = client.notifications().len();
    let disable = json!({ "action": "patch", "patch": { "skills": { "enabled": false } } });
    client.expect_tool("meerkat_config", disable);
    wait_for_notification(&mut client, &mut { seen }, "notifications/tools/list_changed", None);
    assert_eq!(tool(&mut client), Value::Null);
    assert_eq!(names(&mut client, "prompts/list", "prompts"), [""; 0]);
    let rejected = client.tool("meerkat_skills", json!({ "action": "list" }));
    assert_eq!(rejected.payload["code"], "CAPABILITY_UNAVAILABLE");
    let mut another = server(&env);
    eventually("another process applies the config", || tool(&mut another) == Value::Null);
}

#[test]
fn skipped_skill_is_logged_once() {
    let env = TestEnv::new();
    write(&env, "good", "d", "b");
    fs::create_dir_all(env.path("project/.agent/skills/bad")).unwrap();
    fs::write(env.path("project/.agent/skills/bad/SKILL.md"), "---\nname: bad\n---\nb\n").unwrap();
    let mut client = server(&env);
    assert!(tool(&mut client)["description"].as_str().unwrap().contains("<name>good</name>"));
    let warnings = || env.log().lines().filter(|line| line.contains("bad/SKILL.md")).count();
    eventually("the problem is logged", || warnings() > 0);
    client.expect_tool("meerkat_skills", json!({ "action": "list" }));
    assert_eq!(warnings(), 1, "{}", env.log());
}

#[cfg(target_os = "linux")]
#[test]
fn idle_server_does_not_scan_for_skills() {
    let env = TestEnv::new();
    fs::create_dir_all(env.path("project/.agent/skills/bad")).unwrap();
    fs::write(env.path("project/.agent/skills/bad/SKILL.md"), "---\nname: bad\n---\nb\n").unwrap();
    let mut client = server(&env);
    client.request("ping", json!({}));
    client.request("ping", json!({}));
    // A scan logs the bad skill, and changes are watched on a dedicated thread.
    let threads = |client: &McpClient| {
        let tasks = fs::read_dir(format!("/proc/{}/task", client.pid())).unwrap();
        let name = |task: fs::DirEntry| fs::read_to_string(task.path().join("comm")).unwrap_or_default();
        tasks.flatten().map(name).filter(|name| name.starts_with("skills-watch")).count()
    };
    assert_eq!((threads(&client), env.log().contains("bad/SKILL.md")), (0, false), "{}", env.log());
    tool(&mut client);
    eventually("the problem is logged", || env.log().contains("bad/SKILL.md"));
    // A thread that this one starts has its name until it runs.
    eventually("one thread watches", || threads(&client) == 1);
}

#[test]
fn cursor_beyond_the_list_is_rejected() {
    let env = TestEnv::new();
    write(&env, "deploy", "Ship it.", "Ship.");
    let mut client = server(&env);
    let last = u64::MAX.to_string();
    let requests = [
        ("skills/list", json!({ "cursor": last })),
        ("resources/directory/read", json!({ "uri": "skill://deploy", "cursor": last })),
        ("resources/list", json!({ "cursor": format!("skill:{last}") })),
    ];
    for (method, params) in requests {
        let answer = client.request(method, params);
        assert_eq!(answer["error"]["code"], -32602, "{method}: {answer}");
    }
    assert!(names(&mut client, "resources/list", "resources").contains(&"deploy".to_owned()));
}
