//! The spans and log lines of Meerkat on their way out: to stderr, and to an OpenTelemetry collector.
//!
//! Libraries say what happens with the crate `tracing` and know nothing of this one. A program starts it once, from
//! values. Where nobody asked for anything, nothing is started, and spans cost next to nothing. Whatever leaves
//! goes through the [`Redactor`] first.

mod filter;
mod log;
#[cfg(feature = "otel")]
mod otlp;
mod variables;

use std::sync::Arc;
use std::time::Duration;

use meerkat_core::Redactor;
use tracing_subscriber::layer::{Layer as _, SubscriberExt as _};

pub use filter::{FilterError, LogFilter};
pub use variables::{Content, OtlpOptions, Settings, VARIABLES};

/// Takes a line of the log.
pub type LineSink = Arc<dyn Fn(&str) + Send + Sync>;

/// What a program wants to be seen of it.
#[derive(Default)]
pub struct TelemetryOptions {
    /// Which log lines are written, and who takes them.
    pub log: Option<(LogFilter, LineSink)>,
    /// Where traces are sent.
    pub otlp: Option<OtlpOptions>,
    /// What is taken out of everything that leaves.
    pub redactor: Redactor,
}

/// What was started; it is to be finished before the program ends.
#[derive(Default)]
pub struct Telemetry {
    #[cfg(feature = "otel")]
    exporter: Option<otlp::Exporter>,
}

impl Telemetry {
    /// Starts what is wanted, for the whole process. Where nothing is, this does nothing.
    #[must_use]
    pub fn start(options: TelemetryOptions) -> Self {
        let TelemetryOptions { log, otlp, redactor } = options;
        if log.is_none() && otlp.is_none() {
            return Self::default();
        }
        let lines = log
            .map(|(filter, sink)| log::LogLayer::new(sink, redactor.clone()).with_filter(filter.targets()));
        let registry = tracing_subscriber::registry().with(lines);
        #[cfg(feature = "otel")]
        {
            let started = otlp.map(|options| otlp::start(options, redactor));
            let (layer, exporter) = started.unzip();
            let _ = tracing::subscriber::set_global_default(registry.with(layer));
            Self { exporter }
        }
        #[cfg(not(feature = "otel"))]
        {
            let _ = tracing::subscriber::set_global_default(registry);
            Self {}
        }
    }

    /// Sends what has not been sent, as far as that takes no longer than this. Returns what did not arrive, in words.
    #[must_use]
    pub fn finish(&self, patience: Duration) -> Option<String> {
        #[cfg(feature = "otel")]
        return self.exporter.as_ref().and_then(|exporter| exporter.finish(patience));
        #[cfg(not(feature = "otel"))]
        {
            let _ = patience;
            None
        }
    }
}
