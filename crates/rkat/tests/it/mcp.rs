//! `rkat mcp` and `rkat trust`.

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
fn added_server_is_used_by_the_next_run() {
    let rkat = with_server();
    let path = "PATH=/usr/bin:/bin";
    rkat.args(["mcp", "add", "shell", "-e", path, "--", "/bin/sh", "server.sh"]).run().text();
    let done = rkat.args(["run", "--wait-for-mcp", "--json", "-m", "offline", CALL]).run();
    let session = done.json()["session_id"].as_str().unwrap().to_owned();
    let output = rkat.args(["session", "show", &session, "--json"]).run().json();
    assert!(output.to_string().contains("hello from the server"), "{output}");
    assert_eq!(done.json()["tool_calls"], json!(1));
}

#[test]
fn untrusted_project_file_starts_no_servers() {
    let rkat = with_server();
    let dir = rkat.work().join(".rkat");
    std::fs::create_dir_all(&dir).unwrap();
    let file = "[[servers]]\nname = \"shell\"\ncommand = \"/bin/sh\"\nargs = [\"server.sh\"]\nenv = { PATH = \"/usr/bin:/bin\" }\n";
    std::fs::write(dir.join("mcp.toml"), file).unwrap();
    let done = rkat.args(["run", "--wait-for-mcp", "-m", "offline", "say hi"]).run();
    assert!(done.stderr.contains(".rkat/mcp.toml: not trusted"), "{}", done.stderr);
    rkat.args(["mcp", "list"]).run().text();
    assert_ne!(rkat.args(["mcp", "test", "shell"]).run().code, Some(0));
    assert!(!started(&rkat));
    rkat.args(["trust"]).run().text();
    rkat.args(["run", "--wait-for-mcp", "-m", "offline", "say hi"]).run().text();
    assert!(started(&rkat));
    std::fs::remove_file(rkat.work().join("started")).unwrap();
    std::fs::write(dir.join("mcp.toml"), format!("{file}# changed\n")).unwrap();
    rkat.args(["run", "--wait-for-mcp", "-m", "offline", "say hi"]).run().text();
    assert!(!started(&rkat), "a change has to be trusted again");
}

