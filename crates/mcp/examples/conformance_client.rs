//! Client for the MCP conformance suite: it connects to the URL in its last argument and runs the scenario named in its
//! environment, using only the public interface of this crate.

use std::collections::HashMap;
use std::error::Error;
use std::io::{self, Write as _};
use std::process::ExitCode;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use meerkat_core::{BoxFuture, Invocation, Tool, ToolCall, ToolOutput, ToolSource as _};
use meerkat_mcp::config::{Endpoint, ServerConfig};
use meerkat_mcp::{
    ClientFeature, ClientFeatures, Login, LoginOptions, LoginState, RegisteredClient, ServerChange,
    ServerSet, ServerSetOptions, ServerState, ServerView, TokenStore,
};
use serde_json::{Map, Value, json};

type Outcome<T> = Result<T, Box<dyn Error>>;

const NAME: &str = "s";
const REDIRECT: &str = "http://localhost:3000/callback";
const CLIENT_METADATA: &str = "https://conformance-test.local/client-metadata.json";
const ID: &str = "0190b6a0-0000-7000-8000-000000000000";
/// Time limit; the suite waits thirty seconds for a client.
const LIMIT: Duration = Duration::from_secs(25);
/// Maximum number of logins.
const MAX_LOGINS: usize = 3;

fn main() -> ExitCode {
    let run = || -> Outcome<()> {
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
        runtime.block_on(async { tokio::time::timeout(LIMIT, Client::from_env()?.run()).await? })
    };
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let _ = writeln!(io::stderr(), "{error}");
            ExitCode::FAILURE
        }
    }
}

struct Client {
    scenario: String,
    context: Value,
    endpoint: Endpoint,
    set: ServerSet,
    tokens: Arc<Memory>,
    logins: Mutex<usize>,
}

impl Client {
    #[expect(clippy::disallowed_methods, reason = "the suite passes its options in the environment")]
    fn from_env() -> Outcome<Self> {
        let url = std::env::args().next_back().ok_or("missing argument: URL of the server")?;
        let scenario = std::env::var("MCP_CONFORMANCE_SCENARIO").unwrap_or_default();
        let context = std::env::var("MCP_CONFORMANCE_CONTEXT").unwrap_or_default();
        let version = std::env::var("MCP_CONFORMANCE_PROTOCOL_VERSION").unwrap_or_default();
        let era = if version.as_str() >= "2026-07-28" { "modern" } else { "legacy" };
        let tokens = Arc::new(Memory::default());
        let options = ServerSetOptions {
            host: Some(Arc::new(User)),
            tokens: Some(Arc::clone(&tokens) as Arc<dyn TokenStore>),
            ..ServerSetOptions::default()
        };
        let set = ServerSet::new(options);
        set.add(ServerConfig::from_json(
            &json!({ "name": NAME, "url": url, "era": era, "tool_timeout_secs": 10 }),
        )?);
        Ok(Self {
            scenario,
            context: serde_json::from_str(&context).unwrap_or_default(),
            endpoint: Endpoint { url, headers: Default::default() },
            set,
            tokens,
            logins: Mutex::new(0),
        })
    }

    async fn run(self) -> Outcome<()> {
        self.connect().await?;
        let outcome = match self.scenario.as_str() {
            "initialize" | "json-schema-ref-no-deref" | "request-metadata" => Ok(()),
            "sep-2322-client-request-state" => self.call_concurrently().await,
            "json-schema-2020-12-preservation" => self.echo_schema().await,
            _ => self.use_everything().await,
        };
        self.set.close().await;
        outcome
    }

    fn view(&self) -> Outcome<ServerView> {
        Ok(self.set.views().into_iter().next().ok_or("the server has no status")?)
    }

    /// Connects, and logs in if the server requires it.
    async fn connect(&self) -> Outcome<()> {
        loop {
            self.set.wait_until_ready(LIMIT).await;
            let view = self.view()?;
            match view.state {
                ServerState::Ready => return Ok(()),
                ServerState::NeedsReauth { .. } => self.login(&view).await?,
                other => return Err(format!("not connected: {other:?}").into()),
            }
        }
    }

