//! MCP servers in sessions: from config files, added to a session, and the events about them.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use meerkat::mcp::{HandshakeMemory, Launcher, ServerSetOptions, ServerState};
use meerkat::{
    ConfigAccess, ErrorKind, McpServers, McpServersOptions, ProjectTrust, Runtime, RuntimeOptions,
    ServerFiles, SessionId,
};
use meerkat_core::{BoxFuture, ToolOutput};
use meerkat_testkit::{FnTool, Recorder, Scratch, Script, ScriptedModel, ShellServer, Tools};
use serde_json::{Value, json};

use crate::world::{Profile, World, call, kind, say, then, watch};

/// A valid session id that no session has.
const UNKNOWN: &str = "01890000-0000-7000-8000-000000000000";

struct Setup {
    scratch: Scratch,
    server: ShellServer,
}

impl Setup {
    fn new() -> Self {
        let scratch = Scratch::new();
        for dir in ["project/.rkat", "home/.rkat"] {
            std::fs::create_dir_all(scratch.join(dir)).unwrap();
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
        ServerFiles::for_dirs(Some(&self.scratch.join("project")), Some(&self.scratch.join("home")))
    }

    fn starts(&self) -> usize {
        ShellServer::starts_in(self.scratch.path())
    }

    fn servers(&self) -> Arc<McpServers> {
        self.servers_with(McpServersOptions::default())
    }

    fn servers_with(&self, options: McpServersOptions) -> Arc<McpServers> {
        let launcher = Launcher { dir: Some(self.scratch.path().to_owned()), ..Launcher::default() };
        let set = ServerSetOptions { launcher, ..ServerSetOptions::default() };
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
            tool_sources: vec![Tools::new([write])],
            servers: Some(Arc::clone(servers)),
            config_access,
            ..RuntimeOptions::default()
        };
        World::from_runtime(Runtime::ephemeral(options).unwrap(), model)
    }
}

