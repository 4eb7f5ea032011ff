//! Built-in tools whose schema and definition derive from the type of their arguments.

use std::sync::Arc;

use meerkat_core::{
    BoxFuture, Invocation, SessionId, Tool, ToolDef, ToolFailure, ToolImpact, ToolOutput, decode,
    input_schema,
};
use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::Error;

/// Result of a built-in tool.
pub(crate) type Reply = Result<ToolOutput, Error>;

/// The arguments of a tool that takes none.
#[derive(Deserialize, JsonSchema)]
pub(crate) struct NoArguments {}

/// One built-in tool.
pub(crate) trait Builtin: Send + Sync + 'static {
    /// Name of the tool, as the model sees it.
    const NAME: &'static str;
    /// Description for the model.
    const DESCRIPTION: &'static str;
    /// Effects of a call.
    const IMPACT: ToolImpact;
    /// Arguments of a call.
    type Arguments: DeserializeOwned + JsonSchema + Send;

    /// Runs the tool.
    fn run(&self, arguments: Self::Arguments, session: SessionId) -> impl Future<Output = Reply> + Send;
}

/// Wraps a built-in as a tool that a run can call.
pub(crate) fn tool<B: Builtin>(builtin: B) -> Arc<dyn Tool> {
    let def = ToolDef {
        name: B::NAME.to_owned(),
        description: B::DESCRIPTION.to_owned(),
        input_schema: input_schema::<B::Arguments>(),
    };
    Arc::new(Erased { def, builtin })
}

/// Returns a value as a successful JSON result.
pub(crate) fn reply<T: Serialize>(value: &T) -> Reply {
    Ok(ToolOutput::text(serde_json::to_string(value).map_err(Error::Encode)?))
}

struct Erased<B> {
    def: ToolDef,
    builtin: B,
}

impl<B: Builtin> Tool for Erased<B> {
    fn def(&self) -> &ToolDef {
        &self.def
    }

    fn impact(&self) -> ToolImpact {
        B::IMPACT
    }

    fn call(&self, invocation: Invocation) -> BoxFuture<'_, ToolOutput> {
        Box::pin(async move {
            let session = invocation.session_id;
            let arguments = match decode(invocation.call.args) {
                Ok(arguments) => arguments,
                Err(error) => return ToolOutput::failure(ToolFailure::InvalidArguments, &error),
            };
            let done = self.builtin.run(arguments, session).await;
            done.unwrap_or_else(|error| ToolOutput::failure(error.failure(), &error.error_chain()))
        })
    }
}