    async fn login(&self, view: &ServerView) -> Outcome<()> {
        {
            let mut logins = self.logins.lock().unwrap_or_else(PoisonError::into_inner);
            *logins += 1;
            if *logins > MAX_LOGINS {
                return Err("too many logins".into());
            }
        }
        let text = |key: &str| self.context.get(key).and_then(Value::as_str).map(str::to_owned);
        let options = LoginOptions {
            redirect_uri: REDIRECT.to_owned(),
            client: text("client_id").map(|id| RegisteredClient { id, secret: text("client_secret") }),
            client_metadata_url: Some(CLIENT_METADATA.to_owned()),
            challenge: view.challenge.clone().filter(|challenge| !challenge.is_empty()),
            ..LoginOptions::default()
        };
        let tokens = Arc::clone(&self.tokens) as Arc<dyn TokenStore>;
        let login = Login::begin(NAME, &self.endpoint, options, tokens).await.map_err(error_chain)?;
        let sent_to = follow(login.address()).await?;
        login.finish(&sent_to).await.map_err(error_chain)?;
        self.set.stage(ServerChange::Reload(None));
        self.set.apply();
        Ok(())
    }

    /// Calls a tool, and again after each login it requires.
    async fn call(&self, name: &str, args: Value) -> Outcome<ToolOutput> {
        loop {
            let exposed = format!("{NAME}__{name}");
            let tools = self.set.tools();
            let tool = tools.iter().find(|tool| tool.def().name == exposed || tool.def().name == name);
            let output = invoke(&**tool.ok_or_else(|| format!("no tool {name}"))?, args.clone()).await?;
            let view = self.view()?;
            if view.login != LoginState::NeedsReauth {
                return Ok(output);
            }
            self.login(&view).await?;
            self.connect().await?;
        }
    }

    fn planned_calls(&self) -> Outcome<Vec<(String, Value)>> {
        if let Some(calls) = self.context.get("toolCalls").and_then(Value::as_array) {
            let planned_calls = calls.iter().map(|call| {
                (call["name"].as_str().unwrap_or_default().to_owned(), call["arguments"].clone())
            });
            return Ok(planned_calls.collect());
        }
        let names: HashMap<_, _> =
            self.view()?.tools.into_iter().map(|tool| (tool.exposed, tool.tool)).collect();
        let tools = self.set.tools();
        let planned_calls = tools.iter().filter_map(|tool| {
            let def = tool.def();
            names.get(&def.name).map(|name| (name.clone(), example(&def.input_schema)))
        });
        Ok(planned_calls.collect())
    }

    async fn use_everything(&self) -> Outcome<()> {
        for (name, args) in self.planned_calls()? {
            self.call(&name, args).await?;
        }
        for (reader, list, key, by) in
            [("mcp_resources", "resources", "uri", "uri"), ("mcp_prompts", "prompts", "name", "name")]
        {
            if !self.set.tools().iter().any(|tool| tool.def().name == reader) {
                continue;
            }
            let listed = self.call(reader, json!({ "server": NAME })).await?;
            let listed: Value = serde_json::from_str(&listed.content.to_text()).unwrap_or_default();
            for entry in listed[list].as_array().into_iter().flatten() {
                self.call(reader, json!({ "server": NAME, by: entry[key] })).await?;
            }
        }
        Ok(())
    }

    async fn call_concurrently(&self) -> Outcome<()> {
        let planned_calls = self.planned_calls()?;
        let mut calls = tokio::task::JoinSet::new();
        for (name, args) in planned_calls {
            let exposed = format!("{NAME}__{name}");
            let tool =
                self.set.tools().into_iter().find(|tool| tool.def().name == exposed).ok_or("no such tool")?;
            calls.spawn(
                async move { invoke(&*tool, args).await.map(drop).map_err(|error| error.to_string()) },
            );
        }
        while let Some(done) = calls.join_next().await {
            done??;
        }
        Ok(())
    }

    /// Sends a schema back unchanged.
    async fn echo_schema(&self) -> Outcome<()> {
        let tools = self.set.tools();
        let echo = tools.iter().find(|tool| tool.def().name.contains("echo")).ok_or("no tool to echo")?;
        let other =
            tools.iter().find(|tool| tool.def().name != echo.def().name).ok_or("no tool with a schema")?;
        let keys = echo.def().input_schema["properties"].as_object().cloned().unwrap_or_default();
        let key = keys.keys().next().ok_or("no argument to send")?.clone();
        invoke(&**echo, json!({ key: other.def().input_schema })).await.map(drop)
    }
}

