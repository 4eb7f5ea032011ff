//! The table of operations. Each operation is declared once, in one file: its name, what it takes and gives,
//! what it does. Every surface is made from this table.

mod archive;
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
mod resume;
mod run;
mod sessions;
mod skills;
mod turn;

use std::future::Future;
use std::sync::OnceLock;

use jsonschema::Validator;
use meerkat_core::{BoxFuture, SessionId, input_schema, reply_schema};
use schemars::JsonSchema;

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::config::at_path;
use crate::{Error, RunControl, Runtime};

/// How many operations this build has.
const COUNT: usize = 17 + if cfg!(feature = "mcp") { 3 } else { 0 };

/// Every operation, in the order of the reference page.
pub static TABLE: [Operation; COUNT] = [
    Operation::of::<run::Run>(),
    Operation::of::<resume::Resume>(),
    Operation::of::<help::Help>(),
    Operation::of::<read::Read>(),
    Operation::of::<history::History>(),
    Operation::of::<sessions::Sessions>(),
    Operation::of::<blob::BlobGet>(),
    Operation::of::<interrupt::Interrupt>(),
    Operation::of::<archive::Archive>(),
    Operation::of::<config::Configure>(),
    Operation::of::<capabilities::Capabilities>(),
    Operation::of::<models::Models>(),
    Operation::of::<skills::Skills>(),
    #[cfg(feature = "mcp")]
    Operation::of::<mcp::McpAdd>(),
    #[cfg(feature = "mcp")]
    Operation::of::<mcp::McpRemove>(),
    #[cfg(feature = "mcp")]
    Operation::of::<mcp::McpReload>(),
    Operation::of::<event_open::EventOpen>(),
    Operation::of::<event_read::EventRead>(),
    Operation::of::<event_close::EventClose>(),
    Operation::of::<generate_image::GenerateImage>(),
];

/// An operation, ready to be called by name.
pub struct Operation {
    /// Its name.
    pub name: &'static str,
    /// Its name for people.
    pub title: &'static str,
    /// What it does and when to use it, for a model to read.
    pub doc: &'static str,
    /// What it does to the world.
    pub impact: Impact,
    input_schema: fn() -> Value,
    output_schema: fn() -> Value,
    judge: OnceLock<Option<Validator>>,
    call: Handler,
}

/// Decodes arguments, refuses those of which a misfit is already known, and does the work.
type Handler = fn(Call, Value, Option<Error>) -> BoxFuture<'static, Result<Value, Error>>;

/// What an operation does to the world.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Impact {
    /// It only reads.
    Reads,
    /// It changes something; doing it again changes no more.
    Settles,
    /// It takes something away; doing it again takes no more.
    Removes,
    /// It asks somebody outside to make something; doing it again makes another.
    Makes,
    /// It runs an agent, which may do anything its tools can.
    Runs,
}

/// Who calls, and how the call is watched and stopped.
#[derive(Clone)]
pub struct Call {
    /// The runtime.
    pub runtime: Runtime,
    /// How a run is watched and stopped.
    pub control: RunControl,
}

/// An operation as its file declares it.
pub(crate) trait Handle {
    const NAME: &'static str;
    const TITLE: &'static str;
    const DOC: &'static str;
    const IMPACT: Impact;
    type Input: DeserializeOwned + JsonSchema + Send;
    type Output: Serialize + JsonSchema;

    fn handle(call: Call, input: Self::Input) -> impl Future<Output = Result<Self::Output, Error>> + Send;
}

/// Finds an operation.
#[must_use]
pub fn find(name: &str) -> Option<&'static Operation> {
    TABLE.iter().find(|operation| operation.name == name)
}

impl Operation {
    const fn of<H: Handle>() -> Self {
        Self {
            name: H::NAME,
            title: H::TITLE,
            doc: H::DOC,
            impact: H::IMPACT,
            input_schema: input_schema::<H::Input>,
            output_schema: reply_schema::<H::Output>,
            judge: OnceLock::new(),
            call: |call, arguments, misfit| {
                Box::pin(async move {
                    let input = decode::<H::Input>(arguments)?;
                    misfit.map_or(Ok(()), Err)?;
                    let output = H::handle(call, input).await?;
                    serde_json::to_value(output).map_err(Error::Encode)
                })
            },
        }
    }

    /// Returns the JSON Schema of what it takes.
    #[must_use]
    pub fn input_schema(&self) -> Value {
        (self.input_schema)()
    }

    /// Returns the JSON Schema of what it gives.
    #[must_use]
    pub fn output_schema(&self) -> Value {
        (self.output_schema)()
    }

    /// Calls it.
    ///
    /// # Errors
    /// `INVALID_PARAMS` when the arguments do not fit, else what the operation says.
    pub async fn call(&self, call: Call, arguments: Value) -> Result<Value, Error> {
        let misfit = self.misfit(&arguments);
        let named = named_session(&call.runtime, &arguments);
        let runtime = call.runtime.clone();
        (self.call)(call, arguments, misfit).await.map_err(|source| match named {
            Some(id) => Error::OfSession { id, reference: runtime.reference(id), source: Box::new(source) },
            None => source,
        })
    }

    /// Says what in the arguments does not fit the schema. Decoding finds most of it and says it better, but
    /// takes a list for an object whose fields it happens to fill.
    fn misfit(&self, arguments: &Value) -> Option<Error> {
        let judge = self.judge.get_or_init(|| jsonschema::draft202012::new(&self.input_schema()).ok());
        let error = judge.as_ref()?.validate(arguments).err()?;
        let what: String = error.to_string().chars().take(300).collect();
        Some(Error::Arguments(at_path(&dotted(&error.instance_path().to_string()), &what)))
    }
}

/// Finds the session that a request is about, so that its error can name it.
fn named_session(runtime: &Runtime, arguments: &Value) -> Option<SessionId> {
    let text = |key: &str| arguments.get(key).and_then(Value::as_str);
    let streamed = || runtime.sessions().stream_session(text("stream_id")?.parse().ok()?).ok();
    text("session_id").and_then(|id| id.parse().ok()).or_else(streamed)
}

/// Writes a JSON pointer as the path that decoding would name.
fn dotted(pointer: &str) -> String {
    let mut path = String::new();
    for part in pointer.split('/').skip(1) {
        if part.bytes().all(|byte| byte.is_ascii_digit()) {
            path.push_str(&format!("[{part}]"));
        } else {
            path.push_str(if path.is_empty() { "" } else { "." });
            path.push_str(part);
        }
    }
    if path.is_empty() { ".".to_owned() } else { path }
}

pub(crate) fn decode<T: DeserializeOwned>(arguments: Value) -> Result<T, Error> {
    serde_path_to_error::deserialize(arguments)
        .map_err(|error| Error::Arguments(at_path(&error.path().to_string(), &error.inner().to_string())))
}
