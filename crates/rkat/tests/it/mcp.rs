//! MCP servers on the command line: added, listed, tested, trusted, used.

use meerkat_testkit::ShellServer;
use serde_json::json;

use crate::support::Rkat;

fn with_server() -> Rkat {
    let rkat = Rkat::new();
    let _ = ShellServer::new(&rkat.work());
    rkat
}

fn started(rkat: &Rkat) -> bool {
    rkat.work().join("started").exists()
}

const CALL: &str = "call shell__greet {}\nthen\nsay done";

#[test]
fn a_server_that_was_added_is_used_in_the_next_run() {
    let rkat = with_server();
    let path = "PATH=/usr/bin:/bin";
    rkat.args(["mcp", "add", "shell", "-e", path, "--", "/bin/sh", "server.sh"]).run().text();
    let done = rkat.args(["run", "--wait-for-mcp", "--json", "-m", "offline", CALL]).run();
    let session = done.json()["session_id"].as_str().unwrap().to_owned();
    let shown = rkat.args(["session", "show", &session, "--json"]).run().json();
    assert!(shown.to_string().contains("hello from the server"), "{shown}");
    assert_eq!(done.json()["tool_calls"], json!(1));
}

#[test]
fn a_file_that_came_with_a_project_starts_nothing_before_it_is_trusted() {
    let rkat = with_server();
    let folder = rkat.work().join(".rkat");
    std::fs::create_dir_all(&folder).unwrap();
    let file = "[[servers]]\nname = \"shell\"\ncommand = \"/bin/sh\"\nargs = [\"server.sh\"]\nenv = { PATH = \"/usr/bin:/bin\" }\n";
    std::fs::write(folder.join("mcp.toml"), file).unwrap();
    let done = rkat.args(["run", "--wait-for-mcp", "-m", "offline", "say hi"]).run();
    assert!(done.stderr.contains("is not trusted, so its MCP servers are not started"), "{}", done.stderr);
    rkat.args(["mcp", "list"]).run().text();
    assert_ne!(rkat.args(["mcp", "test", "shell"]).run().code, Some(0));
    assert!(!started(&rkat));
    rkat.args(["trust"]).run().text();
    rkat.args(["run", "--wait-for-mcp", "-m", "offline", "say hi"]).run().text();
    assert!(started(&rkat));
    std::fs::remove_file(rkat.work().join("started")).unwrap();
    std::fs::write(folder.join("mcp.toml"), format!("{file}# changed\n")).unwrap();
    rkat.args(["run", "--wait-for-mcp", "-m", "offline", "say hi"]).run().text();
    assert!(!started(&rkat), "a change has to be trusted again");
}

#[test]
fn an_entry_that_is_not_trusted_hides_none_of_the_users() {
    let rkat = with_server();
    let add =
        ["mcp", "add", "shell", "--scope", "user", "-e", "PATH=/usr/bin:/bin", "--", "/bin/sh", "server.sh"];
    rkat.args(add).run().text();
    std::fs::create_dir_all(rkat.work().join(".rkat")).unwrap();
    let hostile = "[[servers]]\nname = \"shell\"\ncommand = \"/bin/touch\"\nargs = [\"hostile\"]\n";
    std::fs::write(rkat.work().join(".rkat/mcp.toml"), hostile).unwrap();
    let tested = rkat.args(["mcp", "test", "shell"]).run();
    assert_eq!(tested.text(), "shell is ready with 1 tool\n  shell__greet  (greet)\n");
    let listed = rkat.args(["mcp", "list", "--json"]).run().json();
    let rows: Vec<_> =
        listed["servers"].as_array().unwrap().iter().map(|s| (&s["scope"], &s["trusted"])).collect();
    assert_eq!(rows, [(&json!("project"), &json!(false)), (&json!("user"), &json!(true))]);
    for args in [
        &["mcp", "list", "--live"][..],
        &["mcp", "get", "shell"],
        &["run", "--wait-for-mcp", "-m", "offline", CALL],
    ] {
        rkat.args(args.iter().copied()).run().text();
    }
    assert!(!rkat.work().join("hostile").exists());
}