#[test]
fn untrusted_entry_does_not_shadow_user_entry() {
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
fn trust_can_be_revoked() {
    let rkat = with_server();
    rkat.args(["mcp", "add", "shell", "-e", "PATH=/usr/bin:/bin", "--", "/bin/sh", "server.sh"]).run().text();
    rkat.args(["trust"]).run().text();
    let work = rkat.work().canonicalize().unwrap().display().to_string();
    assert_eq!(
        rkat.args(["trust", "--remove"]).run().text(),
        format!("{work}/.rkat/mcp.toml is no longer trusted\n{work} is no longer trusted\n")
    );
    let done = rkat.args(["run", "--wait-for-mcp", "-m", "offline", "say hi"]).run();
    assert!(done.stderr.contains(".rkat/mcp.toml: not trusted"), "{done}");
    let tested = rkat.args(["mcp", "test", "shell"]).run();
    assert!(tested.stderr.contains("is not trusted; review it, then run `rkat trust`"), "{tested}");
    assert!(!started(&rkat));
    assert!(rkat.args(["trust", "--remove"]).run().stderr.contains("nothing to revoke"));
}

#[test]
fn run_reports_unavailable_servers_with_location() {
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
    assert!(lines[1].contains("MCP server `gone` is unavailable: the command `no-such-program`"), "{done}");
    assert!(lines[1].ends_with(&format!("{file}:7)")), "{done}");
    let quiet = rkat.args(["run", "-q", "--wait-for-mcp", "-m", "offline", "say hi"]).run();
    assert!(!quiet.stderr.contains("is unavailable"), "{quiet}");
    let listed = rkat.args(["mcp", "list", "--json"]).run().json();
    assert!(listed["problems"][0].as_str().unwrap().contains("mcp.toml:13: `url`"), "{listed}");
}

#[test]
fn list_and_get_mask_secrets() {
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
    let output = rkat.args(["mcp", "get", "api", "--json"]).run().json();
    assert_eq!(output["headers"], json!({ "X-Key": "***" }));
    assert!(!rkat.args(["mcp", "list"]).run().stdout.contains("secret"));
    assert_ne!(rkat.args(["mcp", "add", "api", "--url", "https://x.example"]).run().code, Some(0));
    rkat.args(["mcp", "remove", "api"]).run().text();
    assert_ne!(rkat.args(["mcp", "get", "api"]).run().code, Some(0));
}

#[test]
fn test_shows_tools_or_failure_reason() {
    let rkat = with_server();
    rkat.args(["mcp", "add", "shell", "-e", "PATH=/usr/bin:/bin", "--", "/bin/sh", "server.sh"]).run().text();
    let tested = rkat.args(["mcp", "test", "shell"]).run();
    assert_eq!(tested.stdout, "shell is ready with 1 tool\n  shell__greet  (greet)\n");
    rkat.args(["mcp", "add", "gone", "--", "no-such-program"]).run().text();
    let failed = rkat.args(["mcp", "test", "gone"]).run();
    assert!(failed.stderr.contains("the command `no-such-program` was not found"), "{}", failed.stderr);
    assert!(failed.stderr.contains("mcp.toml:"), "{}", failed.stderr);
}

#[test]
fn live_list_shows_states_tools_and_errors() {
    let rkat = with_server();
    rkat.args(["mcp", "add", "shell", "-e", "PATH=/usr/bin:/bin", "--", "/bin/sh", "server.sh"]).run().text();
    rkat.args(["mcp", "add", "gone", "--scope", "user", "--", "no-such-program"]).run().text();
    let live = rkat.args(["mcp", "list", "--live", "--json"]).run().json();
    let [gone, shell] = live["servers"].as_array().unwrap().as_slice() else { panic!("{live}") };
    assert_eq!((&gone["state"], &shell["state"]), (&json!("failed"), &json!("ready")));
    assert!(gone["last_error"].as_str().unwrap().contains("was not found"), "{gone}");
    let pids = std::fs::read_to_string(rkat.work().join("started")).unwrap();
    assert_eq!(
        shell["pid"].to_string(),
        pids.lines().last().unwrap(),
        "pid of the server, not of its supervisor"
    );
    assert_eq!(shell["tools"], json!([{ "tool": "greet", "exposed": "shell__greet" }]));
    let output = rkat.args(["mcp", "list", "--live", "--scope", "project"]).run();
    let lines: Vec<_> = output.stdout.lines().collect();
    assert!(lines[1].starts_with("shell  ready"), "{output}");
    assert_eq!(lines[2..], ["shell__greet  is `greet` of shell"]);
}

#[test]
fn remove_needs_scope_if_both_files_match() {
    let rkat = Rkat::new();
    for scope in ["project", "user"] {
        rkat.args(["mcp", "add", "api", "--scope", scope, "--url", &format!("https://{scope}.example")])
            .run()
            .text();
    }
    let ambiguous = rkat.args(["mcp", "remove", "api"]).run();
    assert!(ambiguous.stderr.contains("pass `--scope project` or `--scope user`"), "{ambiguous}");
    rkat.args(["mcp", "remove", "api", "--scope", "project"]).run().text();
    let remaining = rkat.args(["mcp", "get", "api", "--json"]).run().json();
    assert_eq!((&remaining["scope"], &remaining["url"]), (&json!("user"), &json!("https://user.example")));
}

#[test]
fn dead_required_server_fails_the_checks() {
    let rkat = Rkat::new();
    rkat.args(["mcp", "add", "db", "--", "no-such-program"]).run().text();
    let codes =
        || [&["doctor"][..], &["mcp", "list", "--live"]].map(|args| rkat.args(args.iter().copied()).run());
    let [doctor, live] = codes();
    assert_eq!((doctor.code, live.code), (Some(1), Some(1)), "every server is dead: {doctor}{live}");
    assert!(doctor.stdout.contains("fault    servers: no MCP server is ready"), "{doctor}");
    assert!(live.stderr.contains("error: no MCP server is ready"), "{live}");
    let path = rkat.work().join(".rkat/mcp.toml");
    let file = std::fs::read_to_string(&path).unwrap();
    std::fs::write(&path, format!("{file}required = true\n")).unwrap();
    rkat.args(["trust"]).run().text();
    let [doctor, live] = codes();
    assert_eq!((doctor.code, live.code), (Some(1), Some(1)), "{doctor}{live}");
    let fault = "fault    servers: runs do not start without `db`, which is not ready: ";
    assert!(doctor.stdout.contains(fault), "{doctor}");
    assert!(live.stderr.contains("error: `db` is required, but is not ready; runs do not start"), "{live}");
    assert_eq!(rkat.args(["mcp", "list", "--live", "--scope", "user"]).run().code, Some(0));
}

#[test]
fn optional_server_may_be_dead_next_to_a_ready_one() {
    let rkat = with_server();
    rkat.args(["mcp", "add", "shell", "-e", "PATH=/usr/bin:/bin", "--", "/bin/sh", "server.sh"]).run().text();
    rkat.args(["mcp", "add", "gone", "--", "no-such-program"]).run().text();
    let doctor = rkat.args(["doctor"]).run();
    assert_eq!(doctor.code, Some(0), "{doctor}");
    assert!(
        doctor.stdout.contains("warning  servers: runs start without `gone`, which is not ready: "),
        "{doctor}"
    );
    assert_eq!(rkat.args(["mcp", "list", "--live"]).run().code, Some(0));
}

#[test]
fn required_server_without_its_variable_fails_the_checks() {
    let rkat = with_server();
    rkat.args(["mcp", "add", "shell", "-e", "PATH=/usr/bin:/bin", "--", "/bin/sh", "server.sh"]).run().text();
    rkat.args(["mcp", "add", "api", "--url", "https://${NO_SUCH_HOST}/mcp"]).run().text();
    let check =
        || [&["doctor"][..], &["mcp", "list", "--live"]].map(|args| rkat.args(args.iter().copied()).run());
    assert_eq!(check().map(|done| done.code), [Some(0), Some(0)]);
    let path = rkat.work().join(".rkat/mcp.toml");
    let file = std::fs::read_to_string(&path).unwrap();
    std::fs::write(&path, format!("{file}required = true\n")).unwrap();
    rkat.args(["trust"]).run().text();
    let [doctor, live] = check();
    assert_eq!((doctor.code, live.code), (Some(1), Some(1)), "{doctor}{live}");
    assert!(live.stderr.contains("error: `api` is required, but is not ready; runs do not start"), "{live}");
    let listed = rkat.args(["mcp", "list", "--live", "--json"]).run();
    let listed: serde_json::Value = serde_json::from_str(&listed.stdout).unwrap();
    assert!(listed["problems"][0].as_str().unwrap().contains("`NO_SUCH_HOST`"), "{listed}");
}

#[test]
fn missing_required_server_fails_the_run() {
    let rkat = Rkat::new();
    let dir = rkat.home().join(".rkat");
    std::fs::create_dir_all(&dir).unwrap();
    let file = "[[servers]]\nname = \"db\"\ncommand = \"no-such-program\"\nrequired = true\n";
    std::fs::write(dir.join("mcp.toml"), file).unwrap();
    let failed = rkat.args(["run", "-m", "offline", "say hi"]).run();
    assert_eq!(failed.code, Some(1), "{failed}");
    assert!(failed.stderr.contains("the required MCP server `db` is not ready"), "{failed}");
}

/// A server that responds to the handshake and the tool listing, then exits.
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
    let reason = "it disconnected right after listing its tools; the process exited (exit status: 0)";
    assert!(tested.code == Some(1) && tested.stderr.contains(reason), "{tested}");
    let listed = rkat.args(["mcp", "list", "--live", "--json"]).run();
    assert_eq!(listed.code, Some(1), "no server is ready: {listed}");
    let listed: serde_json::Value = serde_json::from_str(&listed.stdout).unwrap();
    let error = listed["servers"][0]["last_error"].as_str().unwrap_or_default();
    assert!(error.contains(reason), "{listed}");
}
