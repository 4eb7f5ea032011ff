//! What this process puts on the hub: functions and trigger types.

use std::fmt;
use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::pin::Pin;
use std::sync::Arc;

use futures_util::FutureExt as _;
use serde_json::Value;

use crate::error::CallError;
use crate::guarded::Guarded;

/// A future that can be kept.
pub type BoxFuture<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// What runs when a function is called.
pub type Handler = Arc<dyn Fn(Invocation) -> BoxFuture<Result<Value, CallError>> + Send + Sync>;

/// A call of a function of this process.
#[derive(Debug, Clone, PartialEq)]
pub struct Invocation {
    /// The function.
    pub function_id: String,
    /// What it was given; null if nothing.
    pub data: Value,
    /// The worker that called, if it was one.
    pub caller: Option<String>,
    /// The rights of the caller, if access rules apply to it; without, it may do everything.
    pub guarded: Option<Guarded>,
}

/// Runs a handler. One that panics is answered for with an error.
pub(crate) async fn run_handler(handler: Handler, invocation: Invocation) -> Result<Value, CallError> {
    let function_id = invocation.function_id.clone();
    // The handler itself runs inside the future, so that what it does before its first await is covered too.
    let running = AssertUnwindSafe(async move { handler(invocation).await }).catch_unwind();
    running.await.unwrap_or_else(|_| {
        tracing::error!(function_id, "a handler panicked");
        Err(CallError::failed(format!("the handler of `{function_id}` panicked")))
    })
}

/// A function of this process.
#[derive(Clone)]
pub struct LocalFunction {
    /// Its id, such as `skills::list`.
    pub id: String,
    /// What it does.
    pub description: Option<String>,
    /// The schema of what it takes.
    pub request_format: Option<Value>,
    /// The schema of what it gives.
    pub response_format: Option<Value>,
    /// What else is known of it.
    pub metadata: Option<Value>,
    /// What runs.
    pub handler: Handler,
}

impl LocalFunction {
    /// A function of which only the id is told.
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

impl fmt::Debug for LocalFunction {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("LocalFunction").field("id", &self.id).finish_non_exhaustive()
    }
}

/// Who keeps the subscriptions of a trigger type of this process, where the hub does not.
///
/// Its methods are called one after the other, in the order in which the triggers came, and may call the hub.
pub trait TriggerHost: Send + Sync {
    /// A trigger is there; one with the same id is replaced. `config` is JSON.
    fn register(&self, trigger_id: &str, function_id: &str, config: &str);

    /// A trigger is gone.
    fn unregister(&self, trigger_id: &str);
}

/// A trigger type of this process.
#[derive(Clone)]
pub struct LocalTriggerType {
    /// Its id, such as `skills::on-change`.
    pub id: String,
    /// When it fires.
    pub description: String,
    /// Who is told of its triggers, in place of [`Hub::fire`](crate::Hub::fire).
    pub host: Option<Arc<dyn TriggerHost>>,
}

impl fmt::Debug for LocalTriggerType {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("LocalTriggerType").field("id", &self.id).finish_non_exhaustive()
    }
}

/// A function that can be called through the hub.
#[derive(Debug, Clone, PartialEq)]
pub struct FunctionInfo {
    /// Its id.
    pub id: String,
    /// What it does.
    pub description: Option<String>,
    /// The schema of what it takes.
    pub request_format: Option<Value>,
    /// The schema of what it gives.
    pub response_format: Option<Value>,
    /// What else is known of it.
    pub metadata: Option<Value>,
}
