//! Tools made from functions.

use std::fmt::{self, Display};
use std::future::Future;
use std::sync::Arc;

use meerkat_core::{
    BoxFuture, Content, Invocation, Tool as ToolPort, ToolDef, ToolFailure, ToolImpact, ToolOutput,
    ToolSource, decode, excerpt, input_schema,
};
use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::request_error::RequestError;

type Body = dyn Fn(Invocation) -> BoxFuture<'static, ToolOutput> + Send + Sync;

/// A tool made from a function. For more control, implement [`ports::Tool`](crate::ports::Tool).
#[derive(Clone)]
pub struct Tool {
    def: ToolDef,
    impact: ToolImpact,
    body: Arc<Body>,
}

impl Tool {
    /// Creates a tool. The schema that the model sees is that of the argument, and arguments that do not match it are
    /// returned to the model as an error.
    ///
    /// ```
    /// # use meerkat::Tool;
    /// #[derive(serde::Deserialize, schemars::JsonSchema)]
    /// struct Divide {
    ///     dividend: i64,
    ///     divisor: i64,
    /// }
    ///
    /// Tool::from_fn("divide", "Divides a number.", async |args: Divide| {
    ///     args.dividend.checked_div(args.divisor).map(|it| it.to_string()).ok_or("division by zero")
    /// });
    /// ```
    pub fn from_fn<T, F, O>(name: &str, description: &str, function: F) -> Self
    where
        T: DeserializeOwned + JsonSchema,
        F: Fn(T) -> O + Send + Sync + 'static,
        O: Future<Output: IntoToolOutput> + Send + 'static,
    {
        Self::with_invocation(name, description, move |_, arguments| function(arguments))
    }

    /// Creates a tool from a function that blocks its thread, for example because it reads files or computes for long.
    /// Each call runs on a thread for such functions. If it times out, the run continues, but the function does not end.
    pub fn blocking<T, F, O>(name: &str, description: &str, function: F) -> Self
    where
        T: DeserializeOwned + JsonSchema + Send + 'static,
        F: Fn(T) -> O + Send + Sync + 'static,
        O: IntoToolOutput,
    {
        let function = Arc::new(function);
        Self::from_fn(name, description, move |arguments| {
            let function = Arc::clone(&function);
            async move {
                let call = tokio::task::spawn_blocking(move || function(arguments).into_tool_output());
                call.await.map_err(|_| "the tool crashed")
            }
        })
    }

    /// Creates a tool like [`Tool::from_fn`] whose function also gets the session and the run of the call.
    pub fn with_invocation<T, F, O>(name: &str, description: &str, function: F) -> Self
    where
        T: DeserializeOwned + JsonSchema,
        F: Fn(Invocation, T) -> O + Send + Sync + 'static,
        O: Future<Output: IntoToolOutput> + Send + 'static,
    {
        let def = ToolDef {
            name: name.to_owned(),
            description: description.to_owned(),
            input_schema: input_schema::<T>(),
        };
        let body = move |invocation: Invocation| -> BoxFuture<'static, ToolOutput> {
            match decode(invocation.call.args.clone()) {
                Ok(arguments) => {
                    let output = function(invocation, arguments);
                    Box::pin(async { output.await.into_tool_output() })
                }
                Err(error) => {
                    let failure = ToolOutput::failure(ToolFailure::InvalidArguments, &error);
                    Box::pin(std::future::ready(failure))
                }
            }
        };
        Self { def, impact: ToolImpact::Destructive, body: Arc::new(body) }
    }

    /// Sets the impact, which decides whether a call needs approval. By default, a tool may do anything.
    #[must_use]
    pub fn impact(self, impact: ToolImpact) -> Self {
        Self { impact, ..self }
    }
}

impl ToolPort for Tool {
    fn def(&self) -> &ToolDef {
        &self.def
    }

    fn impact(&self) -> ToolImpact {
        self.impact
    }

    fn call(&self, invocation: Invocation) -> BoxFuture<'_, ToolOutput> {
        (self.body)(invocation)
    }
}

impl fmt::Debug for Tool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tool").field("def", &self.def).field("impact", &self.impact).finish_non_exhaustive()
    }
}

/// Result of the function of a [`Tool`]. An error is reported to the model and does not end the run.
pub trait IntoToolOutput {
    /// Converts the value.
    fn into_tool_output(self) -> ToolOutput;
}

impl IntoToolOutput for ToolOutput {
    fn into_tool_output(self) -> Self {
        self
    }
}

impl IntoToolOutput for Content {
    fn into_tool_output(self) -> ToolOutput {
        ToolOutput { content: self, is_error: false, images: Vec::new() }
    }
}

impl IntoToolOutput for String {
    fn into_tool_output(self) -> ToolOutput {
        ToolOutput::text(self)
    }
}

impl IntoToolOutput for &str {
    fn into_tool_output(self) -> ToolOutput {
        ToolOutput::text(self)
    }
}

impl IntoToolOutput for Value {
    fn into_tool_output(self) -> ToolOutput {
        ToolOutput::text(self.to_string())
    }
}

impl<T: IntoToolOutput, E: Display> IntoToolOutput for Result<T, E> {
    fn into_tool_output(self) -> ToolOutput {
        match self {
            Ok(value) => value.into_tool_output(),
            Err(error) => ToolOutput::failure(ToolFailure::ExecutionFailed, &error.to_string()),
        }
    }
}

/// Tools that never change.
pub(crate) struct FixedTools(pub(crate) Vec<Arc<dyn ToolPort>>);

impl ToolSource for FixedTools {
    fn tools(&self) -> Vec<Arc<dyn ToolPort>> {
        self.0.clone()
    }
}

/// Rejects tool names that providers do not accept, and duplicates; `field` is the path of the list.
pub(crate) fn check_tool_names<'a>(
    field: &str,
    names: impl IntoIterator<Item = &'a str>,
) -> Result<(), RequestError> {
    let mut seen = std::collections::BTreeSet::new();
    for (index, name) in names.into_iter().enumerate() {
        let is_valid = |b: u8| b.is_ascii_alphanumeric() || b == b'_' || b == b'-';
        let problem = if name.is_empty() || name.len() > 64 || !name.bytes().all(is_valid) {
            format!("`{}` must have 1 to 64 letters, digits, `_` or `-`", excerpt(name))
        } else if !seen.insert(name) {
            format!("duplicate tool `{name}`")
        } else {
            continue;
        };
        return Err(RequestError::Arguments(format!("`{field}[{index}].name`: {problem}")));
    }
    Ok(())
}
