//! Tools that call a test's functions.

use std::future::Future;
use std::sync::Arc;

use meerkat_core::{BoxFuture, Invocation, Tool, ToolDef, ToolOutput, ToolSource};
use serde_json::json;

type Body = dyn Fn(Invocation) -> BoxFuture<'static, ToolOutput> + Send + Sync;

/// A tool backed by a function.
pub struct FnTool {
    def: ToolDef,
    body: Box<Body>,
}

impl FnTool {
    /// Creates a tool.
    pub fn new<F, R>(name: &str, body: F) -> Arc<dyn Tool>
    where
        F: Fn(Invocation) -> R + Send + Sync + 'static,
        R: Future<Output = ToolOutput> + Send + 'static,
    {
        Arc::new(Self {
            def: ToolDef {
                name: name.to_owned(),
                description: format!("The tool {name}."),
                input_schema: json!({ "type": "object" }),
            },
            body: Box::new(move |invocation| Box::pin(body(invocation))),
        })
    }
}

impl Tool for FnTool {
    fn def(&self) -> &ToolDef {
        &self.def
    }

    fn call(&self, invocation: Invocation) -> BoxFuture<'_, ToolOutput> {
        (self.body)(invocation)
    }
}

/// A fixed set of tools.
pub struct Tools(Vec<Arc<dyn Tool>>);

impl Tools {
    /// Creates a source of these tools.
    #[must_use]
    pub fn new(tools: impl IntoIterator<Item = Arc<dyn Tool>>) -> Arc<dyn ToolSource> {
        Arc::new(Self(tools.into_iter().collect()))
    }
}

impl ToolSource for Tools {
    fn tools(&self) -> Vec<Arc<dyn Tool>> {
        self.0.clone()
    }
}