#[test]
fn trust_is_taken_back() {
    let rkat = with_server();
    rkat.args(["mcp", "add", "shell", "-e", "PATH=/usr/bin:/bin", "--", "/bin/sh", "server.sh"]).run().text();
    rkat.args(["trust"]).run().text();
    let work = rkat.work().canonicalize().unwrap().display().to_string();
    assert_eq!(
        rkat.args(["trust", "--remove"]).run().text(),
        format!("{work}/.rkat/mcp.toml is no longer trusted\n{work} is no longer trusted\n")
    );
    let done = rkat.args(["run", "--wait-for-mcp", "-m", "offline", "say hi"]).run();
    assert!(done.stderr.contains("is not trusted, so its MCP servers are not started"), "{done}");
    let tested = rkat.args(["mcp", "test", "shell"]).run();
    assert!(tested.stderr.contains("is not trusted; look at it, then `rkat trust`"), "{tested}");
    assert!(!started(&rkat));
    assert!(rkat.args(["trust", "--remove"]).run().stderr.contains("nothing here was trusted"));
}

#[test]
fn a_run_says_which_servers_are_not_there_and_where_they_are_written() {
    let rkat = with_server();
    rkat.args(["mcp", "add", "shell", "-e", "PATH=/usr/bin:/bin", "--", "/bin/sh", "server.sh"]).run().text();
    rkat.args(["mcp", "add", "gone", "--", "no-such-program"]).run().text();
    rkat.args(["mcp", "add", "api", "--url", "https://${NO_SUCH_HOST}/mcp"]).run().text();
    let done = rkat.args(["run", "--wait-for-mcp", "-m", "offline", CALL]).run();
    assert_eq!(done.stdout, "done\n", "the others work: {done}");
    let lines: Vec<_> = done.stderr.lines().filter(|line| line.starts_with("warning:")).collect();
    let file = ".rkat/mcp.toml";
    assert!(
        lines[0].contains(&format!("{file}:13: `url`: the environment variable `NO_SUCH_HOST`")),
        "{done}"
    );
    assert!(lines[1].contains("the MCP server `gone` is not there: the program `no-such-program`"), "{done}");
    assert!(lines[1].ends_with(&format!("{file}:7)")), "{done}");
    let quiet = rkat.args(["run", "-q", "--wait-for-mcp", "-m", "offline", "say hi"]).run();
    assert!(!quiet.stderr.contains("is not there"), "{quiet}");
    let listed = rkat.args(["mcp", "list", "--json"]).run().json();
    assert!(listed["problems"][0].as_str().unwrap().contains("mcp.toml:13: `url`"), "{listed}");
}

#[test]
fn servers_are_listed_shown_and_removed_without_their_secrets() {
    let rkat = Rkat::new();
    let add = ["mcp", "add", "api", "--url", "https://mcp.example.com/api", "-H", "X-Key: secret"];
    rkat.args(add).run().text();
    rkat.args(["mcp", "add", "db", "--scope", "user", "-e", "URL=${DB}", "--", "python", "-m", "db"])
        .run()
        .text();
    let listed = rkat.args(["mcp", "list", "--json"]).run().json();
    let names: Vec<_> =
        listed["servers"].as_array().unwrap().iter().map(|s| (&s["name"], &s["scope"])).collect();
    assert_eq!(names, [(&json!("api"), &json!("project")), (&json!("db"), &json!("user"))]);
    let shown = rkat.args(["mcp", "get", "api", "--json"]).run().json();
    assert_eq!(shown["headers"], json!({ "X-Key": "***" }));
    assert!(!rkat.args(["mcp", "list"]).run().stdout.contains("secret"));
    assert_ne!(rkat.args(["mcp", "add", "api", "--url", "https://x.example"]).run().code, Some(0));
    rkat.args(["mcp", "remove", "api"]).run().text();
    assert_ne!(rkat.args(["mcp", "get", "api"]).run().code, Some(0));
}

#[test]
fn a_test_shows_the_tools_of_a_server_or_why_there_are_none() {
    let rkat = with_server();
    rkat.args(["mcp", "add", "shell", "-e", "PATH=/usr/bin:/bin", "--", "/bin/sh", "server.sh"]).run().text();
    let tested = rkat.args(["mcp", "test", "shell"]).run();
    assert_eq!(tested.stdout, "shell is ready with 1 tool\n  shell__greet  (greet)\n");
    rkat.args(["mcp", "add", "gone", "--", "no-such-program"]).run().text();
    let failed = rkat.args(["mcp", "test", "gone"]).run();
    assert!(failed.stderr.contains("the program `no-such-program` was not found"), "{}", failed.stderr);
    assert!(failed.stderr.contains("mcp.toml:"), "{}", failed.stderr);
}

