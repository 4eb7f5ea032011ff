//! Output of Meerkat's spans and log lines: to stderr, and to an OpenTelemetry collector.
//!
//! Libraries report events through the crate `tracing` and do not depend on this one. A program starts it once,
//! from explicit settings. If neither output is configured, nothing is started and spans cost next to nothing. All
//! output goes through the [`Redactor`] first.

mod env;
mod filter;
mod log;
#[cfg(feature = "otel")]
mod otlp;

use std::sync::Arc;
use std::time::Duration;

use meerkat_core::Redactor;
use tracing_subscriber::layer::{Layer as _, SubscriberExt as _};

pub use env::{Content, OtlpOptions, Settings, VARIABLES};
pub use filter::{FilterError, LogFilter};
pub use log::{LogFormat, UnknownFormat, json_message};
pub use tracing::Level;

/// Callback that receives log lines.
pub type LineSink = Arc<dyn Fn(&str) + Send + Sync>;

/// Telemetry settings of a program.
#[derive(Default)]
pub struct TelemetryOptions {
    /// Filter for log lines and the sink that receives them.
    pub log: Option<(LogFilter, LineSink)>,
    /// Form of log lines.
    pub log_format: LogFormat,
    /// Destination of traces.
    pub otlp: Option<OtlpOptions>,
    /// Redactor applied to all output.
    pub redactor: Redactor,
}

/// Running telemetry. Call [`Telemetry::finish`] before the program exits.
#[derive(Default)]
pub struct Telemetry {
    #[cfg(feature = "otel")]
    exporter: Option<otlp::Exporter>,
}

impl Telemetry {
    /// Starts the configured outputs for the whole process. Does nothing if none is configured.
    #[must_use]
    pub fn start(options: TelemetryOptions) -> Self {
        let TelemetryOptions { log, log_format, otlp, redactor } = options;
        if log.is_none() && otlp.is_none() {
            return Self::default();
        }
        let lines = log.map(|(filter, sink)| {
            log::LogLayer::new(sink, log_format, redactor.clone()).with_filter(filter.targets())
        });
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

    /// Sends pending spans for at most `timeout`. Returns a message about spans that were not delivered.
    #[must_use]
    pub fn finish(&self, timeout: Duration) -> Option<String> {
        #[cfg(feature = "otel")]
        return self.exporter.as_ref().and_then(|exporter| exporter.finish(timeout));
        #[cfg(not(feature = "otel"))]
        {
            let _ = timeout;
            None
        }
    }
}
