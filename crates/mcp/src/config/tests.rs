use super::{
    ConfigProblem, Endpoint, EraChoice, Scope, ServerConfig, ServerFile, TransportConfig, add_server,
    load_servers, remove_server,
};
use std::collections::BTreeMap;
use std::time::Duration;

const EXAMPLE: &str = r#"
# Stdio server (local process)
[[servers]]
name = "filesystem"
command = "npx"
args = ["-y", "@modelcontextprotocol/server-filesystem", "/path/to/allowed/dir"]

[[servers]]
name = "database"
command = "python"
args = ["-m", "db_mcp_server"]
env = { DATABASE_URL = "${DATABASE_URL}" }

[[servers]]
name = "remote-api"
url = "https://mcp.example.com/api"
headers = { Authorization = "Bearer ${MCP_API_TOKEN}" }

[[servers]]
name = "legacy-sse"
url = "https://old.example.com/sse"
transport = "sse"
"#;

fn file(scope: Scope, text: &str) -> ServerFile {
    let label = match scope {
        Scope::Project => ".rkat/mcp.toml",
        Scope::User => "~/.rkat/mcp.toml",
    };
    ServerFile { scope, label: label.to_owned(), text: text.to_owned() }
}

fn problems(text: &str) -> Vec<String> {
    let loaded = load_servers(&[file(Scope::User, text)]);
    loaded.problems.iter().map(ConfigProblem::to_string).collect()
}

fn plain(name: &str, transport: TransportConfig) -> ServerConfig {
    ServerConfig {
        name: name.to_owned(),
        transport,
        connect_timeout: Duration::from_secs(10),
        tool_timeout: Duration::from_secs(300),
        required: false,
        enabled: true,
        era: EraChoice::Auto,
        allow: Vec::new(),
        deny: Vec::new(),
    }
}

fn pairs(entries: &[(&str, &str)]) -> BTreeMap<String, String> {
    entries.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
}

#[test]
fn all_transports_are_parsed_and_expanded() {
    let loaded = load_servers(&[file(Scope::User, EXAMPLE)]);
    let lookup = |name: &str| Some(format!("<{name}>"));
    let servers: Vec<_> = loaded.servers.iter().map(|server| server.expanded(&lookup).unwrap()).collect();
    let stdio = |command: &str, args: &[&str], env| TransportConfig::Stdio {
        command: command.to_owned(),
        args: args.iter().map(|arg| (*arg).to_owned()).collect(),
        env,
    };
    let endpoint = |url: &str, headers| Endpoint { url: url.to_owned(), headers };
    assert_eq!(
        servers,
        [
            plain(
                "filesystem",
                stdio(
                    "npx",
                    &["-y", "@modelcontextprotocol/server-filesystem", "/path/to/allowed/dir"],
                    BTreeMap::new()
                )
            ),
            plain(
                "database",
                stdio("python", &["-m", "db_mcp_server"], pairs(&[("DATABASE_URL", "<DATABASE_URL>")]))
            ),
            plain(
                "remote-api",
                TransportConfig::Url(endpoint(
                    "https://mcp.example.com/api",
                    pairs(&[("Authorization", "Bearer <MCP_API_TOKEN>")])
                ))
            ),
            plain(
                "legacy-sse",
                TransportConfig::Sse(endpoint("https://old.example.com/sse", BTreeMap::new()))
            ),
        ]
    );
    assert_eq!(loaded.problems, []);
}

#[test]
fn unset_variable_is_reported_with_its_location() {
    let loaded = load_servers(&[file(Scope::User, EXAMPLE)]);
    let errors: Vec<_> = loaded
        .servers
        .iter()
        .filter_map(|server| server.expanded(&|_| None).err())
        .map(|e| e.to_string())
        .collect();
    assert_eq!(
        errors,
        [
            "~/.rkat/mcp.toml:12: `env.DATABASE_URL`: the environment variable `DATABASE_URL` is not set; set it \
             or write its value",
            "~/.rkat/mcp.toml:17: `headers.Authorization`: the environment variable `MCP_API_TOKEN` is not set; \
             set it or write its value",
        ]
    );
}

