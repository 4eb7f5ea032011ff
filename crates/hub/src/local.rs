//! Functions and trigger types that this process registers on the hub.

use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::pin::Pin;
use std::sync::Arc;

use futures_util::FutureExt as _;
use serde::Deserialize;
use serde_json::Value;

use crate::error::CallError;
use crate::guarded::Guarded;

/// A boxed future.
pub type BoxFuture<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// Handler of a function's calls.
pub type Handler = Arc<dyn Fn(Invocation) -> BoxFuture<Result<Value, CallError>> + Send + Sync>;

/// A call of a function of this process.
#[derive(Debug, Clone, PartialEq)]
pub struct Invocation {
    /// Function id.
    pub function_id: String,
    /// The payload; null if there is none.
    pub data: Value,
    /// The calling worker, if any.
    pub caller: Option<String>,
    /// The rights of the caller, if access rules apply to it; if `None`, it may do everything.
    pub guarded: Option<Guarded>,
}

/// Runs a handler. A panic is answered with an error.
pub(crate) async fn run_handler(handler: Handler, invocation: Invocation) -> Result<Value, CallError> {
    let function_id = invocation.function_id.clone();
    // Call the handler inside the future, so that panics before its first await are caught too.
    let running = AssertUnwindSafe(async move { handler(invocation).await }).catch_unwind();
    running.await.unwrap_or_else(|_| {
        tracing::error!(function_id, "a handler panicked");
        Err(CallError::failed(format!("the handler of `{function_id}` panicked")))
    })
}

/// A function of this process.
#[derive(Clone)]
pub struct LocalFunction {
    /// Function id, such as `skills::list`.
    pub id: String,
    /// Description of the function.
    pub description: Option<String>,
    /// Schema of the input.
    pub request_format: Option<Value>,
    /// Schema of the output.
    pub response_format: Option<Value>,
    /// Additional metadata.
    pub metadata: Option<Value>,
    /// Handler of its calls.
    pub handler: Handler,
}

impl LocalFunction {
    /// Creates a function with only an id and a handler.
    pub fn new<F, R>(id: impl Into<String>, run: F) -> Self
    where
        F: Fn(Invocation) -> R + Send + Sync + 'static,
        R: Future<Output = Result<Value, CallError>> + Send + 'static,
    {
        Self {
            id: id.into(),
            description: None,
            request_format: None,
            response_format: None,
            metadata: None,
            handler: Arc::new(move |invocation| Box::pin(run(invocation))),
        }
    }
}

/// Stores the subscriptions of a trigger type of this process, in place of the hub.
///
/// Its methods are called sequentially, in the order in which the triggers were registered, and may call the hub.
pub trait TriggerHost: Send + Sync {
    /// Registers a trigger, replacing one with the same id. `config` is JSON.
    fn register(&self, trigger_id: &str, function_id: &str, config: &str);

    /// Removes a trigger.
    fn unregister(&self, trigger_id: &str);
}

/// A trigger type of this process.
#[derive(Clone)]
pub struct LocalTriggerType {
    /// Trigger type id, such as `skills::on-change`.
    pub id: String,
    /// Description of when it fires.
    pub description: String,
    /// Host of its triggers, in place of [`Hub::fire`](crate::Hub::fire).
    pub host: Option<Arc<dyn TriggerHost>>,
}

/// A function that can be called through the hub.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct FunctionInfo {
    /// Function id.
    #[serde(rename = "function_id")]
    pub id: String,
    /// Description of the function.
    pub description: Option<String>,
    /// Schema of the input.
    pub request_format: Option<Value>,
    /// Schema of the output.
    pub response_format: Option<Value>,
    /// Additional metadata.
    pub metadata: Option<Value>,
}
