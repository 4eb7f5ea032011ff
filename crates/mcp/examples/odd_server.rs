//! A test server that misbehaves in the way that its first argument names, and a host for it that ends in the way that
//! its second argument names.

use std::error::Error;
use std::fs::File;
use std::io::{BufRead as _, Write as _};
use std::process::{Command, ExitCode};
use std::time::Duration;

use meerkat_mcp::config::ServerConfig;
use meerkat_mcp::{Launcher, ServerSet, ServerSetOptions, supervise};
use serde_json::{Value, json};

type Outcome = Result<(), Box<dyn Error>>;

fn main() -> ExitCode {
    if let Some(code) = supervise(std::env::args_os()) {
        return code;
    }
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let argument = |index: usize| arguments.get(index).map(String::as_str).unwrap_or_default();
    let outcome = match argument(0) {
        "host" => host(argument(1), argument(2)),
        mode => serve(mode, argument(1)),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let _ = writeln!(std::io::stderr(), "{error}");
            ExitCode::FAILURE
        }
    }
}

/// Runs a server that starts child processes, and ends in the given way.
fn host(ending: &str, marker: &str) -> Outcome {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let program = std::env::current_exe()?;
    runtime.block_on(async {
        let entry =
            json!({ "name": "forks", "command": program, "args": ["forks", marker], "era": "legacy" });
        let launcher = Launcher { supervisor: Some(program.clone()), ..Launcher::default() };
        let set = ServerSet::new(ServerSetOptions { launcher, ..ServerSetOptions::default() });
        set.add(ServerConfig::from_json(&entry)?);
        set.wait_until_ready(Duration::from_secs(20)).await;
        write_message(&json!({ "tools": set.views()[0].tools.len() }))?;
        match ending {
            "normal" => set.close().await,
            "error" => return Err("requested failure".into()),
            _ => std::future::pending().await,
        }
        Ok(())
    })
}

fn write_message(message: &Value) -> std::io::Result<()> {
    let mut stdout = std::io::stdout().lock();
    writeln!(stdout, "{message}")?;
    stdout.flush()
}

fn serve(mode: &str, argument: &str) -> Outcome {
    writeln!(std::io::stderr(), "odd server: {mode}")?;
    if mode == "forks" {
        // One grandchild stays in the process group, one leaves it, and one is orphaned.
        let script = format!("sleep {argument} & setsid sleep {argument} & (sleep {argument} &) ; wait");
        Command::new("sh").args(["-c", &script]).spawn()?;
    }
    if mode == "stubborn" {
        Command::new("sh").args(["-c", &format!("trap '' TERM; sleep {argument} & wait")]).spawn()?;
    }
    while mode == "waits" && !std::path::Path::new(argument).exists() {
        std::thread::sleep(Duration::from_millis(10));
    }
    // The server has one era at its first start, and the other from then on.
    let turns = matches!(mode, "turns-newer" | "turns-older" | "deaf-then-modern");
    let is_new = turns && File::create_new(argument).is_ok();
    let mode = match (mode, is_new) {
        ("turns-newer" | "deaf-then-modern", false) | ("turns-older", true) => "modern",
        ("deaf-then-modern", true) => "deaf",
        _ => mode,
    };
    let mut server = Server { mode, grown: false, deferred: None };
    for line in std::io::stdin().lock().lines() {
        let request: Value = serde_json::from_str(&line?)?;
        server.answer(&request)?;
    }
    if mode == "stubborn" {
        std::thread::sleep(Duration::from_secs(1000));
    }
    Ok(())
}

struct Server<'a> {
    mode: &'a str,
    grown: bool,
    /// A call awaiting its response.
    deferred: Option<Value>,
}