#[test]
fn project_entry_shadows_user_entry() {
    let project = file(Scope::Project, "[[servers]]\nname = \"a\"\ncommand = \"mine\"\n");
    let user = file(
        Scope::User,
        "[[servers]]\nname = \"a\"\ncommand = \"theirs\"\n[[servers]]\nname = \"b\"\ncommand = \"other\"\n",
    );
    let loaded = load_servers(&[project, user]);
    let names = |list: &[super::SourcedServer]| {
        list.iter().map(|server| (server.config.name.clone(), server.scope, server.line)).collect::<Vec<_>>()
    };
    assert_eq!(names(&loaded.servers), [("a".into(), Scope::Project, 1), ("b".into(), Scope::User, 4)]);
    assert_eq!(names(&loaded.shadowed), [("a".into(), Scope::User, 1)]);
}

#[test]
fn invalid_entry_does_not_affect_others() {
    let text = r#"
color = "red"
[[servers]]
name = "good"
command = "x"
[[servers]]
name = "unknown key"
command = "x"
[[servers]]
name = "b"
command = "x"
cwd = "/"
[[servers]]
name = "c"
url = "https://x"
transport = "carrier-pigeon"
[[servers]]
name = "d"
[[servers]]
command = "x"
[[servers]]
name = "e"
command = "x"
connect_timeout_secs = -1
[[servers]]
name = "f"
command = "x"
url = "https://x"
[[servers]]
name = "good"
command = "y"
[[servers]]
name = "g"
url = "ftp://x"
[[servers]]
name = "h"
command = "x"
headers = {}
[[servers]]
name = "last"
command = "x"
required = true
enabled = false
era = "legacy"
allow = ["a", "b"]
deny = ["b"]
tool_timeout_secs = 5
"#;
    let loaded = load_servers(&[file(Scope::User, text)]);
    let last = ServerConfig {
        tool_timeout: Duration::from_secs(5),
        required: true,
        enabled: false,
        era: EraChoice::Legacy,
        allow: vec!["a".to_owned(), "b".to_owned()],
        deny: vec!["b".to_owned()],
        ..plain(
            "last",
            TransportConfig::Stdio { command: "x".to_owned(), args: Vec::new(), env: BTreeMap::new() },
        )
    };
    let configs: Vec<_> = loaded.servers.into_iter().map(|server| server.config).collect();
    assert_eq!(configs[1], last);
    assert_eq!(
        (configs.len(), last.offers("a"), last.offers("b"), last.offers("c")),
        (2, true, false, false)
    );
    insta::assert_snapshot!(problems(text).join("\n"), @r##"
    ~/.rkat/mcp.toml:2: `color`: unknown key; servers are `[[servers]]` entries
    ~/.rkat/mcp.toml:7: `name`: must have 1 to 64 letters, digits, `_`, `-` or `.`
    ~/.rkat/mcp.toml:12: `cwd`: unknown field; expected one of `name`, `transport`, `connect_timeout_secs`, `tool_timeout_secs`, `required`, `enabled`, `era`, `allow`, `deny`, `command`, `args`, `env`, `url`, `headers`
    ~/.rkat/mcp.toml:16: `transport`: `carrier-pigeon` is not a transport; with `url` it is `streamable-http` or `sse`
    ~/.rkat/mcp.toml:17: `command`: missing; set `command` or `url`
    ~/.rkat/mcp.toml:19: `name`: missing; give the server a name
    ~/.rkat/mcp.toml:24: `connect_timeout_secs`: must be a whole number of seconds from 1 to 86400
    ~/.rkat/mcp.toml:28: `url`: cannot be combined with `command`; remove one of them
    ~/.rkat/mcp.toml:30: `name`: `good` is already used by the server at line 3; rename one
    ~/.rkat/mcp.toml:34: `url`: starts with `ftp:`; use `https://` or `http://`
    ~/.rkat/mcp.toml:38: `headers`: belongs to a server with `url`
    "##);
}

#[test]
fn parse_error_is_reported_with_its_line() {
    insta::assert_snapshot!(problems("[[servers]]\nname = \"a\"\ncommand = \n").join("\n"), @"~/.rkat/mcp.toml:3: string values must be quoted, expected literal string");
}

#[test]
fn edits_preserve_comments() {
    let server = ServerConfig {
        required: true,
        ..plain(
            "new",
            TransportConfig::Url(Endpoint {
                url: "https://x.example".to_owned(),
                headers: pairs(&[("X-Key", "${KEY}")]),
            }),
        )
    };
    let text = "# mine\n[[servers]] # first\nname = \"a\" # keep\ncommand = \"x\"\n\n# second\n[[servers]]\nname = \"b\"\ncommand = \"y\"\n";
    let added = add_server("f", text, &server).unwrap();
    insta::assert_snapshot!(added, @r##"
    # mine
    [[servers]] # first
    name = "a" # keep
    command = "x"

    # second
    [[servers]]
    name = "b"
    command = "y"

    [[servers]]
    name = "new"
    url = "https://x.example"
    headers = { X-Key = "${KEY}" }
    required = true
    "##);
    assert_eq!(load_servers(&[file(Scope::User, &added)]).servers[2].config, server);
    let again = add_server("f", &added, &server).unwrap_err();
    assert_eq!(again.to_string(), "f:1: `name`: a server named `new` already exists; remove it first");
    let removed = remove_server("f", &added, "new").unwrap().unwrap();
    assert_eq!(removed, text);
    assert_eq!(remove_server("f", text, "none"), Ok(None));
    insta::assert_snapshot!(remove_server("f", text, "b").unwrap().unwrap(), @r##"
    # mine
    [[servers]] # first
    name = "a" # keep
    command = "x"
    "##);
}

#[test]
fn entry_can_be_a_json_object() {
    let entry = serde_json::json!({ "name": "x", "command": "run", "args": ["1"] });
    let stdio = TransportConfig::Stdio {
        command: "run".to_owned(),
        args: vec!["1".to_owned()],
        env: BTreeMap::new(),
    };
    assert_eq!(ServerConfig::from_json(&entry), Ok(plain("x", stdio)));
    let wrong = ServerConfig::from_json(&serde_json::json!({ "name": "x", "command": 1 })).unwrap_err();
    assert_eq!(wrong.to_string(), "`command`: must be a string");
}

#[test]
fn invalid_expanded_url_is_not_disclosed() {
    let entry = serde_json::json!({ "name": "a", "url": "${KEY}" });
    let server = ServerConfig::from_json(&entry).unwrap();
    let error = server.expanded(&|_| Some("sk-secret".to_owned())).unwrap_err().to_string();
    assert_eq!(error, "`url`: is not an `http://` or `https://` URL after expanding variables");
}

#[test]
fn problems_point_to_lines_within_fields() {
    let text = "[[servers]]\nname = \"a\"\ncommand = \"x\"\nargs = [\n  \"-y\",\n  7,\n]\n\n\
                [[servers]]\nname = \"b\"\ncommand = \"x\"\n[servers.env]\nONE = \"1\"\nTWO = 2\n\n\
                [[servers]]\nname = \"c\"\nurl = \"https://x.example\"\ntransport = \"carrier-pigeon\"\n\n\
                [[servers]]\nname = \"d\"\ncommand = \"x\"\nargs = [\n  \"${UNSET}\",\n]\n\n\
                [[servers]]\nname = \"e\"\ncommand = \"x\"\n[servers.env]\nKEY = \"${UNSET}\"\n\n\
                [[servers]]\nname = \"f\"\n\n\
                [[servers]]\nname = \"good\"\ncommand = \"x\"\n";
    let file = ServerFile { scope: Scope::User, label: "mcp.toml".to_owned(), text: text.to_owned() };
    let loaded = load_servers(&[file]);
    let unset = loaded.servers.iter().filter_map(|server| server.expanded(&|_| None).err());
    let messages: Vec<_> = loaded.problems.iter().cloned().chain(unset).map(|p| p.to_string()).collect();
    assert_eq!(
        messages,
        [
            "mcp.toml:6: `args[1]`: must be a string",
            "mcp.toml:14: `env.TWO`: must be a string",
            "mcp.toml:19: `transport`: `carrier-pigeon` is not a transport; with `url` it is `streamable-http` or `sse`",
            "mcp.toml:34: `command`: missing; set `command` or `url`",
            "mcp.toml:25: `args[0]`: the environment variable `UNSET` is not set; set it or write its value",
            "mcp.toml:32: `env.KEY`: the environment variable `UNSET` is not set; set it or write its value",
        ]
    );
    let usable: Vec<_> = loaded.servers.iter().map(|server| server.config.name.as_str()).collect();
    assert_eq!(usable, ["d", "e", "good"]);
}
