//! Tool search: if the schemas of a source would fill too much of the model's context window, the model gets one tool
//! to search them and another to load selected ones.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

use meerkat_core::{
    BoxFuture, Invocation, Tool, ToolConfigChange, ToolDef, ToolFailure, ToolImpact, ToolOutput, ToolSource,
};
use serde_json::{Value, json};

use crate::lock;

/// Share of the context window that schemas may fill, in percent.
const MAX_WINDOW_PERCENT: usize = 10;
/// Maximum number of tools in a search result.
const MAX_RESULTS: usize = 20;

/// A source whose tools are all exposed, or searched and loaded if their schemas are too large.
pub struct SearchableTools {
    source: Arc<dyn ToolSource>,
    window: usize,
    loaded: LoadedTools,
}

/// Tools that a model has loaded. Clones share the list, so that it outlives a run.
#[derive(Debug, Clone, Default)]
pub struct LoadedTools(Arc<Mutex<BTreeSet<String>>>);

impl SearchableTools {
    /// Wraps a source for a model with a context window of `window` tokens.
    #[must_use]
    pub fn new(source: Arc<dyn ToolSource>, window: usize) -> Self {
        Self { source, window, loaded: LoadedTools::default() }
    }

    /// Continues with previously loaded tools.
    #[must_use]
    pub fn with_loaded(self, loaded: LoadedTools) -> Self {
        Self { loaded, ..self }
    }
}

/// Returns the cost of the tools' schemas, in tokens.
fn cost(tools: &[Arc<dyn Tool>]) -> usize {
    let weigh = |tool: &Arc<dyn Tool>| {
        let def = tool.def();
        def.name.len() + def.description.len() + def.input_schema.to_string().len()
    };
    tools.iter().map(weigh).sum::<usize>() / 4
}

impl ToolSource for SearchableTools {
    fn apply_changes(&self) -> Vec<ToolConfigChange> {
        self.source.apply_changes()
    }

    fn notice(&self) -> Option<String> {
        self.source.notice()
    }

    fn tools(&self) -> Vec<Arc<dyn Tool>> {
        let all = self.source.tools();
        let weight = cost(&all);
        if weight <= self.window.saturating_mul(MAX_WINDOW_PERCENT) / 100 {
            return all;
        }
        let loaded = lock(&self.loaded.0).clone();
        let defs = [(Action::Search, search_def(all.len(), weight)), (Action::Load, load_def())];
        let tool = |(action, def)| {
            let (source, loaded) = (Arc::clone(&self.source), self.loaded.clone());
            Arc::new(SearchTool { action, def, source, loaded }) as Arc<dyn Tool>
        };
        let mut offered: Vec<_> = defs.into_iter().map(tool).collect();
        offered.extend(all.into_iter().filter(|tool| loaded.contains(&tool.def().name)));
        offered
    }
}

/// A tool that searches the source, or loads tools of it.
struct SearchTool {
    action: Action,
    def: ToolDef,
    source: Arc<dyn ToolSource>,
    loaded: LoadedTools,
}

#[derive(Clone, Copy)]
enum Action {
    Search,
    Load,
}

fn search_def(count: usize, weight: usize) -> ToolDef {
    ToolDef {
        name: "tool_search".to_owned(),
        description: format!(
            "Search {count} more tools by words in their names and descriptions. Their schemas, about {weight} \
             tokens, are omitted until loaded with tool_load."
        ),
        input_schema: json!({
            "type": "object",
            "properties": { "query": { "type": "string", "description": "Words to search for; tools that match more of them come first." } },
            "required": ["query"],
        }),
    }
}

fn load_def() -> ToolDef {
    ToolDef {
        name: "tool_load".to_owned(),
        description: "Load tools found with tool_search so they can be called from the next step.".to_owned(),
        input_schema: json!({
            "type": "object",
            "properties": { "names": { "type": "array", "items": { "type": "string" }, "description": "Names of the tools." } },
            "required": ["names"],
        }),
    }
}

impl SearchTool {
    fn load(&self, args: &Value) -> ToolOutput {
        let names = args.get("names").and_then(Value::as_array).into_iter().flatten();
        let names = names.filter_map(Value::as_str).map(str::to_owned);
        let known: BTreeSet<_> = self.source.tools().iter().map(|tool| tool.def().name.clone()).collect();
        let (known_names, missing): (Vec<_>, Vec<_>) = names.partition(|name| known.contains(name));
        lock(&self.loaded.0).extend(known_names.iter().cloned());
        let text = json!({ "loaded": known_names, "unknown": missing }).to_string();
        if known_names.is_empty() {
            return ToolOutput::failure(ToolFailure::InvalidArguments, &text);
        }
        ToolOutput::text(text)
    }
}

impl Tool for SearchTool {
    fn def(&self) -> &ToolDef {
        &self.def
    }

    fn impact(&self) -> ToolImpact {
        ToolImpact::ReadOnly
    }

    fn call(&self, invocation: Invocation) -> BoxFuture<'_, ToolOutput> {
        Box::pin(async move {
            let args = invocation.call.args;
            match self.action {
                Action::Search => {
                    let query = args.get("query").and_then(Value::as_str).unwrap_or_default().to_lowercase();
                    ToolOutput::text(search_results(&self.source.tools(), &query))
                }
                Action::Load => self.load(&args),
            }
        })
    }
}

fn search_results(tools: &[Arc<dyn Tool>], query: &str) -> String {
    let score = |tool: &Arc<dyn Tool>| {
        let (name, description) = (tool.def().name.to_lowercase(), tool.def().description.to_lowercase());
        let weigh =
            |word: &str| usize::from(name.contains(word)) * 2 + usize::from(description.contains(word));
        query.split_whitespace().map(weigh).sum::<usize>()
    };
    let mut matches: Vec<_> =
        tools.iter().map(|tool| (score(tool), tool)).filter(|(score, _)| *score > 0).collect();
    matches.sort_by(|a, b| b.0.cmp(&a.0).then_with(|| a.1.def().name.cmp(&b.1.def().name)));
    let count = matches.len();
    let lines: Vec<_> = matches.into_iter().take(MAX_RESULTS).map(|(_, tool)| line(tool.def())).collect();
    match count {
        0 => "No tool matches. Try other or fewer words.".to_owned(),
        _ if count > MAX_RESULTS => format!("{}\n({} more)", lines.join("\n"), count - MAX_RESULTS),
        _ => lines.join("\n"),
    }
}

fn line(def: &ToolDef) -> String {
    let description = def.description.lines().next().unwrap_or_default();
    format!("{}: {}", def.name, description.chars().take(160).collect::<String>())
}

#[cfg(test)]
mod tests;
