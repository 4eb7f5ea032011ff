//! Agents of the server use MCP servers: those of the user's file, of a trusted project, and those that a
//! session is given.

use std::fs;

use meerkat_testkit::{McpClient, ShellServer};
use serde_json::{Value, json};

use crate::support::{Place, eventually, id_of, new_session, talk};
use crate::web::Web;

const GREETING: &str = "hello from the server";

/// Calls a tool until its server is there.
fn greeted(client: &mut McpClient, session: &str, tool: &str) {
    let prompt = format!("call {tool} {{}}\nthen\nsay done");
    eventually("the server greets", || {
        client.expect_tool("meerkat_resume", json!({ "session_id": session, "prompt": prompt }));
        talk(client, session).iter().any(|(_, text)| text.contains(GREETING))
    });
}

#[test]
fn agents_have_the_tools_of_the_users_servers_and_share_their_processes() {
    let place = Place::new();
    let server = ShellServer::new(&place.beside(""));
    fs::create_dir_all(place.beside(".rkat")).unwrap();
    fs::write(place.beside(".rkat/mcp.toml"), server.toml("files")).unwrap();
    let mut client = place.server();
    client.expect_tool("meerkat_sessions", json!({}));
    assert_eq!(ShellServer::starts_in(&place.beside("")), 0, "nothing is started before it is needed");
    for prompt in ["say one", "say two", "say three"] {
        let session = new_session(&mut client, prompt);
        greeted(&mut client, &session, "files__greet");
    }
    assert_eq!(ShellServer::starts_in(&place.beside("")), 1);
    assert!(client.close().success());
}

#[test]
fn a_project_that_is_not_trusted_starts_nothing_and_is_told_of() {
    let place = Place::new();
    let server = ShellServer::new(&place.beside(""));
    let project = place.beside("project");
    fs::create_dir_all(project.join(".rkat")).unwrap();
    fs::write(project.join(".rkat/mcp.toml"), server.toml("files")).unwrap();
    let root = project.to_str().unwrap();
    let mut client = McpClient::start(&mut place.command(&["--realm", "test", "--context-root", root]));
    new_session(&mut client, "say one");
    let notice = format!("notice: {root}/.rkat/mcp.toml is not trusted, so its MCP servers are not started");
    eventually("the log says so", || place.log().contains(&notice));
    assert_eq!(ShellServer::starts_in(&project), 0);
}

#[test]
fn a_session_is_given_a_server_while_it_is_at_work() {
    let place = Place::new();
    let server = ShellServer::new(&place.beside(""));
    let mut client = place.server();
    let session = new_session(&mut client, "say one");
    let add = json!({ "session_id": session, "server_config": server.entry("own") });
    let added = client.expect_tool("meerkat_mcp_add", add);
    assert_eq!((&added["status"], &added["operation"]), (&json!("staged"), &json!("add")));
    greeted(&mut client, &session, "own__greet");
    let reply =
        client.expect_error("meerkat_mcp_remove", json!({ "session_id": session, "server_name": "x" }));
    assert_eq!(reply, "INVALID_PARAMS");
    client.expect_tool("meerkat_mcp_remove", json!({ "session_id": session, "server_name": "own" }));
    let prompt = "call own__greet {}\nthen\nsay done";
    client.expect_tool("meerkat_resume", json!({ "session_id": session, "prompt": prompt }));
    let last = talk(&mut client, &session);
    assert!(last[last.len() - 2].1.contains("tool_not_found"), "{last:?}");
}

#[test]
fn over_http_only_who_shows_a_token_has_programs_started() {
    let place = Place::new();
    let server = ShellServer::new(&place.beside(""));
    let web = Web::start_with(&place, &["--no-token"]);
    let call = |name: &str, arguments: Value| {
        let params = json!({ "name": name, "arguments": arguments });
        web.modern("tools/call", params, json!({}))["result"].clone()
    };
    let session = id_of(&call("meerkat_run", json!({ "prompt": "say one" }))["structuredContent"]);
    let refused =
        call("meerkat_mcp_add", json!({ "session_id": session, "server_config": server.entry("own") }));
    assert_eq!(refused["isError"], true, "{refused}");
    assert!(
        refused.to_string().contains("starting the command of the MCP server `own` needs a token"),
        "{refused}"
    );
    let remote = json!({ "name": "own", "url": "http://127.0.0.1:1/mcp" });
    let staged = call("meerkat_mcp_add", json!({ "session_id": session, "server_config": remote }));
    assert_eq!(staged["structuredContent"]["status"], "staged");
}
