//! Output of `rkat run` while a run is in progress.
//!
//! A thread writes it, so that a stalled reader blocks that thread and never the run.

use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, OnceLock};

use meerkat::{AgentEvent, BudgetType, EventEnvelope, EventSink, McpServers, NoticeSink};
use tokio::sync::oneshot;

use crate::args::{Output, RunArgs};
use crate::render::clip;
use crate::{env, out, servers};

/// Domain of a tool config change that reports a tool omitted from the model's tools.
const TOOL_OMITTED: &str = "tool_scope";

/// Level of detail on stderr.
#[derive(Clone, Copy, PartialEq, Eq)]
enum NoteLevel {
    None,
    Warnings,
    /// Warnings and progress.
    Progress,
}

/// Selection of what is shown.
#[derive(Clone, Copy)]
struct View {
    streams: bool,
    verbose: bool,
    notes: NoteLevel,
}

enum Entry {
    Event(Box<AgentEvent>),
    Notice(String),
    /// Acknowledged once everything before it is written.
    Mark(oneshot::Sender<()>),
}

/// Display of a run in progress.
#[derive(Clone)]
pub(super) struct RunDisplay {
    view: View,
    /// Unbounded, because the run holds all queued events in memory as well.
    entries: Sender<Entry>,
    servers: Arc<OnceLock<Arc<McpServers>>>,
}

impl RunDisplay {
    pub(super) fn start(args: &RunArgs) -> Self {
        let (view, servers) = (View::new(args), Arc::default());
        let (sender, entries) = channel();
        let mut writer = Writer { view, servers: Arc::clone(&servers), is_line_open: false };
        std::thread::spawn(move || writer.run(&entries));
        Self { view, entries: sender, servers }
    }

    /// Sets the servers whose tools the run uses.
    pub(super) fn set_servers(&self, servers: &Arc<McpServers>) {
        // A run has one set of servers, so the first value is kept.
        let _ = self.servers.set(Arc::clone(servers));
    }

    /// Returns the sink for notices to the user, each on a separate line.
    pub(super) fn notify(&self) -> NoticeSink {
        let entries = self.entries.clone();
        Arc::new(move |line: &str| {
            // The thread lives as long as the process.
            let _ = entries.send(Entry::Notice(line.to_owned()));
        })
    }

    /// Returns the event sink for runs.
    pub(super) fn sink(&self) -> Option<EventSink> {
        let View { streams, verbose, notes } = self.view;
        if !streams && !verbose && notes == NoteLevel::None {
            return None;
        }
        let entries = self.entries.clone();
        Some(Arc::new(move |event: EventEnvelope| {
            let _ = entries.send(Entry::Event(Box::new(event.payload)));
        }))
    }

    /// Returns `true` if the answer is streamed.
    pub(super) const fn streams(&self) -> bool {
        self.view.streams
    }

    /// Waits until everything so far is written and the line of streamed text is ended.
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
                true => NoteLevel::None,
                false if env::stderr_has_colors() => NoteLevel::Progress,
                false => NoteLevel::Warnings,
            },
        }
    }
}

/// Writer of events, in a dedicated thread.
struct Writer {
    view: View,
    servers: Arc<OnceLock<Arc<McpServers>>>,
    /// Whether the cursor is in the middle of a line of streamed text.
    is_line_open: bool,
}

impl Writer {
    fn run(&mut self, entries: &Receiver<Entry>) {
        for entry in entries {
            match entry {
                Entry::Event(event) => self.show(*event),
                Entry::Notice(line) => {
                    self.close_line();
                    out::stderr_line(&line);
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
        let (progress, warns) = (notes == NoteLevel::Progress, notes != NoteLevel::None);
        if verbose {
            out::stderr_line(&serde_json::to_string(&event).unwrap_or_default());
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
                if warns && payload.domain.as_deref() == Some(TOOL_OMITTED) =>
            {
                self.close_line();
                let (tool, status) = (&payload.target, &payload.status);
                let place = self.servers.get().map(|servers| servers::tool_location(servers, tool));
                let place = place.unwrap_or_default();
                out::warn(format_args!("tool `{tool}` is {status}{place}"));
            }
            AgentEvent::BudgetWarning { budget_type, percent, .. } if warns && percent < 1.0 => {
                self.close_line();
                let what = match budget_type {
                    BudgetType::Tokens => "token",
                    BudgetType::Time => "time",
                    BudgetType::ToolCalls => "tool call",
                    BudgetType::Cost => "cost",
                };
                out::warn(format_args!("{:.0}% of the run's {what} budget is used", percent * 100.0));
            }
            AgentEvent::Retrying { error, delay_ms, .. } if progress => {
                self.close_line();
                out::note(&format!("retrying in {} s: {error}", delay_ms.div_ceil(1000)));
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
