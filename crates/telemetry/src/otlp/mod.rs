//! Traces for a collector: ended spans are queued, and sent in batches by a dedicated thread.

mod export;
mod layer;
mod proto;

pub(crate) use export::Exporter;

use meerkat_core::Redactor;
use tracing::Subscriber;
use tracing::level_filters::LevelFilter;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::Layer;
use tracing_subscriber::registry::LookupSpan;

use crate::filter::CONTENT;
use crate::{Content, OtlpOptions};

/// Starts the thread, and creates the layer that feeds it.
pub(crate) fn start<S: Subscriber + for<'a> LookupSpan<'a>>(
    options: OtlpOptions,
    redactor: Redactor,
) -> (impl Layer<S>, Exporter) {
    let content = match options.content {
        Content::Captured => LevelFilter::TRACE,
        Content::Omitted => LevelFilter::OFF,
    };
    // Spans worth exporting are those that a log shows at its default level.
    let wanted = Targets::new().with_target("meerkat", LevelFilter::INFO).with_target(CONTENT, content);
    let (exporter, queue) = Exporter::start(options);
    (layer::SpanLayer::new(queue, redactor).with_filter(wanted), exporter)
}
