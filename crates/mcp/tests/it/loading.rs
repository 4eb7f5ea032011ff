use std::collections::HashSet;
use std::sync::{Arc, Mutex};

use meerkat_core::{BoxFuture, ToolConfigChange, ToolConfigOperation};
use meerkat_mcp::config::ServerConfig;
use meerkat_mcp::{
    Era, HandshakeMemory, Launcher, NoticeSink, RequiredError, ServerChange, ServerSetOptions, ServerState,
};
use meerkat_testkit::Scratch;
use serde_json::json;

use crate::support::{
    LONG, call, create_set, create_set_with, names, odd, odd_server, ready_set, until, view,
};

fn config_change(
    operation: ToolConfigOperation,
    target: &str,
    status: &str,
    phase: &str,
) -> ToolConfigChange {
    ToolConfigChange {
        operation,
        target: target.to_owned(),
        status: status.to_owned(),
        status_info: Some(json!({ "kind": "external_tool_delta", "phase": phase })),
        persisted: false,
        applied_at_turn: None,
        domain: Some("mcp".to_owned()),
        deferred_catalog_delta: None,
    }
}

#[tokio::test]
async fn silent_server_fails_without_blocking_others() {
    let mut silent = odd("silent", "silent");
    silent["connect_timeout_secs"] = json!(2);
    let set = create_set(&[silent, odd("well", "well")]);
    assert_eq!(
        set.pending_notice().unwrap(),
        "[MCP_PENDING] Servers connecting: silent, well. Their tools appear when they are ready."
    );
    until("the good one is ready", || view(&set, "well").state == ServerState::Ready).await;
    assert_eq!(names(&set)[0], "well__do");
    assert!(set.wait_until_ready(LONG).await);
    let reason = "no answer to `initialize` within 2 s; if it is slow to start, set `connect_timeout_secs = 6`; it \
                  wrote: odd server: silent";
    assert_eq!(view(&set, "silent").state, ServerState::Failed { reason: reason.to_owned() });
    assert_eq!(set.pending_notice(), None);
    set.close().await;
}

#[tokio::test]
async fn failed_required_server_is_reported() {
    let missing = json!({ "name": "gone", "command": "no-such-program", "required": true });
    let set = create_set(&[missing, odd("silent", "silent")]);
    let error = set.require().await.unwrap_err();
    let reason = "the command `no-such-program` was not found in PATH `/usr/local/bin:/usr/bin:/bin`; install it, or \
                  set `command` to its full path";
    assert_eq!(error, RequiredError { server: "gone".to_owned(), reason: reason.to_owned() });
    set.close().await;
}

#[tokio::test]
async fn changes_take_effect_when_they_are_applied() {
    let set = ready_set(&[odd("a", "well")]).await;
    let ready = config_change(ToolConfigOperation::Add, "a", "applied", "ready");
    assert_eq!(set.apply(), [ready]);
    set.stage(ServerChange::Add(Box::new(ServerConfig::from_json(&odd("b", "well")).unwrap())));
    set.stage(ServerChange::Remove("a".to_owned()));
    set.stage(ServerChange::Remove("none".to_owned()));
    assert_eq!(names(&set)[0], "a__do", "staged changes have no effect yet");
    let expected = [
        config_change(ToolConfigOperation::Add, "b", "applied", "pending"),
        config_change(ToolConfigOperation::Remove, "a", "applied", "removed"),
        config_change(ToolConfigOperation::Remove, "none", "rejected", "unknown"),
    ];
    assert_eq!(set.apply(), expected);
    assert!(set.wait_until_ready(LONG).await);
    assert_eq!(names(&set)[0], "b__do");
    assert_eq!(set.apply(), [config_change(ToolConfigOperation::Add, "b", "applied", "ready")]);
    let before = view(&set, "b").pid;
    set.stage(ServerChange::Reload(None));
    assert_eq!(set.apply(), [config_change(ToolConfigOperation::Reload, "*", "applied", "pending")]);
    until("the process was replaced", || {
        let now = view(&set, "b");
        now.state == ServerState::Ready && now.pid.is_some() && now.pid != before
    })
    .await;
    assert_eq!(set.apply(), [config_change(ToolConfigOperation::Reload, "b", "applied", "ready")]);
    set.close().await;
}

