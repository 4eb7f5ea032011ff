//! What `rkat run` shows while a run is in progress.
//!
//! A thread writes it, so that a reader that has stopped reading holds up that thread and never the run.

use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, OnceLock};

use meerkat::{AgentEvent, BudgetType, EventEnvelope, EventSink, McpServers, Notify};
use tokio::sync::oneshot;

use crate::args::{Output, RunArgs};
use crate::render::clip;
use crate::{env, out, servers};

/// What a change of tools is about when one could not be offered to the model.
const LEFT_OUT: &str = "tool_scope";

/// What is said beside the answer.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Notes {
    None,
    Warnings,
    /// What goes on, too.
    Progress,
}

/// What is shown.
#[derive(Clone, Copy)]
struct View {
    streams: bool,
    verbose: bool,
    notes: Notes,
}

enum Entry {
    Event(Box<AgentEvent>),
    Notice(String),
    /// Everything before it is written.
    Mark(oneshot::Sender<()>),
}

/// Shows a run while it is in progress.
pub(super) struct Screen {
    view: View,
    /// Nothing waits in it that the run does not hold in memory as well, so it needs no bound.
    entries: Sender<Entry>,
    servers: Arc<OnceLock<Arc<McpServers>>>,
}

impl Screen {
    pub(super) fn start(args: &RunArgs) -> Self {
        let (view, servers) = (View::new(args), Arc::default());
        let (sender, entries) = channel();
        let mut writer = Writer { view, servers: Arc::clone(&servers), is_line_open: false };
        std::thread::spawn(move || writer.run(&entries));
        Self { view, entries: sender, servers }
    }

    /// Sets the servers whose tools the run uses.
    pub(super) fn set_servers(&self, servers: &Arc<McpServers>) {
        // The first stay; a run has one set.
        let _ = self.servers.set(Arc::clone(servers));
    }

    /// Returns what takes notices for the user, each on a line of its own.
    pub(super) fn notify(&self) -> Notify {
        let entries = self.entries.clone();
        Arc::new(move |line: &str| {
            // The thread lives as long as the program.
            let _ = entries.send(Entry::Notice(line.to_owned()));
        })
    }

    /// Returns the sink for the events of runs.
    pub(super) fn sink(&self) -> Option<EventSink> {
        let View { streams, verbose, notes } = self.view;
        if !streams && !verbose && notes == Notes::None {
            return None;
        }
        let entries = self.entries.clone();
        Some(Arc::new(move |event: EventEnvelope| {
            let _ = entries.send(Entry::Event(Box::new(event.payload)));
        }))
    }

    /// Returns true if the answer is shown while it is written.
    pub(super) const fn streams(&self) -> bool {
        self.view.streams
    }

    /// Waits until everything so far is written, and the streamed text has ended its line.
    pub(super) async fn flush(&self) {
        let (mark, reached) = oneshot::channel();
        if self.entries.send(Entry::Mark(mark)).is_ok() {
            let _ = reached.await;
        }
    }
}

impl View {
    fn new(args: &RunArgs) -> Self {
        let text = args.output() == Output::Text && args.schema.is_none();
        Self {
            streams: text && (args.stream || (env::stdout_is_terminal() && !args.no_stream)),
            verbose: args.verbose,
            notes: match args.quiet {
                true => Notes::None,
                false if env::stderr_has_colours() => Notes::Progress,
                false => Notes::Warnings,
            },
        }
    }
}

/// Writes events, in a thread of its own.
struct Writer {
    view: View,
    servers: Arc<OnceLock<Arc<McpServers>>>,
    /// Whether the cursor stands in the middle of streamed text.
    is_line_open: bool,
}

impl Writer {
    fn run(&mut self, entries: &Receiver<Entry>) {
        for entry in entries {
            match entry {
                Entry::Event(event) => self.show(*event),
                Entry::Notice(line) => {
                    self.close_line();
                    out::say(&line);
                }
                Entry::Mark(reached) => {
                    self.close_line();
                    let _ = reached.send(());
                }
            }
        }
    }

    fn show(&mut self, event: AgentEvent) {
        let View { streams, verbose, notes } = self.view;
        let (progress, warns) = (notes == Notes::Progress, notes != Notes::None);
        if verbose {
            out::say(&serde_json::to_string(&event).unwrap_or_default());
        }
        match event {
            AgentEvent::TextDelta { delta } if streams => {
                out::stream(&delta);
                self.is_line_open = !delta.ends_with('\n');
            }
            AgentEvent::ToolCallRequested { name, args, .. } if progress => {
                self.close_line();
                out::note(&format!("→ {name} {}", clip(&args.to_string(), 80)));
            }
            AgentEvent::ToolConfigChanged { payload }
                if warns && payload.domain.as_deref() == Some(LEFT_OUT) =>
            {
                self.close_line();
                let (tool, status) = (&payload.target, &payload.status);
                let place = self.servers.get().map(|servers| servers::place_of_tool(servers, tool));
                let place = place.unwrap_or_default();
                out::say(&format!("warning: the tool `{tool}` is {status}{place}"));
            }
            AgentEvent::BudgetWarning { budget_type, percent, .. } if warns && percent < 1.0 => {
                self.close_line();
                let what = match budget_type {
                    BudgetType::Tokens => "tokens",
                    BudgetType::Time => "time",
                    BudgetType::ToolCalls => "tool calls",
                    BudgetType::Cost => "money",
                };
                out::say(&format!("warning: {:.0} % of the run's {what} is used", percent * 100.0));
            }
            AgentEvent::Retrying { error, delay_ms, .. } if progress => {
                self.close_line();
                out::note(&format!("trying again in {} s: {error}", delay_ms.div_ceil(1000)));
            }
            _ => {}
        }
    }

    fn close_line(&mut self) {
        if std::mem::take(&mut self.is_line_open) {
            out::stream("\n");
        }
    }
}
