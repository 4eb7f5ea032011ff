//! Two built-in tools that let the model read the resources and prompts of servers.

use std::sync::Arc;
use std::time::Duration;

use meerkat_core::{BoxFuture, Content, Invocation, Tool, ToolDef, ToolFailure, ToolImpact, ToolOutput};
use serde_json::{Map, Value, json};

use crate::decode;
use crate::server::{CallError, Link, SharedServer, failure, unavailable};

const LIMIT: Duration = Duration::from_secs(30);

/// Kind of content to read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Resources,
    Prompts,
}

/// Tool that reads resources or prompts of any server that has them.
struct Reader {
    kind: Kind,
    servers: Vec<Arc<SharedServer>>,
    def: ToolDef,
}

/// Returns the tools that are useful with these servers.
pub(crate) fn tools(servers: &[Arc<SharedServer>]) -> Vec<Arc<dyn Tool>> {
    let with = |has: fn(&Link) -> bool| -> Vec<Arc<SharedServer>> {
        let matches = |server: &&Arc<SharedServer>| server.link().is_some_and(|link| has(&link));
        servers.iter().filter(matches).cloned().collect()
    };
    let readers = [(Kind::Resources, with(Link::has_resources)), (Kind::Prompts, with(Link::has_prompts))];
    let used = readers.into_iter().filter(|(_, servers)| !servers.is_empty());
    used.map(|(kind, servers)| Arc::new(Reader::new(kind, servers)) as Arc<dyn Tool>).collect()
}

impl Reader {
    fn new(kind: Kind, servers: Vec<Arc<SharedServer>>) -> Self {
        let names: Vec<_> = servers.iter().map(|server| server.config.name.clone()).collect();
        let server = json!({ "type": "string", "enum": names, "description": "The server." });
        let (name, description, properties) = match kind {
            Kind::Resources => (
                "mcp_resources",
                "Read a resource of an MCP server by URI; without one, list the server's resources.",
                json!({
                    "server": server,
                    "uri": { "type": "string", "description": "The resource to read." },
                }),
            ),
            Kind::Prompts => (
                "mcp_prompts",
                "Get a prompt of an MCP server by name; without one, list the server's prompts.",
                json!({
                    "server": server,
                    "name": { "type": "string", "description": "The prompt to get." },
                    "arguments": { "type": "object", "additionalProperties": { "type": "string" } },
                }),
            ),
        };
        let input_schema = json!({ "type": "object", "properties": properties, "required": ["server"] });
        let def = ToolDef { name: name.to_owned(), description: description.to_owned(), input_schema };
        Self { kind, servers, def }
    }

    async fn run(&self, args: &Value) -> ToolOutput {
        let text = |key: &str| args.get(key).and_then(Value::as_str);
        let name = text("server").unwrap_or_default();
        let Some(server) = self.servers.iter().find(|server| server.config.name == name) else {
            let message = format!("`server`: no server named `{name}` has any");
            return ToolOutput::failure(ToolFailure::InvalidArguments, &message);
        };
        let Some(link) = server.link() else { return unavailable(server) };
        let _call = server.begin_call();
        let outcome = match (self.kind, text("uri"), text("name")) {
            (Kind::Resources, Some(uri), _) => read(&link, "resources/read", json!({ "uri": uri })).await,
            (Kind::Resources, None, _) => resources(&link).await,
            (Kind::Prompts, _, Some(name)) => {
                let arguments = args.get("arguments").cloned().unwrap_or_else(|| json!({}));
                read(&link, "prompts/get", json!({ "name": name, "arguments": arguments })).await
            }
            (Kind::Prompts, _, None) => {
                let mut lists = Map::new();
                list(&link, "prompts/list", "prompts", &mut lists).await.map(|()| list_output(lists))
            }
        };
        outcome.unwrap_or_else(|error| failure(server, &error))
    }
}

/// Reads one resource or prompt.
async fn read(link: &Link, method: &str, params: Value) -> Result<ToolOutput, CallError> {
    let params = params.as_object().cloned().unwrap_or_default();
    Ok(render(&link.converse(method, params, LIMIT).await?))
}

async fn resources(link: &Link) -> Result<ToolOutput, CallError> {
    let mut lists = Map::new();
    list(link, "resources/list", "resources", &mut lists).await?;
    // Few servers have templates, and many do not support this request.
    let _ = list(link, "resources/templates/list", "resourceTemplates", &mut lists).await;
    Ok(list_output(lists))
}

/// Lists all entries of a kind, with a note if the list is incomplete.
async fn list(link: &Link, method: &str, key: &str, lists: &mut Map<String, Value>) -> Result<(), CallError> {
    let (entries, cut) = link.list(method, key, LIMIT).await?;
    // The first list is always included, even if empty.
    if !entries.is_empty() || lists.is_empty() {
        lists.insert(key.to_owned(), Value::Array(entries));
    }
    if let Some(cut) = cut {
        lists.insert("note".to_owned(), json!(format!("the list {cut}")));
    }
    Ok(())
}

fn list_output(lists: Map<String, Value>) -> ToolOutput {
    ToolOutput::text(Value::Object(lists).to_string())
}

impl Tool for Reader {
    fn def(&self) -> &ToolDef {
        &self.def
    }

    fn impact(&self) -> ToolImpact {
        ToolImpact::ReadOnly
    }

    fn call(&self, invocation: Invocation) -> BoxFuture<'_, ToolOutput> {
        Box::pin(async move { self.run(&invocation.call.args).await })
    }
}

fn render(result: &Value) -> ToolOutput {
    let list = |key: &str| result.get(key).and_then(Value::as_array).into_iter().flatten();
    let mut blocks: Vec<_> = list("contents").flat_map(decode::resource).collect();
    blocks.extend(list("messages").filter_map(|message| message.get("content")).flat_map(decode::block));
    ToolOutput { content: Content::from(blocks), is_error: false, images: Vec::new() }
}