#[test]
fn a_live_list_shows_each_server_its_tools_and_what_went_wrong() {
    let rkat = with_server();
    rkat.args(["mcp", "add", "shell", "-e", "PATH=/usr/bin:/bin", "--", "/bin/sh", "server.sh"]).run().text();
    rkat.args(["mcp", "add", "gone", "--scope", "user", "--", "no-such-program"]).run().text();
    let live = rkat.args(["mcp", "list", "--live", "--json"]).run().json();
    let [gone, shell] = live["servers"].as_array().unwrap().as_slice() else { panic!("{live}") };
    assert_eq!((&gone["state"], &shell["state"]), (&json!("failed"), &json!("ready")));
    assert!(gone["last_error"].as_str().unwrap().contains("was not found"), "{gone}");
    let own = std::fs::read_to_string(rkat.work().join("started")).unwrap();
    assert_eq!(shell["pid"].to_string(), own.lines().last().unwrap(), "the server's own, not its watcher's");
    assert_eq!(shell["tools"], json!([{ "tool": "greet", "exposed": "shell__greet" }]));
    let shown = rkat.args(["mcp", "list", "--live", "--scope", "project"]).run();
    let lines: Vec<_> = shown.stdout.lines().collect();
    assert!(lines[1].starts_with("shell  ready"), "{shown}");
    assert_eq!(lines[2..], ["shell__greet  is `greet` of shell"]);
}

#[test]
fn a_name_in_both_files_is_removed_from_the_one_that_is_said() {
    let rkat = Rkat::new();
    for scope in ["project", "user"] {
        rkat.args(["mcp", "add", "api", "--scope", scope, "--url", &format!("https://{scope}.example")])
            .run()
            .text();
    }
    let unclear = rkat.args(["mcp", "remove", "api"]).run();
    assert!(unclear.stderr.contains("say `--scope project` or `--scope user`"), "{unclear}");
    rkat.args(["mcp", "remove", "api", "--scope", "project"]).run().text();
    let left = rkat.args(["mcp", "get", "api", "--json"]).run().json();
    assert_eq!((&left["scope"], &left["url"]), (&json!("user"), &json!("https://user.example")));
}

#[test]
fn a_run_without_a_required_server_fails_and_names_it() {
    let rkat = Rkat::new();
    let folder = rkat.home().join(".rkat");
    std::fs::create_dir_all(&folder).unwrap();
    let file = "[[servers]]\nname = \"db\"\ncommand = \"no-such-program\"\nrequired = true\n";
    std::fs::write(folder.join("mcp.toml"), file).unwrap();
    let failed = rkat.args(["run", "-m", "offline", "say hi"]).run();
    assert_eq!(failed.code, Some(1), "{failed}");
    assert!(failed.stderr.contains("the required MCP server `db` is not ready"), "{failed}");
}

/// A server that answers the handshake and its list of tools, and exits.
const BRIEF_SERVER: &str = r#"
while read -r line; do
  id=$(printf '%s' "$line" | sed -n 's/.*"id":\([0-9]*\).*/\1/p')
  case "$line" in
    *'"initialize"'*) printf '{"jsonrpc":"2.0","id":%s,"result":{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"brief","version":"1"}}}\n' "$id" ;;
    *'"tools/list"'*) printf '{"jsonrpc":"2.0","id":%s,"result":{"tools":[{"name":"do","inputSchema":{"type":"object"}}]}}\n' "$id"; exit 0 ;;
    *'"server/discover"'*) printf '{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"unknown"}}\n' "$id" ;;
  esac
done
"#;

#[test]
fn server_that_exits_after_listing_is_not_ready() {
    let rkat = Rkat::new();
    std::fs::write(rkat.work().join("brief.sh"), BRIEF_SERVER).unwrap();
    rkat.args(["mcp", "add", "brief", "-e", "PATH=/usr/bin:/bin", "--", "/bin/sh", "brief.sh"]).run().text();
    let tested = rkat.args(["mcp", "test", "brief"]).run();
    let reason = "it ended right after it listed its tools; the program ended (exit status: 0)";
    assert!(tested.code == Some(1) && tested.stderr.contains(reason), "{tested}");
    let listed = rkat.args(["mcp", "list", "--live", "--json"]).run().json();
    let error = listed["servers"][0]["last_error"].as_str().unwrap_or_default();
    assert!(error.contains(reason), "{listed}");
}
