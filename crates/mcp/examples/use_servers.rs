//! Connects to the servers in an MCP config file, lists their tools, and makes the requested calls.
//!
//! `use_servers FILE [TOOL JSON]...` prints one JSON document: the status of each server, its tools with both names,
//! and the results of the calls in order.

use std::error::Error;
use std::io::Write as _;
use std::process::ExitCode;
use std::time::Duration;

use meerkat_core::{Invocation, ToolCall, ToolSource as _};
use meerkat_mcp::config::{Scope, ServerFile, load_servers};
use meerkat_mcp::{Launcher, ServerSet, ServerSetOptions, supervise};
use serde_json::{Value, json};

const ID: &str = "0190b6a0-0000-7000-8000-000000000000";

fn main() -> ExitCode {
    // This binary also serves as the supervisor of the servers, so that they never outlive it.
    if let Some(code) = supervise(std::env::args_os()) {
        return code;
    }
    let run = || -> Result<(), Box<dyn Error>> {
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
        let document = runtime.block_on(use_servers(std::env::args().skip(1).collect()))?;
        Ok(writeln!(std::io::stdout(), "{document:#}")?)
    };
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let _ = writeln!(std::io::stderr(), "{error}");
            ExitCode::FAILURE
        }
    }
}

#[expect(clippy::disallowed_methods, reason = "the application decides which environment its servers get")]
async fn use_servers(arguments: Vec<String>) -> Result<Value, Box<dyn Error>> {
    let [file, calls @ ..] = arguments.as_slice() else {
        return Err("missing argument: MCP config file".into());
    };
    let launcher = Launcher {
        environment: std::env::vars().collect(),
        supervisor: Some(std::env::current_exe()?),
        dir: None,
    };
    let set = ServerSet::new(ServerSetOptions { launcher, ..ServerSetOptions::default() });
    let text = std::fs::read_to_string(file)?;
    let loaded = load_servers(&[ServerFile { scope: Scope::User, label: file.clone(), text }]);
    for server in &loaded.servers {
        set.add(server.expanded(&|name| std::env::var(name).ok())?);
    }
    set.wait_until_ready(Duration::from_secs(60)).await;
    let servers: Vec<_> = set.views().iter().map(|view| {
        let tools: Vec<_> = view.tools.iter().map(|tool| json!({ "tool": tool.tool, "exposed": tool.exposed })).collect();
        json!({ "name": view.name, "state": format!("{:?}", view.state), "era": format!("{:?}", view.era), "tools": tools })
    }).collect();
    let mut results = Vec::new();
    for call in calls.chunks(2) {
        results.push(invoke(&set, &call[0], call.get(1).map_or("{}", String::as_str)).await?);
    }
    set.close().await;
    let problems: Vec<_> = loaded.problems.iter().map(ToString::to_string).collect();
    Ok(json!({ "servers": servers, "problems": problems, "results": results }))
}

async fn invoke(set: &ServerSet, name: &str, args: &str) -> Result<Value, Box<dyn Error>> {
    let tools = set.tools();
    let tool = tools.iter().find(|tool| tool.def().name == name).ok_or_else(|| format!("no tool {name}"))?;
    let call = ToolCall { id: "c".to_owned(), name: name.to_owned(), args: serde_json::from_str(args)? };
    let output =
        tool.call(Invocation { session_id: ID.parse()?, run_id: ID.parse()?, call, trace: None }).await;
    Ok(json!({ "text": output.content.to_text(), "is_error": output.is_error }))
}
