//! MCP servers in sessions: those of the files, those that a session is given, and what it is told of them.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use meerkat::mcp::{Launcher, ServerState, SetOptions};
use meerkat::{
    ConfigAccess, ErrorKind, McpServers, McpServersOptions, ProjectTrust, Runtime, RuntimeOptions,
    ServerFiles, SessionId,
};
use meerkat_core::ToolOutput;
use meerkat_testkit::{FnTool, Recorder, Scratch, Script, ScriptedModel, ShellServer, Tools};
use serde_json::{Value, json};

use crate::world::{Profile, World, call, kind, say, then, watch};

/// A session id that is well formed and that no session has.
const UNKNOWN: &str = "01890000-0000-7000-8000-000000000000";

struct Place {
    scratch: Scratch,
    server: ShellServer,
}

impl Place {
    fn new() -> Self {
        let scratch = Scratch::new();
        for folder in ["project/.rkat", "home/.rkat"] {
            std::fs::create_dir_all(scratch.join(folder)).unwrap();
        }
        let server = ShellServer::new(scratch.path());
        Self { scratch, server }
    }

    fn project_file(&self) -> PathBuf {
        self.scratch.join("project/.rkat/mcp.toml")
    }

    fn user_file(&self) -> PathBuf {
        self.scratch.join("home/.rkat/mcp.toml")
    }

    fn files(&self) -> ServerFiles {
        ServerFiles::of(Some(&self.scratch.join("project")), Some(&self.scratch.join("home")))
    }

    fn starts(&self) -> usize {
        ShellServer::starts_in(self.scratch.path())
    }

    fn servers(&self) -> Arc<McpServers> {
        self.servers_with(McpServersOptions::default())
    }

    fn servers_with(&self, options: McpServersOptions) -> Arc<McpServers> {
        let launcher = Launcher { folder: Some(self.scratch.path().to_owned()), ..Launcher::default() };
        let set = SetOptions { launcher, ..SetOptions::default() };
        McpServers::new(McpServersOptions { files: self.files(), set, ..options })
    }

    fn world(&self, script: impl IntoIterator<Item = Script>, servers: &Arc<McpServers>) -> World {
        self.world_with(ScriptedModel::new(script), servers)
    }

    fn world_with(&self, model: Arc<ScriptedModel>, servers: &Arc<McpServers>) -> World {
        self.world_for(ConfigAccess::default(), model, servers)
    }

    /// A world whose operations are called with this access.
    fn world_for(
        &self,
        config_access: ConfigAccess,
        model: Arc<ScriptedModel>,
        servers: &Arc<McpServers>,
    ) -> World {
        let file = self.user_file();
        let write = FnTool::new("write_file", move |invocation| {
            std::fs::write(&file, invocation.call.args["text"].as_str().unwrap()).unwrap();
            async { ToolOutput::text("written") }
        });
        let options = RuntimeOptions {
            models: vec![Arc::clone(&model) as _],
            sources: vec![Tools::new([write])],
            servers: Some(Arc::clone(servers)),
            config_access,
            ..RuntimeOptions::default()
        };
        World::of(Runtime::ephemeral(options).unwrap(), model)
    }
}

