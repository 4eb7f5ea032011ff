//! MCP servers used by agents: those in the user's config file, those of a trusted project, and those added to a
//! session.

use std::fs;

use meerkat_testkit::{McpClient, ShellServer, eventually};
use serde_json::{Value, json};

use super::support::{TestEnv, id_of, new_session, read_messages};
use super::web::Web;

const GREETING: &str = "hello from the server";

/// Calls a tool until its server has connected.
fn wait_for_greeting(client: &mut McpClient, session: &str, tool: &str) {
    let prompt = format!("call {tool} {{}}\nthen\nsay done");
    eventually("the server greets", || {
        client.expect_tool("meerkat_resume", json!({ "session_id": session, "prompt": prompt }));
        read_messages(client, session).iter().any(|(_, text)| text.contains(GREETING))
    });
}

#[test]
fn agents_share_the_users_mcp_servers() {
    let env = TestEnv::new();
    let server = ShellServer::new(&env.path(""));
    fs::create_dir_all(env.path(".rkat")).unwrap();
    fs::write(env.path(".rkat/mcp.toml"), server.toml("files")).unwrap();
    let mut client = env.server();
    client.expect_tool("meerkat_sessions", json!({}));
    assert_eq!(ShellServer::starts_in(&env.path("")), 0, "nothing is started before it is needed");
    for prompt in ["say one", "say two", "say three"] {
        let session = new_session(&mut client, prompt);
        wait_for_greeting(&mut client, &session, "files__greet");
    }
    assert_eq!(ShellServer::starts_in(&env.path("")), 1);
    assert!(client.close().success());
}

#[test]
#[cfg(unix)]
fn lost_server_is_logged() {
    let env = TestEnv::new();
    let server = ShellServer::new(&env.path(""));
    fs::create_dir_all(env.path(".rkat")).unwrap();
    fs::write(env.path(".rkat/mcp.toml"), server.toml("files")).unwrap();
    let mut client = env.server();
    let session = new_session(&mut client, "say one");
    wait_for_greeting(&mut client, &session, "files__greet");
    let pid = fs::read_to_string(env.path("started")).unwrap();
    assert!(std::process::Command::new("kill").args(["-KILL", pid.trim()]).status().unwrap().success());
    let is_logged =
        |line: &str| line.contains(" WARN ") && line.contains("lost the connection to the MCP server");
    eventually("the loss is logged", || env.log().lines().any(is_logged));
    assert!(env.log().lines().filter(|line| is_logged(line)).all(|line| line.contains("server=\"files\"")));
    assert!(client.close().success());
}

#[test]
fn untrusted_project_starts_no_servers() {
    let env = TestEnv::new();
    let server = ShellServer::new(&env.path(""));
    let project = env.path("project");
    fs::create_dir_all(project.join(".rkat")).unwrap();
    fs::write(project.join(".rkat/mcp.toml"), server.toml("files")).unwrap();
    let root = project.to_str().unwrap();
    let mut client = McpClient::start(&mut env.command(&["--realm", "test", "--context-root", root]));
    new_session(&mut client, "say one");
    let notice = format!("notice: ignoring MCP servers in {root}/.rkat/mcp.toml: not trusted");
    eventually("the log says so", || env.log().contains(&notice));
    assert_eq!(ShellServer::starts_in(&project), 0);
}

#[test]
fn server_can_be_added_to_existing_session() {
    let env = TestEnv::new();
    let server = ShellServer::new(&env.path(""));
    let mut client = env.server();
    let session = new_session(&mut client, "say one");
    let add = json!({ "session_id": session, "server_config": server.entry("own") });
    let added = client.expect_tool("meerkat_mcp_add", add);
    assert_eq!((&added["status"], &added["operation"]), (&json!("staged"), &json!("add")));
    wait_for_greeting(&mut client, &session, "own__greet");
    let reply =
        client.expect_error("meerkat_mcp_remove", json!({ "session_id": session, "server_name": "x" }));
    assert_eq!(reply, "INVALID_PARAMS");
    client.expect_tool("meerkat_mcp_remove", json!({ "session_id": session, "server_name": "own" }));
    let prompt = "call own__greet {}\nthen\nsay done";
    client.expect_tool("meerkat_resume", json!({ "session_id": session, "prompt": prompt }));
    let last = read_messages(&mut client, &session);
    assert!(last[last.len() - 2].1.contains("tool_not_found"), "{last:?}");
}

#[test]
fn http_clients_need_a_token_to_start_servers() {
    let env = TestEnv::new();
    let server = ShellServer::new(&env.path(""));
    let web = Web::start_with(&env, &["--no-token"]);
    let call = |name: &str, arguments: Value| {
        let params = json!({ "name": name, "arguments": arguments });
        web.modern("tools/call", params, json!({}))["result"].clone()
    };
    let session = id_of(&call("meerkat_run", json!({ "prompt": "say one" }))["structuredContent"]);
    let rejected =
        call("meerkat_mcp_add", json!({ "session_id": session, "server_config": server.entry("own") }));
    assert_eq!(rejected["isError"], true, "{rejected}");
    assert!(
        rejected.to_string().contains("starting the command of the MCP server `own` needs a token"),
        "{rejected}"
    );
    let remote = json!({ "name": "own", "url": "http://127.0.0.1:1/mcp" });
    let staged = call("meerkat_mcp_add", json!({ "session_id": session, "server_config": remote }));
    assert_eq!(staged["structuredContent"]["status"], "staged");
}