#[tokio::test]
async fn every_era_is_detected() {
    let auto = |name: &str| {
        let mut entry = odd(name, name);
        entry["era"] = json!("auto");
        entry
    };
    let set = ready_set(&[auto("well"), auto("modern"), auto("deaf"), auto("dies-on-discover")]).await;
    let states: Vec<_> = set.views().into_iter().map(|view| (view.name, view.state, view.era)).collect();
    let ready = |name: &str, era| (name.to_owned(), ServerState::Ready, Some(era));
    assert_eq!(
        states,
        [
            ready("deaf", Era::Legacy),
            ready("dies-on-discover", Era::Legacy),
            ready("modern", Era::Modern),
            ready("well", Era::Legacy),
        ]
    );
    assert_eq!(view(&set, "well").instructions.unwrap(), "2025-11-25", "the requested revision");
    set.close().await;
}

#[tokio::test]
async fn changed_era_of_a_command_is_detected() {
    let dir = Scratch::new();
    let turning = |mode: &str| {
        let mut entry = odd(mode, mode);
        entry["args"] = json!([mode, dir.join(mode)]);
        entry["era"] = json!("auto");
        entry
    };
    let set = ready_set(&[turning("turns-newer"), turning("turns-older")]).await;
    let eras = || ["turns-newer", "turns-older"].map(|name| view(&set, name).era);
    assert_eq!(eras(), [Some(Era::Legacy), Some(Era::Modern)]);
    set.stage(ServerChange::Reload(None));
    set.apply();
    assert!(set.wait_until_ready(LONG).await);
    assert_eq!(eras(), [Some(Era::Modern), Some(Era::Legacy)], "{:?}", set.views());
    set.close().await;
}

#[tokio::test]
async fn disabled_server_is_not_started() {
    let mut entry = odd("odd", "well");
    entry["enabled"] = json!(false);
    let set = ready_set(&[entry]).await;
    assert_eq!((view(&set, "odd").state, view(&set, "odd").pid), (ServerState::Disabled, None));
}

#[tokio::test]
async fn servers_work_without_a_supervisor() {
    let options = ServerSetOptions { launcher: Launcher::default(), ..ServerSetOptions::default() };
    let set = create_set_with(options, &[odd("odd", "well")]);
    assert!(set.wait_until_ready(LONG).await);
    assert_eq!(names(&set)[0], "odd__do");
    set.close().await;
}

#[tokio::test]
async fn changed_file_replaces_changed_servers() {
    let set = ready_set(&[odd("stays", "well"), odd("goes", "well"), odd("changes", "well")]).await;
    set.apply();
    let config = |entry: &serde_json::Value| ServerConfig::from_json(entry).unwrap();
    let mut changed = odd("changes", "well");
    changed["deny"] = json!(["do"]);
    set.stage_all(vec![config(&odd("stays", "well")), config(&changed), config(&odd("comes", "well"))]);
    let expected = [
        config_change(ToolConfigOperation::Remove, "goes", "applied", "removed"),
        config_change(ToolConfigOperation::Add, "changes", "applied", "pending"),
        config_change(ToolConfigOperation::Add, "comes", "applied", "pending"),
    ];
    assert_eq!(set.apply(), expected);
    assert!(set.wait_until_ready(LONG).await);
    assert_eq!(names(&set)[..2], ["comes__do", "stays__do"]);
    set.close().await;
}

#[tokio::test]
async fn split_messages_are_reported_as_the_cause() {
    let mut split = odd("split", "multi-line");
    split["connect_timeout_secs"] = json!(1);
    let set = ready_set(&[split]).await;
    let ServerState::Failed { reason } = view(&set, "split").state else { panic!("{:?}", set.views()) };
    let cause = "it writes JSON over several lines; MCP over stdio needs each message on one line";
    assert!(reason.starts_with(cause), "{reason}");
    set.close().await;
}

#[tokio::test]
async fn slow_server_with_a_banner_keeps_the_advice() {
    let mut slow = odd("slow", "banner");
    slow["connect_timeout_secs"] = json!(1);
    let set = ready_set(&[slow]).await;
    let ServerState::Failed { reason } = view(&set, "slow").state else { panic!("{:?}", set.views()) };
    let cause = "no answer to `initialize` within 1 s; its stdout has text that is not MCP: `Starting up!`; if it is \
                 slow to start, set `connect_timeout_secs = 3`";
    assert!(reason.starts_with(cause), "{reason}");
    set.close().await;
}

