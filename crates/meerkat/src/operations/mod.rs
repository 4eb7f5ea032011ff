//! The table of operations. Each operation is declared once, in one file: its name, input, output, and behavior.
//! Every surface is generated from this table.

mod archive;
mod arguments;
mod blob;
mod capabilities;
mod config;
mod event_close;
mod event_open;
mod event_read;
mod generate_image;
mod help;
mod history;
mod interrupt;
#[cfg(feature = "mcp")]
mod mcp;
mod models;
mod read;
mod reply_limit;
mod resume;
mod run;
mod sessions;
mod skills;
mod stored;
mod turn;

use std::future::Future;
use std::sync::OnceLock;

use meerkat_contracts::PendingApproval;
use meerkat_core::{BoxFuture, SessionId, decode, input_schema, output_schema};
use schemars::JsonSchema;

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

pub use archive::Archive;
pub use blob::BlobGet;
pub use capabilities::{Capabilities, NoInput};
pub use config::Configure;
pub use event_close::EventClose;
pub use event_open::EventOpen;
pub use event_read::EventRead;
pub use generate_image::GenerateImage;
pub use help::Help;
pub use history::History;
pub use interrupt::Interrupt;
#[cfg(feature = "mcp")]
pub use mcp::{McpAdd, McpReload, McpRemove};
pub use models::{Models, ModelsReply};
pub use read::Read;
pub use resume::{Resume, continue_run};
pub use run::Run;
pub use sessions::{Sessions, list_sessions};
pub use skills::{Skills, SkillsReply};
pub use stored::stored_reply;

use self::arguments::InputRules;
use crate::records::RecordError;
use crate::{Error, RunControl, Runtime};

/// Number of operations in this build.
const COUNT: usize = 17 + if cfg!(feature = "mcp") { 3 } else { 0 };

/// All operations, in the order of the reference page.
pub static TABLE: [AnyOperation; COUNT] = [
    AnyOperation::new::<Run>(),
    AnyOperation::new::<Resume>(),
    AnyOperation::new::<Help>(),
    AnyOperation::new::<Read>(),
    AnyOperation::new::<History>(),
    AnyOperation::new::<Sessions>(),
    AnyOperation::new::<BlobGet>(),
    AnyOperation::new::<Interrupt>(),
    AnyOperation::new::<Archive>(),
    AnyOperation::new::<Configure>(),
    AnyOperation::new::<Capabilities>(),
    AnyOperation::new::<Models>(),
    AnyOperation::new::<Skills>(),
    #[cfg(feature = "mcp")]
    AnyOperation::new::<McpAdd>(),
    #[cfg(feature = "mcp")]
    AnyOperation::new::<McpRemove>(),
    #[cfg(feature = "mcp")]
    AnyOperation::new::<McpReload>(),
    AnyOperation::new::<EventOpen>(),
    AnyOperation::new::<EventRead>(),
    AnyOperation::new::<EventClose>(),
    AnyOperation::new::<GenerateImage>(),
];

/// Declaration and implementation of an operation.
pub trait Operation {
    /// Name of the operation.
    const NAME: &'static str;
    /// Human-readable title.
    const TITLE: &'static str;
    /// Description for models: the effect and when to use it.
    const DOC: &'static str;
    /// Side effects of the operation.
    const IMPACT: Impact;
    /// Whether the operation itself checks the bounds in its schema, with the same errors on every surface.
    const CHECKS_BOUNDS: bool = false;
    /// Its arguments.
    type Input: DeserializeOwned + JsonSchema + Send + 'static;
    /// Its reply.
    type Output: Serialize + JsonSchema;

    /// Calls the operation.
    fn call(call: Call, input: Self::Input) -> impl Future<Output = Result<Self::Output, Error>> + Send;

    /// Returns the session that a reply is about, if a run or the operation changed it.
    fn session(_: &Self::Output) -> Option<SessionId> {
        None
    }

    /// Returns the calls that await approval, if the run waits for nothing else.
    fn awaiting(_: &Self::Output) -> &[PendingApproval] {
        &[]
    }
}

/// An operation that is called by name, with JSON.
pub struct AnyOperation {
    /// Name of the operation.
    pub name: &'static str,
    /// Human-readable title.
    pub title: &'static str,
    /// Description for models: the effect and when to use it.
    pub doc: &'static str,
    /// Side effects of the operation.
    pub impact: Impact,
    input_schema: fn() -> Value,
    output_schema: fn() -> Value,
    rules: OnceLock<Option<InputRules>>,
    call: Handler,
}

