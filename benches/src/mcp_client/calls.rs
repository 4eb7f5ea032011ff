//! A call of an MCP tool in a run, from its start to its result, against the same call with the bare SDK. Each side has
//! its own server process.

use std::path::Path;
use std::process::Stdio;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use meerkat::mcp::config::ServerConfig;
use meerkat::mcp::{Launcher, ServerSetOptions, ServerState};
use meerkat::{McpServers, McpServersOptions, Runtime, RuntimeOptions};
use meerkat_core::BoxFuture;
use rmcp::model::CallToolRequestParams;
use rmcp::service::{RoleClient, RunningService, ServiceExt as _};
use serde_json::json;

use crate::caller::{BareCall, Caller, Watch, one_run};
use crate::floor::{dir, realm};
use crate::measure::{Effort, Failure, compare, program};

pub(super) async fn run(effort: Effort) -> Result<(), Failure> {
    let server = program("bare-mcp")?;
    let launcher = Launcher { supervisor: Some(program("rkat")?), ..Launcher::default() };
    let servers = McpServers::new(McpServersOptions {
        servers: vec![ServerConfig::from_json(&json!({ "name": "bare", "command": server }))?],
        set: ServerSetOptions { launcher, ..ServerSetOptions::default() },
        ..McpServersOptions::default()
    });
    servers.start();
    servers.shared().wait_until_ready(Duration::from_secs(30)).await;
    let views = servers.shared().views();
    if views.iter().any(|view| view.state != ServerState::Ready) {
        return Err(format!("the server is not ready: {views:?}").into());
    }
    let caller =
        Arc::new(Caller::new(Floor::start(&server).await?, "bare__echo", json!({ "text": "hello" })));
    let dir = dir()?;
    let options = RuntimeOptions {
        models: vec![Arc::clone(&caller) as _],
        servers: Some(Arc::clone(&servers)),
        ..RuntimeOptions::default()
    };
    let runtime = Runtime::new(realm(dir.path())?, options);
    let watch = Arc::new(Watch::default());
    for _ in 0..effort.rounds(100) {
        one_run(&runtime, &caller, &watch).await?;
    }
    servers.close(Duration::from_secs(10)).await;
    let ours = watch.times.lock().unwrap_or_else(PoisonError::into_inner);
    let theirs = caller.times.lock().unwrap_or_else(PoisonError::into_inner);
    compare("a tool call in a run, vs. the bare SDK", (&ours, &theirs), 1.3, effort)
}

/// The SDK's client with its own server.
struct Floor {
    service: RunningService<RoleClient, ()>,
    _child: tokio::process::Child,
}

impl Floor {
    async fn start(server: &Path) -> Result<Self, Failure> {
        let mut child = tokio::process::Command::new(server)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .kill_on_drop(true)
            .spawn()?;
        let stdout = child.stdout.take().ok_or("no stdout")?;
        let stdin = child.stdin.take().ok_or("no stdin")?;
        Ok(Self { service: ().serve((stdout, stdin)).await?, _child: child })
    }
}

impl BareCall for Floor {
    fn call(&self) -> BoxFuture<'_, Result<(), Failure>> {
        let arguments = json!({ "text": "hello" }).as_object().cloned().unwrap_or_default();
        let params = CallToolRequestParams::new("echo").with_arguments(arguments);
        Box::pin(async move { Ok(self.service.peer().call_tool(params).await.map(drop)?) })
    }
}