/// Waits until all servers of a session are ready.
async fn ready(servers: &McpServers, session: SessionId) {
    let session_servers = servers.session(session).unwrap();
    for _ in 0..3000 {
        if session_servers.views().iter().all(|view| view.state == ServerState::Ready) {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("{:?}", session_servers.views());
}

/// Returns the operation, target, and phase of each server event.
fn server_events(recorder: &Recorder) -> Vec<String> {
    let line = |event: &Value| {
        let payload = &event["payload"];
        let word = |value: &Value| value.as_str().unwrap().to_owned();
        [&payload["operation"], &payload["target"], &payload["status_info"]["phase"]].map(word).join(" ")
    };
    recorder.by_type("tool_config_changed").iter().map(line).collect()
}

#[tokio::test]
async fn added_server_is_visible_only_to_its_session() {
    let setup = Setup::new();
    let servers = setup.servers();
    let script = [Script::say("one"), Script::say("two"), Script::call("c1", "own__greet", json!({}))];
    let world = setup.world(script, &servers);
    let id = world.session("hello").await;
    let entry = setup.server.entry("own");
    let reply = call(&world, "meerkat_mcp_add", json!({ "session_id": id, "server_config": entry })).await;
    let expected = json!({
        "session_id": id, "operation": "add", "server_name": "own", "status": "staged", "persisted": false,
    });
    assert_eq!(reply.unwrap(), expected);
    assert_eq!(setup.starts(), 0, "nothing happens before the next step");
    let recorder = Recorder::default();
    world.sessions().start_turn(id, then("continue"), watch(&recorder)).await.unwrap();
    assert_eq!(server_events(&recorder)[0], "add own pending");
    ready(&servers, id).await;
    let recorder = Recorder::default();
    world.sessions().start_turn(id, then("greet"), watch(&recorder)).await.unwrap();
    assert_eq!(server_events(&recorder), ["add own ready"]);
    let lines = world.lines(id).await;
    assert!(lines.contains(&"results: c1=hello from the server".to_owned()), "{lines:?}");
    world.session("another").await;
    assert_eq!(world.model.seen().last().unwrap().tools, ["write_file"]);
    servers.close(Duration::from_secs(30)).await;
}

#[tokio::test]
async fn sessions_share_file_servers_and_can_opt_out() {
    let setup = Setup::new();
    std::fs::write(setup.user_file(), setup.server.toml("files")).unwrap();
    let servers = setup.servers();
    let world = setup.world([], &servers);
    let (one, two) = (world.session("one").await, world.session("two").await);
    ready(&servers, one).await;
    let reply =
        call(&world, "meerkat_mcp_remove", json!({ "session_id": one, "server_name": "files" })).await;
    assert_eq!(reply.unwrap()["status"], "staged");
    let recorder = Recorder::default();
    world.sessions().start_turn(one, then("continue"), watch(&recorder)).await.unwrap();
    assert_eq!(server_events(&recorder), ["remove files removed"]);
    assert_eq!(world.model.seen().last().unwrap().tools, ["write_file"]);
    world.resume(two, then("continue")).await.unwrap();
    assert_eq!(world.model.seen().last().unwrap().tools, ["files__greet", "write_file"]);
    assert_eq!(setup.starts(), 1, "both share one process");
    let reply = call(&world, "meerkat_mcp_reload", json!({ "session_id": two })).await;
    assert_eq!(
        reply.unwrap(),
        json!({ "session_id": two, "operation": "reload", "status": "staged", "persisted": false })
    );
    let recorder = Recorder::default();
    world.sessions().start_turn(two, then("continue"), watch(&recorder)).await.unwrap();
    assert_eq!(server_events(&recorder)[0], "reload * pending");
    ready(&servers, two).await;
    assert_eq!(setup.starts(), 2);
    servers.close(Duration::from_secs(30)).await;
}

#[tokio::test]
async fn edited_file_takes_effect_at_the_next_step() {
    let setup = Setup::new();
    std::fs::write(setup.user_file(), setup.server.toml("before")).unwrap();
    let edit = Script::call("c1", "write_file", json!({ "text": setup.server.toml("after") }));
    let servers = setup.servers();
    let world = setup.world([Script::say("hello"), edit], &servers);
    let id = world.session("hello").await;
    ready(&servers, id).await;
    let recorder = Recorder::default();
    world.sessions().start_turn(id, then("edit"), watch(&recorder)).await.unwrap();
    let seen = world.model.seen();
    assert_eq!(seen[1].tools, ["before__greet", "write_file"]);
    assert!(!seen[2].tools.contains(&"before__greet".to_owned()), "{:?}", seen[2].tools);
    assert_eq!(
        server_events(&recorder)[..3],
        ["add before ready", "remove before removed", "add after pending"]
    );
    ready(&servers, id).await;
    world.resume(id, then("continue")).await.unwrap();
    assert_eq!(world.model.seen()[3].tools, ["after__greet", "write_file"]);
    servers.close(Duration::from_secs(30)).await;
}

#[tokio::test]
async fn untrusted_change_keeps_trusted_servers() {
    let setup = Setup::new();
    let (retained, removed) = (setup.server.toml("kept"), setup.server.toml("gone"));
    std::fs::write(setup.project_file(), format!("{retained}{removed}")).unwrap();
    setup.files().trust_project().unwrap();
    let servers = setup.servers();
    let names = || servers.shared().views().into_iter().map(|view| view.name).collect::<Vec<_>>();
    servers.start();
    assert_eq!(names(), ["gone", "kept"]);
    // The same name with another command is another server.
    let other = setup.server.toml("new").replace("/bin/sh", "/bin/false");
    std::fs::write(setup.project_file(), format!("{retained}{other}")).unwrap();
    servers.start();
    assert_eq!(names(), ["kept"]);
    std::fs::write(setup.user_file(), setup.server.toml("new")).unwrap();
    servers.start();
    assert_eq!(names(), ["kept", "new"], "an untrusted entry hides nothing");
    setup.files().trust_project().unwrap();
    servers.start();
    assert_eq!(setup.files().trust().unwrap(), ProjectTrust::Trusted);
    assert!(servers.shared().wait_until_ready(Duration::from_secs(60)).await);
    let states: Vec<_> =
        servers.shared().views().into_iter().map(|view| view.state == ServerState::Ready).collect();
    assert_eq!((names(), states), (vec!["kept".to_owned(), "new".to_owned()], vec![true, false]));
    std::fs::write(setup.user_file(), "not an MCP config file").unwrap();
    std::fs::remove_file(setup.project_file()).unwrap();
    servers.start();
    assert_eq!(names(), [""; 0], "the project's servers are gone, and the user's file has none");
    servers.close(Duration::from_secs(30)).await;
}

#[test]
fn trust_of_earlier_versions_is_valid() {
    let setup = Setup::new();
    let dir = setup.scratch.join("project").canonicalize().unwrap();
    let digest = "sha256:034a0062488256f14c8b14d025ec3988b148938f7f9db94ca0ac73f4b3614d8a";
    let stored = json!({ "files": { dir.display().to_string(): digest } });
    std::fs::write(setup.scratch.join("home/.rkat/trust.json"), stored.to_string()).unwrap();
    assert!(setup.files().trusts_dir().unwrap());
    assert_eq!(setup.files().trusted_dirs().unwrap(), [dir]);
}

#[tokio::test]
async fn temporarily_invalid_file_keeps_servers() {
    let setup = Setup::new();
    std::fs::write(setup.user_file(), setup.server.toml("files")).unwrap();
    let lines = Arc::new(std::sync::Mutex::new(Vec::new()));
    let sink = Arc::clone(&lines);
    let servers = setup.servers_with(McpServersOptions {
        notify: Some(Arc::new(move |line: &str| sink.lock().unwrap().push(line.to_owned()))),
        ..McpServersOptions::default()
    });
    servers.start();
    std::fs::write(setup.user_file(), "[[servers]]\nname =").unwrap();
    servers.start();
    servers.start();
    assert!(servers.shared().has("files"));
    let file = setup.user_file().display().to_string();
    let lines = lines.lock().unwrap().clone();
    assert!(lines.len() == 1 && lines[0].starts_with(&format!("warning: {file}:2:")), "{lines:?}");
    servers.close(Duration::from_secs(30)).await;
}

#[tokio::test]
async fn persisted_change_is_written_to_the_project() {
    let setup = Setup::new();
    let servers = setup.servers();
    let world = setup.world([], &servers);
    let id = world.session("hello").await;
    let mut entry = setup.server.entry("lasting");
    entry["headers"] = Value::Null;
    let add = json!({ "session_id": id, "server_config": entry, "persisted": true });
    assert_eq!(call(&world, "meerkat_mcp_add", add.clone()).await.unwrap()["persisted"], true);
    assert!(std::fs::read_to_string(setup.project_file()).unwrap().contains("name = \"lasting\""));
    assert_eq!(setup.files().trust().unwrap(), ProjectTrust::Trusted);
    let recorder = Recorder::default();
    world.sessions().start_turn(id, then("continue"), watch(&recorder)).await.unwrap();
    assert_eq!(server_events(&recorder)[0], "add lasting pending");
    ready(&servers, id).await;
    assert_eq!(servers.session(id).unwrap().names().into_iter().collect::<Vec<_>>(), ["lasting"]);
    assert_eq!(setup.starts(), 1, "the server is started once for all sessions");
    assert_eq!(
        kind(call(&world, "meerkat_mcp_add", add).await),
        ErrorKind::InvalidParams,
        "the server already exists"
    );
    let remove = json!({ "session_id": id, "server_name": "lasting", "persisted": true });
    assert_eq!(call(&world, "meerkat_mcp_remove", remove.clone()).await.unwrap()["persisted"], true);
    assert_eq!(std::fs::read_to_string(setup.project_file()).unwrap(), "");
    world.resume(id, then("continue")).await.unwrap();
    assert_eq!(servers.shared().views(), []);
    assert_eq!(kind(call(&world, "meerkat_mcp_remove", remove).await), ErrorKind::InvalidParams);
    servers.close(Duration::from_secs(30)).await;
}

#[tokio::test]
async fn client_cannot_send_variables_to_a_url() {
    let setup = Setup::new();
    let servers = setup.servers_with(McpServersOptions {
        variables: Some(Arc::new(|name| (name == "KEY").then(|| "secret".to_owned()))),
        ..McpServersOptions::default()
    });
    let url = json!({ "name": "a", "url": "http://127.0.0.1:1/${KEY}" });
    let header = json!({ "name": "a", "url": "http://127.0.0.1:1", "headers": { "X": "Bearer ${KEY}" } });
    let sse = json!({ "name": "a", "url": "http://127.0.0.1:1/${KEY}", "transport": "sse" });
    let client = setup.world_for(ConfigAccess::Client, ScriptedModel::new([]), &servers);
    let session = client.session("hello").await;
    for (entry, field) in [(&url, "url"), (&header, "headers.X"), (&sse, "url")] {
        for persisted in [false, true] {
            let add = json!({ "session_id": session, "server_config": entry, "persisted": persisted });
            let error = call(&client, "meerkat_mcp_add", add).await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidParams, "{entry}");
            let expected = format!(
                "`server_config.{field}`: cannot use an environment variable here; write the value, or add the server \
                 with `rkat mcp add`"
            );
            assert_eq!(error.to_string(), expected);
        }
    }
    assert!(!setup.project_file().exists());
    let owner = setup.world_for(ConfigAccess::Owner, ScriptedModel::new([]), &servers);
    let session = owner.session("hello").await;
    let add = json!({ "session_id": session, "server_config": header });
    assert_eq!(call(&owner, "meerkat_mcp_add", add).await.unwrap()["status"], "staged");
    servers.close(Duration::from_secs(30)).await;
}

#[tokio::test]
async fn invalid_requests_are_rejected_with_advice() {
    let setup = Setup::new();
    let servers = setup.servers_with(McpServersOptions {
        variables: Some(Arc::new(|name| (name == "KEY").then(|| "secret".to_owned()))),
        ..McpServersOptions::default()
    });
    let world = setup.world_for(ConfigAccess::Anonymous, ScriptedModel::new([]), &servers);
    let id = world.session("hello").await.to_string();
    let http = json!({ "name": "a", "url": "https://x.example", "headers": { "X": "${KEY}" } });
    let cases = [
        (
            "meerkat_mcp_add",
            json!({ "session_id": id, "server_config": { "name": "a" } }),
            "`server_config.command`: missing; set `command` or `url`",
        ),
        (
            "meerkat_mcp_add",
            json!({ "session_id": id, "server_config": http }),
            "`server_config.headers.X`: cannot use an environment variable here; write the value, or add the server \
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
            "`server_name`: must not be blank",
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
async fn only_the_running_process_can_change_servers() {
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
async fn run_does_not_start_without_a_required_server() {
    let setup = Setup::new();
    std::fs::write(
        setup.user_file(),
        "[[servers]]\nname = \"db\"\ncommand = \"no-such-program\"\nrequired = true\n",
    )
    .unwrap();
    let servers = setup.servers();
    let world = setup.world([], &servers);
    let error = world.create(say("hello")).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::CapabilityUnavailable);
    assert!(
        error.to_string().starts_with("the required MCP server `db` is not ready: the command"),
        "{error}"
    );
    assert_eq!(world.model.seen(), []);

    std::fs::write(
        setup.user_file(),
        "[[servers]]\nname = \"remote\"\nurl = \"https://${NOT_SET}\"\nrequired = true\n",
    )
    .unwrap();
    let error = world.create(say("hello")).await.unwrap_err().to_string();
    assert!(error.starts_with("the required MCP server `remote` is not ready: "), "{error}");
    assert!(error.contains("`NOT_SET` is not set"), "{error}");
}

/// Holds up every server that connects, and counts them.
#[derive(Default)]
struct Holding(AtomicUsize);

impl HandshakeMemory for Holding {
    fn is_silent(&self, _: &str) -> BoxFuture<'_, bool> {
        self.0.fetch_add(1, Ordering::Relaxed);
        Box::pin(std::future::pending())
    }

    fn remember(&self, _: &str) -> BoxFuture<'_, ()> {
        Box::pin(async {})
    }

    fn forget(&self, _: &str) -> BoxFuture<'_, ()> {
        Box::pin(async {})
    }
}

#[tokio::test]
async fn run_does_not_wait_for_many_servers() {
    let setup = Setup::new();
    let entry = |index| format!("[[servers]]\nname = \"dead-{index}\"\ncommand = \"no-such-program\"\n");
    std::fs::write(setup.user_file(), (0..500).map(entry).collect::<String>()).unwrap();
    let holding = Arc::new(Holding::default());
    let handshakes = Some(Arc::clone(&holding) as Arc<dyn HandshakeMemory>);
    let set = ServerSetOptions { handshakes, ..ServerSetOptions::default() };
    let servers =
        McpServers::new(McpServersOptions { files: setup.files(), set, ..McpServersOptions::default() });
    let world = setup.world([Script::say("done")], &servers);
    world.session("hello").await;
    assert_eq!((world.model.seen().len(), servers.shared().pending().len()), (1, 500));
    assert!(holding.0.load(Ordering::Relaxed) < 100, "few servers connect at once");
    servers.close(Duration::from_secs(30)).await;
}

#[tokio::test]
async fn large_tool_sets_are_searched_and_stay_loaded() {
    let setup = Setup::new();
    std::fs::write(setup.user_file(), setup.server.toml("files")).unwrap();
    let script = [
        Script::say("hello"),
        Script::call("c1", "tool_load", json!({ "names": ["files__greet"] })),
        Script::say("loaded"),
    ];
    let servers = setup.servers();
    let world = setup.world_with(ScriptedModel::with_window(script, 150), &servers);
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
