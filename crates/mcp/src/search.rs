//! Many tools without their weight: when the schemas of a source would fill too much of the model's window, the
//! model gets a tool to search them and a tool to load the ones it wants.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use meerkat_core::{
    BoxFuture, Invocation, Tool, ToolConfigChange, ToolDef, ToolFailure, ToolImpact, ToolOutput, ToolSource,
};
use serde_json::{Value, json};

/// The share of the window that schemas may take, in percent.
const SHARE: usize = 10;
/// How many tools a search shows.
const SHOWN: usize = 20;

/// A source whose tools are all on offer, or searched and loaded when they are too many.
pub struct SearchedTools {
    source: Arc<dyn ToolSource>,
    window: usize,
    loaded: LoadedTools,
}

/// Which tools a model has loaded. Clones are the same list, so that it outlives a run.
#[derive(Debug, Clone, Default)]
pub struct LoadedTools(Arc<Mutex<BTreeSet<String>>>);

impl LoadedTools {
    fn names(&self) -> MutexGuard<'_, BTreeSet<String>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What the schemas of a source cost, in tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SchemaCost {
    /// All of them.
    pub total: usize,
    /// Those on offer now.
    pub offered: usize,
}

impl SearchedTools {
    /// Wraps a source for a model with a window of so many tokens.
    #[must_use]
    pub fn new(source: Arc<dyn ToolSource>, window: usize) -> Self {
        Self { source, window, loaded: LoadedTools::default() }
    }

    /// Goes on with the tools that were loaded before.
    #[must_use]
    pub fn with_loaded(self, loaded: LoadedTools) -> Self {
        Self { loaded, ..self }
    }

    /// Says what the schemas cost and what searching them saves.
    #[must_use]
    pub fn cost(&self) -> SchemaCost {
        SchemaCost { total: cost(&self.source.tools()), offered: cost(&self.tools()) }
    }
}

fn cost(tools: &[Arc<dyn Tool>]) -> usize {
    let weigh = |tool: &Arc<dyn Tool>| {
        let def = tool.def();
        def.name.len() + def.description.len() + def.input_schema.to_string().len()
    };
    tools.iter().map(weigh).sum::<usize>() / 4
}

impl ToolSource for SearchedTools {
    fn settle(&self) -> Vec<ToolConfigChange> {
        self.source.settle()
    }

    fn notice(&self) -> Option<String> {
        self.source.notice()
    }

    fn tools(&self) -> Vec<Arc<dyn Tool>> {
        let all = self.source.tools();
        let weight = cost(&all);
        if weight <= self.window.saturating_mul(SHARE) / 100 {
            return all;
        }
        let loaded = self.loaded.names().clone();
        let mut offered: Vec<Arc<dyn Tool>> = vec![
            Arc::new(Search { def: search_def(all.len(), weight), source: Arc::clone(&self.source) }),
            Arc::new(Load { def: load_def(), source: Arc::clone(&self.source), loaded: self.loaded.clone() }),
        ];
        offered.extend(all.into_iter().filter(|tool| loaded.contains(&tool.def().name)));
        offered
    }
}

struct Search {
    def: ToolDef,
    source: Arc<dyn ToolSource>,
}

struct Load {
    def: ToolDef,
    source: Arc<dyn ToolSource>,
    loaded: LoadedTools,
}

fn search_def(count: usize, weight: usize) -> ToolDef {
    ToolDef {
        name: "tool_search".to_owned(),
        description: format!(
            "Searches {count} more tools by words in their names and descriptions. Their schemas, about {weight} \
             tokens, are left out until tool_load brings them."
        ),
        input_schema: json!({
            "type": "object",
            "properties": { "query": { "type": "string", "description": "Words; a tool with more of them comes first." } },
            "required": ["query"],
        }),
    }
}

fn load_def() -> ToolDef {
    ToolDef {
        name: "tool_load".to_owned(),
        description: "Makes tools that were found with tool_search callable from the next step on."
            .to_owned(),
        input_schema: json!({
            "type": "object",
            "properties": { "names": { "type": "array", "items": { "type": "string" }, "description": "Their names." } },
            "required": ["names"],
        }),
    }
}

impl Tool for Search {
    fn def(&self) -> &ToolDef {
        &self.def
    }

    fn impact(&self) -> ToolImpact {
        ToolImpact::ReadOnly
    }

    fn call(&self, invocation: Invocation) -> BoxFuture<'_, ToolOutput> {
        let query =
            invocation.call.args.get("query").and_then(Value::as_str).unwrap_or_default().to_lowercase();
        Box::pin(async move { ToolOutput::text(found(&self.source.tools(), &query)) })
    }
}

fn found(tools: &[Arc<dyn Tool>], query: &str) -> String {
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
    let lines: Vec<_> = matches.into_iter().take(SHOWN).map(|(_, tool)| line(tool.def())).collect();
    match count {
        0 => "No tool matches. Try other or fewer words.".to_owned(),
        _ if count > SHOWN => format!("{}\n({} more)", lines.join("\n"), count - SHOWN),
        _ => lines.join("\n"),
    }
}

fn line(def: &ToolDef) -> String {
    let description = def.description.lines().next().unwrap_or_default();
    format!("{}: {}", def.name, description.chars().take(160).collect::<String>())
}

impl Tool for Load {
    fn def(&self) -> &ToolDef {
        &self.def
    }

    fn impact(&self) -> ToolImpact {
        ToolImpact::ReadOnly
    }

    fn call(&self, invocation: Invocation) -> BoxFuture<'_, ToolOutput> {
        let names: Vec<String> = invocation
            .call
            .args
            .get("names")
            .and_then(Value::as_array)
            .map(|names| names.iter().filter_map(Value::as_str).map(str::to_owned).collect())
            .unwrap_or_default();
        Box::pin(async move {
            let known: BTreeSet<_> = self.source.tools().iter().map(|tool| tool.def().name.clone()).collect();
            let (found, missing): (Vec<_>, Vec<_>) = names.into_iter().partition(|name| known.contains(name));
            self.loaded.names().extend(found.iter().cloned());
            let text = json!({ "loaded": found, "unknown": missing }).to_string();
            if found.is_empty() {
                return ToolOutput::failure(ToolFailure::InvalidArguments, &text);
            }
            ToolOutput::text(text)
        })
    }
}

#[cfg(test)]
mod tests;