#[tokio::test]
async fn server_that_exits_after_listing_has_failed() {
    let set = ready_set(&[odd("brief", "lists-and-exits")]).await;
    set.confirm(LONG).await;
    let status = view(&set, "brief");
    let ServerState::Failed { reason } = status.state else { panic!("{status:?}") };
    let cause = "it disconnected right after listing its tools; the process exited (exit status: 0)";
    assert!(reason.starts_with(cause), "{reason}");
    assert_eq!((set.pending(), names(&set).len()), (Vec::new(), 0));
    set.close().await;
}

/// In-memory storage, as a substitute for the one across processes.
#[derive(Default)]
struct Memory(Mutex<HashSet<String>>);

impl HandshakeMemory for Memory {
    fn is_silent(&self, key: &str) -> BoxFuture<'_, bool> {
        let known = self.0.lock().unwrap().contains(key);
        Box::pin(async move { known })
    }

    fn remember(&self, key: &str) -> BoxFuture<'_, ()> {
        self.0.lock().unwrap().insert(key.to_owned());
        Box::pin(async {})
    }

    fn forget(&self, key: &str) -> BoxFuture<'_, ()> {
        self.0.lock().unwrap().remove(key);
        Box::pin(async {})
    }
}

#[tokio::test]
async fn silence_about_discovery_is_remembered() {
    let memory = Arc::new(Memory::default());
    let start = async |mode: &str| {
        let options = ServerSetOptions {
            launcher: Launcher { supervisor: Some(odd_server()), ..Launcher::default() },
            handshakes: Some(Arc::clone(&memory) as Arc<dyn HandshakeMemory>),
            ..ServerSetOptions::default()
        };
        let mut entry = odd("one", mode);
        entry["era"] = json!("auto");
        let set = create_set_with(options, &[entry]);
        assert!(set.wait_until_ready(LONG).await);
        let status = view(&set, "one");
        set.close().await;
        (status.state, status.era, status.stderr_tail.contains("asked to be discovered"))
    };
    let known = || memory.0.lock().unwrap().len();
    assert_eq!(start("well").await, (ServerState::Ready, Some(Era::Legacy), false));
    assert_eq!(known(), 0, "a responsive server is probed every time");
    assert_eq!(start("deaf").await, (ServerState::Ready, Some(Era::Legacy), true));
    assert_eq!(known(), 1);
    assert_eq!(start("deaf").await, (ServerState::Ready, Some(Era::Legacy), false), "it is not probed again");
    assert_eq!(known(), 1);
}

#[tokio::test]
async fn remembered_silence_is_dropped_when_it_is_wrong() {
    let memory = Arc::new(Memory::default());
    let dir = Scratch::new();
    let options = || ServerSetOptions {
        launcher: Launcher { supervisor: Some(odd_server()), ..Launcher::default() },
        handshakes: Some(Arc::clone(&memory) as Arc<dyn HandshakeMemory>),
        ..ServerSetOptions::default()
    };
    let mut entry = odd("one", "deaf-then-modern");
    entry["args"] = json!(["deaf-then-modern", dir.join("mark")]);
    entry["era"] = json!("auto");
    for era in [Era::Legacy, Era::Modern] {
        let set = create_set_with(options(), &[entry.clone()]);
        assert!(set.wait_until_ready(LONG).await);
        assert_eq!(
            (view(&set, "one").era, memory.0.lock().unwrap().len()),
            (Some(era), usize::from(era == Era::Legacy))
        );
        set.close().await;
    }
}

#[tokio::test]
async fn user_is_notified_of_pending_servers() {
    let lines = Arc::new(Mutex::new(Vec::new()));
    let sink = Arc::clone(&lines);
    let notify: NoticeSink = Arc::new(move |line: &str| sink.lock().unwrap().push(line.to_owned()));
    let mut silent = odd("silent", "silent");
    silent["connect_timeout_secs"] = json!(5);
    let mut stuck = odd("stuck", "never-answers");
    stuck["tool_timeout_secs"] = json!(6);
    let set = create_set_with(
        ServerSetOptions { notify: Some(notify), ..ServerSetOptions::default() },
        &[silent, stuck],
    );
    assert!(set.wait_until_ready(LONG).await);
    assert!(call(&set, "stuck__do", json!({})).await.is_error);
    let expected = [
        "notice: waiting for the MCP server `silent`, which has not answered `initialize` (at most 5 s)",
        "notice: waiting for `do` of the MCP server `stuck` (at most 6 s without progress)",
    ];
    assert_eq!(*lines.lock().unwrap(), expected);
    set.close().await;
}