impl Server<'_> {
    fn answer(&mut self, request: &Value) -> Outcome {
        if self.mode == "silent" {
            return Ok(());
        }
        if self.mode == "banner" {
            return Ok(writeln!(std::io::stdout(), "Starting up!")?);
        }
        if self.mode == "garbage" {
            let mut stdout = std::io::stdout().lock();
            write!(stdout, "Starting up!\n{{\"level\":\"info\"}}\n{{\n  \"jsonrpc\": \"2.0\"\n}}\n\n[1]\n")?;
        }
        let method = request["method"].as_str().unwrap_or_default();
        let Some(id) = request.get("id") else { return self.notified(method) };
        if self.mode == "multi-line" {
            let answer = json!({ "jsonrpc": "2.0", "id": id, "result": {} });
            return Ok(writeln!(std::io::stdout(), "{answer:#}")?);
        }
        let result = match method {
            "server/discover" => return self.discover(id),
            "initialize" if self.mode == "modern" => {
                return reject(id, -32022, "only the modern era is supported");
            }
            "initialize" => json!({
                "protocolVersion": "2025-11-25",
                "capabilities": { "tools": { "listChanged": true }, "resources": {}, "prompts": {} },
                "serverInfo": { "name": "odd", "version": "1" },
                "instructions": request["params"]["protocolVersion"],
            }),
            "tools/list" if self.mode == "changes-and-hangs" && self.grown => {
                return Ok(writeln!(std::io::stderr(), "asked for the tools again")?);
            }
            "tools/list" if self.mode == "lists-and-exits" => {
                reply(id, &self.tools(&Value::Null))?;
                std::process::exit(0)
            }
            "tools/list" => self.tools(&request["params"]["cursor"]),
            "tools/call" => return self.call(id, &request["params"]),
            "resources/list" => self.list("resources", &request["params"]["cursor"]),
            "resources/templates/list" if self.mode == "pages" => {
                json!({ "resourceTemplates": [{ "uriTemplate": "odd://{x}", "name": "x" }] })
            }
            "prompts/list" if self.mode != "well" => self.list("prompts", &request["params"]["cursor"]),
            "resources/read" => {
                json!({ "contents": [{ "uri": request["params"]["uri"], "text": "what is in it" }] })
            }
            "prompts/get" => json!({ "messages": [
                { "role": "user", "content": { "type": "text", "text": request["params"]["name"] } }
            ] }),
            _ => return reject(id, -32601, "not known"),
        };
        reply(id, &result)
    }

    fn notified(&self, method: &str) -> Outcome {
        if method == "notifications/cancelled" {
            writeln!(std::io::stderr(), "a call was cancelled")?;
        }
        Ok(())
    }

    fn discover(&self, id: &Value) -> Outcome {
        match self.mode {
            "modern" => reply(
                id,
                &json!({
                    "resultType": "complete", "ttlMs": 0, "cacheScope": "private",
                    "supportedVersions": ["2026-07-28"], "capabilities": { "tools": {} },
                }),
            ),
            "dies-on-discover" => Err("never heard of it".into()),
            "deaf" => Ok(writeln!(std::io::stderr(), "asked to be discovered")?),
            _ => reject(id, -32601, "not known"),
        }
    }

    fn tools(&self, cursor: &Value) -> Value {
        let tool = |name: &str| json!({ "name": name, "inputSchema": { "type": "object" } });
        match (self.mode, cursor.as_str()) {
            ("loops", None) => json!({ "tools": [tool("first")], "nextCursor": "a" }),
            ("loops", Some("a")) => json!({ "tools": [tool("second")], "nextCursor": "b" }),
            ("loops", Some(_)) => json!({ "tools": [], "nextCursor": "a" }),
            ("pages", None) => json!({ "tools": [tool("first")], "nextCursor": "" }),
            ("pages", Some(_)) => json!({ "tools": [tool("second"), { "name": 7 }] }),
            ("waits", _) => json!({ "tools": [tool("b__do")] }),
            ("repeats", _) => json!({ "tools": [tool("do"), tool("do"), tool("other")] }),
            _ if self.grown => json!({ "tools": [tool("do"), tool("more")] }),
            _ => json!({ "tools": [tool("do")] }),
        }
    }

    /// Returns a list of resources or prompts: one, two on two pages, or the same two forever.
    fn list(&self, key: &str, cursor: &Value) -> Value {
        let entry = |name: &str| json!({ "uri": format!("odd://{name}"), "name": name });
        let next = match (self.mode, cursor.as_str()) {
            ("loops" | "pages", None) => "a",
            ("pages", _) => return json!({ key: [entry("b")] }),
            ("loops", Some("a")) => "b",
            ("loops", _) => "a",
            _ => return json!({ key: [entry("a")] }),
        };
        json!({ key: [entry("a")], "nextCursor": next })
    }

    fn call(&mut self, id: &Value, params: &Value) -> Outcome {
        let text = |text: &str| json!({ "content": [{ "type": "text", "text": text }] });
        match self.mode {
            "dies-in-call" => Err("I am gone".into()),
            "never-answers" => Ok(()),
            // The first call gets its response together with the second, after its timeout.
            "late" => match self.deferred.take() {
                None => {
                    self.deferred = Some(id.clone());
                    Ok(())
                }
                Some(first) => {
                    reply(&first, &text("too late"))?;
                    reply(id, &text("in time"))
                }
            },
            "progresses-forever" => loop {
                std::thread::sleep(Duration::from_millis(200));
                let params = json!({ "progressToken": params["_meta"]["progressToken"], "progress": 1 });
                write_message(
                    &json!({ "jsonrpc": "2.0", "method": "notifications/progress", "params": params }),
                )?;
            },
            "progresses" => {
                for step in 0..6 {
                    std::thread::sleep(Duration::from_millis(400));
                    let token = &params["_meta"]["progressToken"];
                    let params = json!({ "progressToken": token, "progress": step });
                    write_message(
                        &json!({ "jsonrpc": "2.0", "method": "notifications/progress", "params": params }),
                    )?;
                }
                reply(id, &text("done"))
            }
            "huge" => reply(id, &text(&"x".repeat(50 * 1024 * 1024))),
            "changes" | "changes-and-hangs" => {
                self.grown = true;
                write_message(&json!({ "jsonrpc": "2.0", "method": "notifications/tools/list_changed" }))?;
                reply(id, &text("there are more now"))
            }
            "fails" => {
                reply(id, &json!({ "isError": true, "content": [{ "type": "text", "text": "out of ink" }] }))
            }
            _ => reply(id, &text(&params["arguments"].to_string())),
        }
    }
}

fn reply(id: &Value, result: &Value) -> Outcome {
    Ok(write_message(&json!({ "jsonrpc": "2.0", "id": id, "result": result }))?)
}

fn reject(id: &Value, code: i32, message: &str) -> Outcome {
    Ok(write_message(&json!({ "jsonrpc": "2.0", "id": id, "error": { "code": code, "message": message } }))?)
}