fn error_chain(error: impl Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text.push_str(&format!(": {cause}"));
        source = cause.source();
    }
    text
}

async fn invoke(tool: &dyn Tool, args: Value) -> Outcome<ToolOutput> {
    let call = ToolCall { id: "c".to_owned(), name: tool.def().name.clone(), args };
    let output =
        tool.call(Invocation { session_id: ID.parse()?, run_id: ID.parse()?, call, trace: None }).await;
    writeln!(io::stderr(), "{}: {:?}", tool.def().name, output.content.to_text())?;
    Ok(output)
}

/// Follows the redirect of a user after the login.
async fn follow(address: &str) -> Outcome<String> {
    let client = reqwest::Client::builder().redirect(reqwest::redirect::Policy::none()).build()?;
    let answer = client.get(address).send().await?;
    let location = answer.headers().get("location").ok_or("the login does not redirect")?;
    Ok(location.to_str()?.to_owned())
}

/// Returns arguments that match a schema.
fn example(schema: &Value) -> Value {
    let value = |schema: &Value| match schema["type"].as_str() {
        Some("number" | "integer") => json!(2),
        Some("boolean") => json!(true),
        Some("array") => json!([]),
        Some("object") => json!({}),
        _ => json!("text"),
    };
    let fields = schema["properties"].as_object().cloned().unwrap_or_default();
    Value::Object(fields.iter().map(|(key, schema)| (key.clone(), value(schema))).collect())
}

/// A user who accepts every form unchanged.
struct User;

impl ClientFeatures for User {
    fn supported(&self) -> Vec<ClientFeature> {
        vec![ClientFeature::Elicitation, ClientFeature::Sampling, ClientFeature::Roots]
    }

    fn handle(&self, _: &str, question: ClientFeature, params: Value) -> BoxFuture<'_, Option<Value>> {
        Box::pin(async move {
            Some(match question {
                ClientFeature::Elicitation => {
                    json!({ "action": "accept", "content": defaults(&params["requestedSchema"]) })
                }
                ClientFeature::Sampling => json!({
                    "role": "assistant", "model": "none", "content": { "type": "text", "text": "yes" },
                }),
                ClientFeature::Roots => json!({ "roots": [{ "uri": "file:///tmp" }] }),
            })
        })
    }
}

/// Fills in a form with its defaults, and with examples for required fields without one.
fn defaults(schema: &Value) -> Value {
    let required = schema["required"].as_array().cloned().unwrap_or_default();
    let mut content = Map::new();
    for (key, field) in schema["properties"].as_object().into_iter().flatten() {
        match field.get("default") {
            Some(default) => drop(content.insert(key.clone(), default.clone())),
            None if required.iter().any(|name| name == key) => {
                let examples = example(&json!({ "properties": { key.as_str(): field } }));
                content.insert(
                    key.clone(),
                    field["enum"][0].as_str().map_or(examples[key].clone(), Value::from),
                );
            }
            None => {}
        }
    }
    Value::Object(content)
}

/// In-memory token storage.
#[derive(Default)]
struct Memory(Mutex<HashMap<String, String>>);

impl Memory {
    fn with<T>(&self, act: impl FnOnce(&mut HashMap<String, String>) -> T) -> BoxFuture<'_, io::Result<T>>
    where
        T: Send + 'static,
    {
        let result = act(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner));
        Box::pin(async move { Ok(result) })
    }
}

impl TokenStore for Memory {
    fn load(&self, server: &str) -> BoxFuture<'_, io::Result<Option<String>>> {
        self.with(|texts| texts.get(server).cloned())
    }

    fn save(&self, server: &str, text: String) -> BoxFuture<'_, io::Result<()>> {
        self.with(|texts| drop(texts.insert(server.to_owned(), text)))
    }

    fn clear(&self, server: &str) -> BoxFuture<'_, io::Result<()>> {
        self.with(|texts| drop(texts.remove(server)))
    }
}
