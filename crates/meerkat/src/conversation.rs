//! Sessions and prompts for embedders: a prompt is awaited, and returns the answer.

use std::fmt;
use std::future::IntoFuture;
use std::marker::PhantomData;
use std::sync::{Arc, OnceLock};

use meerkat_core::run::RunInput;
use meerkat_core::{BoxFuture, BudgetLimits, Content, OutputSchema, SessionId, input_schema};
use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use tokio::sync::Mutex;

use crate::Error;
use crate::sessions::{
    Answer, NewSessionOptions, RunControl, RunHandle, RunRequest, SessionService, Target, TurnOptions,
};

/// A conversation with an agent. Cloning it is cheap; all clones are the same session.
#[derive(Clone)]
pub struct Session {
    sessions: SessionService,
    id: Arc<OnceLock<SessionId>>,
    /// Held while the session is created.
    creation: Arc<Mutex<()>>,
}

impl fmt::Debug for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Session").field("id", &self.id()).field("sessions", &self.sessions).finish()
    }
}

impl Session {
    /// Creates a handle for a stored session, or for one that its first prompt creates.
    pub(crate) fn new(sessions: SessionService, id: Option<SessionId>) -> Self {
        let id = Arc::new(id.map(OnceLock::from).unwrap_or_default());
        Self { sessions, id, creation: Arc::default() }
    }

    /// Returns the session's id, or `None` before its first prompt is stored.
    #[must_use]
    pub fn id(&self) -> Option<SessionId> {
        self.id.get().copied()
    }

    /// Returns the next prompt of the session. A session has one active run at a time.
    pub fn prompt(&self, prompt: impl Into<Content>) -> Prompt {
        let input = RunInput { prompt: prompt.into(), ..RunInput::default() };
        let turn = TurnOptions { input, ..TurnOptions::default() };
        Prompt { session: self.clone(), turn, control: RunControl::default() }
    }

    async fn run(&self, turn: TurnOptions, control: RunControl) -> Result<RunHandle, Error> {
        let creation = if self.id.get().is_none() { Some(self.creation.lock().await) } else { None };
        let target = match self.id.get() {
            Some(id) => Target::Existing(*id),
            None => Target::New(NewSessionOptions::default()),
        };
        let run = self.sessions.run(RunRequest { target, turn, control }).await?;
        self.id.get_or_init(|| run.session_id);
        drop(creation);
        Ok(run)
    }
}

/// A prompt of a [`Session`]. Await it for the answer, or [`start`](Prompt::start) it to follow its events. Dropping
/// the future interrupts the run.
#[must_use = "a prompt does nothing until it is awaited or started"]
#[derive(Debug)]
pub struct Prompt {
    session: Session,
    turn: TurnOptions,
    control: RunControl,
}

impl Prompt {
    /// Selects the model, for the rest of the session.
    pub fn model(mut self, model: impl Into<String>) -> Self {
        self.turn.model = Some(model.into());
        self
    }

    /// Replaces the system prompt, for the rest of the session.
    pub fn system_prompt(mut self, text: impl Into<String>) -> Self {
        self.turn.system_prompt = Some(text.into());
        self
    }

    /// Limits the run.
    pub fn budget(mut self, limits: BudgetLimits) -> Self {
        self.turn.budget = limits;
        self
    }

    /// Changes any option of the run.
    pub fn configure(mut self, change: impl FnOnce(&mut TurnOptions)) -> Self {
        change(&mut self.turn);
        self
    }

    /// Sets the handles for observing and interrupting the run, and for deciding about approvals.
    pub fn control(mut self, control: RunControl) -> Self {
        self.control = control;
        self
    }

    /// Requests structured output instead of text.
    pub fn output<T: DeserializeOwned + JsonSchema>(self) -> OutputPrompt<T> {
        OutputPrompt { prompt: self, output: PhantomData }
    }

    /// Starts the run, and returns when the prompt is durable. Dropping the handle interrupts the run, unless it is
    /// [detached](RunHandle::detach).
    ///
    /// # Errors
    /// Returns an error if the prompt is invalid or the run cannot start; nothing is stored then.
    pub async fn start(self) -> Result<RunHandle, Error> {
        let Self { session, turn, control } = self;
        session.run(turn, control).await
    }
}

impl IntoFuture for Prompt {
    type Output = Result<Answer, Error>;
    type IntoFuture = BoxFuture<'static, Self::Output>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(async { self.start().await?.answer().await })
    }
}

/// A prompt whose answer is structured output.
#[must_use = "a prompt does nothing until it is awaited"]
pub struct OutputPrompt<T> {
    prompt: Prompt,
    output: PhantomData<fn() -> T>,
}

impl<T> fmt::Debug for OutputPrompt<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OutputPrompt").field("prompt", &self.prompt).finish_non_exhaustive()
    }
}

impl<T: DeserializeOwned + JsonSchema + 'static> IntoFuture for OutputPrompt<T> {
    type Output = Result<T, Error>;
    type IntoFuture = BoxFuture<'static, Self::Output>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(async {
            let schema = OutputSchema::parse(input_schema::<T>())?;
            let prompt = self.prompt.configure(|turn| turn.output_schema = Some(schema));
            prompt.await?.into_output()
        })
    }
}