/// Waits until all servers that a session uses are there.
async fn ready(servers: &McpServers, session: SessionId) {
    let mine = servers.session(session).unwrap();
    for _ in 0..3000 {
        if mine.views().iter().all(|view| view.state == ServerState::Ready) {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("{:?}", mine.views());
}

/// What was told of servers: what was done, to which, and in which phase it is.
fn told(recorder: &Recorder) -> Vec<String> {
    let line = |event: &Value| {
        let payload = &event["payload"];
        let word = |value: &Value| value.as_str().unwrap().to_owned();
        [&payload["operation"], &payload["target"], &payload["status_info"]["phase"]].map(word).join(" ")
    };
    recorder.of_type("tool_config_changed").iter().map(line).collect()
}

#[tokio::test]
async fn a_session_is_given_a_server_and_others_are_not() {
    let place = Place::new();
    let servers = place.servers();
    let script = [Script::say("one"), Script::say("two"), Script::call("c1", "own__greet", json!({}))];
    let world = place.world(script, &servers);
    let id = world.session("hello").await;
    let entry = place.server.entry("own");
    let reply = call(&world, "meerkat_mcp_add", json!({ "session_id": id, "server_config": entry })).await;
    let expected = json!({
        "session_id": id, "operation": "add", "server_name": "own", "status": "staged", "persisted": false,
    });
    assert_eq!(reply.unwrap(), expected);
    assert_eq!(place.starts(), 0, "nothing happens before the next step");
    let recorder = Recorder::default();
    world.sessions().start_turn(id, then("go on"), watch(&recorder)).await.unwrap();
    assert_eq!(told(&recorder)[0], "add own pending");
    ready(&servers, id).await;
    let recorder = Recorder::default();
    world.sessions().start_turn(id, then("greet"), watch(&recorder)).await.unwrap();
    assert_eq!(told(&recorder), ["add own ready"]);
    let lines = world.lines(id).await;
    assert!(lines.contains(&"results: c1=hello from the server".to_owned()), "{lines:?}");
    world.session("another").await;
    assert_eq!(world.model.seen().last().unwrap().tools, ["write_file"]);
    servers.close(Duration::from_secs(30)).await;
}

#[tokio::test]
async fn sessions_share_the_servers_of_the_files_and_may_do_without_them() {
    let place = Place::new();
    std::fs::write(place.user_file(), place.server.toml("files")).unwrap();
    let servers = place.servers();
    let world = place.world([], &servers);
    let (one, two) = (world.session("one").await, world.session("two").await);
    ready(&servers, one).await;
    let reply =
        call(&world, "meerkat_mcp_remove", json!({ "session_id": one, "server_name": "files" })).await;
    assert_eq!(reply.unwrap()["status"], "staged");
    let recorder = Recorder::default();
    world.sessions().start_turn(one, then("go on"), watch(&recorder)).await.unwrap();
    assert_eq!(told(&recorder), ["remove files removed"]);
    assert_eq!(world.model.seen().last().unwrap().tools, ["write_file"]);
    world.resume(two, then("go on")).await.unwrap();
    assert_eq!(world.model.seen().last().unwrap().tools, ["files__greet", "write_file"]);
    assert_eq!(place.starts(), 1, "one process is enough for both");
    let reply = call(&world, "meerkat_mcp_reload", json!({ "session_id": two })).await;
    assert_eq!(
        reply.unwrap(),
        json!({ "session_id": two, "operation": "reload", "status": "staged", "persisted": false })
    );
    let recorder = Recorder::default();
    world.sessions().start_turn(two, then("go on"), watch(&recorder)).await.unwrap();
    assert_eq!(told(&recorder)[0], "reload * pending");
    ready(&servers, two).await;
    assert_eq!(place.starts(), 2);
    servers.close(Duration::from_secs(30)).await;
}

#[tokio::test]
async fn a_file_that_is_edited_in_a_run_takes_effect_at_its_next_step() {
    let place = Place::new();
    std::fs::write(place.user_file(), place.server.toml("before")).unwrap();
    let edit = Script::call("c1", "write_file", json!({ "text": place.server.toml("after") }));
    let servers = place.servers();
    let world = place.world([Script::say("hello"), edit], &servers);
    let id = world.session("hello").await;
    ready(&servers, id).await;
    let recorder = Recorder::default();
    world.sessions().start_turn(id, then("edit"), watch(&recorder)).await.unwrap();
    let seen = world.model.seen();
    assert_eq!(seen[1].tools, ["before__greet", "write_file"]);
    assert!(!seen[2].tools.contains(&"before__greet".to_owned()), "{:?}", seen[2].tools);
    assert_eq!(told(&recorder)[..3], ["add before ready", "remove before removed", "add after pending"]);
    ready(&servers, id).await;
    world.resume(id, then("go on")).await.unwrap();
    assert_eq!(world.model.seen()[3].tools, ["after__greet", "write_file"]);
    servers.close(Duration::from_secs(30)).await;
}

#[tokio::test]
async fn a_change_that_is_not_trusted_starts_nothing_new_and_keeps_what_was_trusted() {
    let place = Place::new();
    let (kept, gone) = (place.server.toml("kept"), place.server.toml("gone"));
    std::fs::write(place.project_file(), format!("{kept}{gone}")).unwrap();
    place.files().trust_project().unwrap();
    let servers = place.servers();
    let names = || servers.shared().views().into_iter().map(|view| view.name).collect::<Vec<_>>();
    servers.start();
    assert_eq!(names(), ["gone", "kept"]);
    // The same name with another program is another server.
    let other = place.server.toml("new").replace("/bin/sh", "/bin/false");
    std::fs::write(place.project_file(), format!("{kept}{other}")).unwrap();
    servers.start();
    assert_eq!(names(), ["kept"]);
    std::fs::write(place.user_file(), place.server.toml("new")).unwrap();
    servers.start();
    assert_eq!(names(), ["kept", "new"], "an entry that is not trusted hides nothing");
    place.files().trust_project().unwrap();
    servers.start();
    assert_eq!(place.files().trust().unwrap(), ProjectTrust::Trusted);
    assert!(servers.shared().wait_until_ready(Duration::from_secs(60)).await);
    let states: Vec<_> =
        servers.shared().views().into_iter().map(|view| view.state == ServerState::Ready).collect();
    assert_eq!((names(), states), (vec!["kept".to_owned(), "new".to_owned()], vec![true, false]));
    std::fs::write(place.user_file(), "not a file of servers").unwrap();
    std::fs::remove_file(place.project_file()).unwrap();
    servers.start();
    assert_eq!(names(), [""; 0], "what was the project's is gone, and the user's file never had its own");
    servers.close(Duration::from_secs(30)).await;
}

#[tokio::test]
async fn a_file_that_does_not_parse_for_a_moment_costs_nothing() {
    let place = Place::new();
    std::fs::write(place.user_file(), place.server.toml("files")).unwrap();
    let lines = Arc::new(std::sync::Mutex::new(Vec::new()));
    let heard = Arc::clone(&lines);
    let servers = place.servers_with(McpServersOptions {
        notify: Some(Arc::new(move |line: &str| heard.lock().unwrap().push(line.to_owned()))),
        ..McpServersOptions::default()
    });
    servers.start();
    std::fs::write(place.user_file(), "[[servers]]\nname =").unwrap();
    servers.start();
    servers.start();
    assert!(servers.shared().has("files"));
    let file = place.user_file().display().to_string();
    let lines = lines.lock().unwrap().clone();
    assert!(lines.len() == 1 && lines[0].starts_with(&format!("warning: {file}:2:")), "{lines:?}");
    servers.close(Duration::from_secs(30)).await;
}

#[tokio::test]
async fn a_change_that_is_to_last_is_written_to_the_project() {
    let place = Place::new();
    let servers = place.servers();
    let world = place.world([], &servers);
    let id = world.session("hello").await;
    let mut entry = place.server.entry("lasting");
    entry["headers"] = Value::Null;
    let add = json!({ "session_id": id, "server_config": entry, "persisted": true });
    assert_eq!(call(&world, "meerkat_mcp_add", add.clone()).await.unwrap()["persisted"], true);
    assert!(std::fs::read_to_string(place.project_file()).unwrap().contains("name = \"lasting\""));
    assert_eq!(place.files().trust().unwrap(), ProjectTrust::Trusted);
    let recorder = Recorder::default();
    world.sessions().start_turn(id, then("go on"), watch(&recorder)).await.unwrap();
    assert_eq!(told(&recorder)[0], "add lasting pending");
    ready(&servers, id).await;
    assert_eq!(servers.session(id).unwrap().names().into_iter().collect::<Vec<_>>(), ["lasting"]);
    assert_eq!(place.starts(), 1, "it is started once, for every session");
    assert_eq!(
        kind(call(&world, "meerkat_mcp_add", add).await),
        ErrorKind::InvalidParams,
        "it is there already"
    );
    let remove = json!({ "session_id": id, "server_name": "lasting", "persisted": true });
    assert_eq!(call(&world, "meerkat_mcp_remove", remove.clone()).await.unwrap()["persisted"], true);
    assert_eq!(std::fs::read_to_string(place.project_file()).unwrap(), "");
    world.resume(id, then("go on")).await.unwrap();
    assert_eq!(servers.shared().views(), []);
    assert_eq!(kind(call(&world, "meerkat_mcp_remove", remove).await), ErrorKind::InvalidParams);
    servers.close(Duration::from_secs(30)).await;
}

#[tokio::test]
async fn client_cannot_send_variables_to_a_url() {
    let place = Place::new();
    let servers = place.servers_with(McpServersOptions {
        variables: Some(Arc::new(|name| (name == "KEY").then(|| "secret".to_owned()))),
        ..McpServersOptions::default()
    });
    let url = json!({ "name": "a", "url": "http://127.0.0.1:1/${KEY}" });
    let header = json!({ "name": "a", "url": "http://127.0.0.1:1", "headers": { "X": "Bearer ${KEY}" } });
    let sse = json!({ "name": "a", "url": "http://127.0.0.1:1/${KEY}", "transport": "sse" });
    let client = place.world_for(ConfigAccess::Client, ScriptedModel::new([]), &servers);
    let session = client.session("hello").await;
    for (entry, field) in [(&url, "url"), (&header, "headers.X"), (&sse, "url")] {
        for persisted in [false, true] {
            let add = json!({ "session_id": session, "server_config": entry, "persisted": persisted });
            let error = call(&client, "meerkat_mcp_add", add).await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidParams, "{entry}");
            let expected = format!(
                "server_config.`{field}`: cannot use an environment variable here; write the value, or add the server \
                 with `rkat mcp add`"
            );
            assert_eq!(error.to_string(), expected);
        }
    }
    assert!(!place.project_file().exists());
    let owner = place.world_for(ConfigAccess::Owner, ScriptedModel::new([]), &servers);
    let session = owner.session("hello").await;
    let add = json!({ "session_id": session, "server_config": header });
    assert_eq!(call(&owner, "meerkat_mcp_add", add).await.unwrap()["status"], "staged");
    servers.close(Duration::from_secs(30)).await;
}

#[tokio::test]
async fn what_makes_no_sense_is_refused_with_what_to_do() {
    let place = Place::new();
    let servers = place.servers_with(McpServersOptions {
        variables: Some(Arc::new(|name| (name == "KEY").then(|| "secret".to_owned()))),
        ..McpServersOptions::default()
    });
    let world = place.world_for(ConfigAccess::Anonymous, ScriptedModel::new([]), &servers);
    let id = world.session("hello").await.to_string();
    let http = json!({ "name": "a", "url": "https://x.example", "headers": { "X": "${KEY}" } });
    let cases = [
        (
            "meerkat_mcp_add",
            json!({ "session_id": id, "server_config": { "name": "a" } }),
            "server_config.`command`: is missing; give `command` or `url`",
        ),
        (
            "meerkat_mcp_add",
            json!({ "session_id": id, "server_config": http }),
            "server_config.`headers.X`: cannot use an environment variable here; write the value, or add the server \
             with `rkat mcp add`",
        ),
        (
            "meerkat_mcp_add",
            json!({ "session_id": id, "server_config": { "name": "a", "url": "https://x.example" }, "persisted": true }),
            "changing the project's `.rkat/mcp.toml` needs a token; restart this server without `--no-token`, or omit \
             `persisted`",
        ),
        (
            "meerkat_mcp_add",
            json!({ "session_id": id, "server_config": { "name": "a", "command": "x" } }),
            "starting the command of the MCP server `a` needs a token; restart this server without `--no-token`, or add \
             the server with `rkat mcp add`",
        ),
        (
            "meerkat_mcp_remove",
            json!({ "session_id": id, "server_name": " " }),
            "`server_name` must not be blank",
        ),
        (
            "meerkat_mcp_remove",
            json!({ "session_id": id, "server_name": "a" }),
            "the session has no MCP server named `a`",
        ),
        (
            "meerkat_mcp_reload",
            json!({ "session_id": UNKNOWN }),
            "session `01890000-0000-7000-8000-000000000000` not found",
        ),
    ];
    for (name, arguments, message) in cases {
        assert_eq!(
            call(&world, name, arguments.clone()).await.unwrap_err().to_string(),
            message,
            "{arguments}"
        );
    }
    let unknown =
        json!({ "session_id": id, "server_name": "a", "server_config": { "name": "a", "command": "x" } });
    assert_eq!(kind(call(&world, "meerkat_mcp_add", unknown).await), ErrorKind::InvalidParams);
    servers.close(Duration::from_secs(30)).await;
}

#[tokio::test]
async fn only_who_ran_a_session_can_change_its_servers() {
    let world = World::new([]);
    let id = world.session("hello").await;
    let reload = async |world: &World| call(world, "meerkat_mcp_reload", json!({ "session_id": id })).await;
    assert!(reload(&world).await.is_ok());
    let missing =
        if Profile::THIS.is_durable() { ErrorKind::SessionNotRunning } else { ErrorKind::SessionNotFound };
    assert_eq!(kind(reload(&world.another([])).await), missing);
    world.sessions().archive(id).await.unwrap();
    assert_eq!(kind(reload(&world).await), ErrorKind::SessionNotFound);
}

#[tokio::test]
async fn a_run_does_not_start_without_a_required_server() {
    let place = Place::new();
    std::fs::write(
        place.user_file(),
        "[[servers]]\nname = \"db\"\ncommand = \"no-such-program\"\nrequired = true\n",
    )
    .unwrap();
    let servers = place.servers();
    let world = place.world([], &servers);
    let error = world.create(say("hello")).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::CapabilityUnavailable);
    assert!(
        error.to_string().starts_with("the required MCP server `db` is not ready: the program"),
        "{error}"
    );
    assert_eq!(world.model.seen(), []);

    std::fs::write(
        place.user_file(),
        "[[servers]]\nname = \"remote\"\nurl = \"https://${NOT_SET}\"\nrequired = true\n",
    )
    .unwrap();
    let error = world.create(say("hello")).await.unwrap_err().to_string();
    assert!(error.starts_with("the required MCP server `remote` is not ready: "), "{error}");
    assert!(error.contains("`NOT_SET` is not set"), "{error}");
}

#[tokio::test]
async fn schemas_that_would_fill_the_window_are_searched_and_stay_loaded() {
    let place = Place::new();
    std::fs::write(place.user_file(), place.server.toml("files")).unwrap();
    let script = [
        Script::say("hello"),
        Script::call("c1", "tool_load", json!({ "names": ["files__greet"] })),
        Script::say("loaded"),
    ];
    let servers = place.servers();
    let world = place.world_with(ScriptedModel::with_window(script, 150), &servers);
    let id = world.session("hello").await;
    ready(&servers, id).await;
    world.resume(id, then("load")).await.unwrap();
    world.resume(id, then("go on")).await.unwrap();
    let tools: Vec<_> = world.model.seen().into_iter().skip(1).map(|seen| seen.tools).collect();
    let searched = ["tool_load", "tool_search", "write_file"];
    let loaded = ["files__greet", "tool_load", "tool_search", "write_file"];
    assert_eq!(tools, [&searched[..], &loaded[..], &loaded[..]]);
    servers.close(Duration::from_secs(30)).await;
}