/// Decodes arguments, and returns the operation to run.
type Handler =
    fn(Call, Value, Option<&InputRules>) -> Result<BoxFuture<'static, Result<JsonReply, Error>>, Error>;

/// Reply of an operation as JSON, with what surfaces need to know about it.
#[derive(Debug, Clone, PartialEq)]
pub struct JsonReply {
    /// The reply.
    pub json: Value,
    /// The session that the reply is about, if a run or the operation changed it.
    pub session: Option<SessionId>,
    /// The calls that await approval, if the run waits for nothing else.
    pub awaiting: Vec<PendingApproval>,
}

impl JsonReply {
    fn new<O: Operation>(output: O::Output) -> Result<Self, Error> {
        Ok(Self {
            session: O::session(&output),
            awaiting: O::awaiting(&output).to_vec(),
            json: serde_json::to_value(output).map_err(RecordError::Encode)?,
        })
    }
}

/// Side effects of an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Impact {
    /// Reads only.
    ReadOnly,
    /// Changes state; repeating it has no further effect.
    Idempotent,
    /// Removes something; repeating it has no further effect.
    Destructive,
    /// Creates something in an external system; repeating it creates another.
    Creates,
    /// Runs an agent, which can do anything its tools can.
    RunsAgent,
}

/// Context of a call.
#[derive(Clone)]
pub struct Call {
    /// The runtime.
    pub runtime: Runtime,
    /// Events and cancellation of the run.
    pub control: RunControl,
}

/// Finds an operation by name.
#[must_use]
pub fn find(name: &str) -> Option<&'static AnyOperation> {
    TABLE.iter().find(|operation| operation.name == name)
}

/// Decodes the arguments of an operation.
///
/// # Errors
/// Returns `INVALID_PARAMS` with the path of the first argument that does not fit.
pub fn arguments<O: Operation>(arguments: Value) -> Result<O::Input, Error> {
    decode(arguments).map_err(Error::arguments)
}

impl AnyOperation {
    const fn new<O: Operation>() -> Self {
        Self {
            name: O::NAME,
            title: O::TITLE,
            doc: O::DOC,
            impact: O::IMPACT,
            input_schema: input_schema::<O::Input>,
            output_schema: output_schema::<O::Output>,
            rules: OnceLock::new(),
            call: |call, arguments, rules| {
                let input = match rules {
                    Some(rules) => rules.decode::<O::Input>(arguments, O::CHECKS_BOUNDS)?,
                    None => self::arguments::<O>(arguments)?,
                };
                Ok(Box::pin(async move { JsonReply::new::<O>(O::call(call, input).await?) }))
            },
        }
    }

    /// Returns the JSON Schema of the input.
    #[must_use]
    pub fn input_schema(&self) -> Value {
        (self.input_schema)()
    }

    /// Returns the JSON Schema of the output.
    #[must_use]
    pub fn output_schema(&self) -> Value {
        (self.output_schema)()
    }

    /// Calls the operation.
    ///
    /// # Errors
    /// Returns `INVALID_PARAMS` if the arguments do not match the schema, or the operation's error.
    pub async fn call(&self, call: Call, arguments: Value) -> Result<JsonReply, Error> {
        let rules = self.rules.get_or_init(|| InputRules::new(&self.input_schema())).as_ref();
        let session = named_session(&call.runtime, &arguments);
        let runtime = call.runtime.clone();
        let reply = match (self.call)(call, arguments, rules) {
            Ok(reply) => reply.await,
            Err(error) => Err(error),
        };
        reply.map_err(|source| match session {
            Some(id) => in_session(&runtime, id, source),
            None => source,
        })
    }
}

fn in_session(runtime: &Runtime, id: SessionId, source: Error) -> Error {
    Error::InSession { id, reference: runtime.reference(id), source: Box::new(source) }
}

/// Finds the session that a request refers to, so that its error can name the session.
fn named_session(runtime: &Runtime, arguments: &Value) -> Option<SessionId> {
    let text = |key: &str| arguments.get(key).and_then(Value::as_str);
    let stream_session = || runtime.sessions().stream_session(text("stream_id")?.parse().ok()?).ok();
    text("session_id").and_then(|id| id.parse().ok()).or_else(stream_session)
}
