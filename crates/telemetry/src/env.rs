//! Environment variables for logs and traces, named as in OpenTelemetry.
//!
//! Values come from a lookup function; nothing here reads the environment.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::str::FromStr;
use std::time::Duration;

use meerkat_core::Redactor;

use crate::{LogFilter, LogFormat};

/// Every variable and its description.
pub const VARIABLES: &[(&str, &str)] = &[
    (
        "RKAT_LOG",
        "Log level on stderr: `error`, `warn`, `info`, `debug`, or `trace`, and `name=level` for a library, such as `debug,rmcp=info`. If it is not set, `rkat serve`, `rkat hub`, and `rkat-mcp` log warnings and errors, and other commands log nothing; `off` logs nothing.",
    ),
    (
        "RKAT_LOG_FORMAT",
        "Form of the log: `text`, or `json` for one object on each line, with `time`, `level`, `target`, `message`, and `fields`; `text` if it is not set.",
    ),
    (
        "OTEL_EXPORTER_OTLP_ENDPOINT",
        "URL of an OpenTelemetry collector. Setting it turns traces on; they are sent to `/v1/traces` below it, as `http/protobuf`.",
    ),
    ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "Full URL for traces; overrides the one above."),
    (
        "OTEL_EXPORTER_OTLP_HEADERS, OTEL_EXPORTER_OTLP_TRACES_HEADERS",
        "Headers for the collector, as `name=value,name=value`.",
    ),
    (
        "OTEL_EXPORTER_OTLP_PROTOCOL, OTEL_EXPORTER_OTLP_TRACES_PROTOCOL",
        "Only `http/protobuf` is supported; anything else turns traces off, with a warning.",
    ),
    (
        "OTEL_EXPORTER_OTLP_TIMEOUT, OTEL_EXPORTER_OTLP_TRACES_TIMEOUT",
        "Time limit for sending one batch, in milliseconds; 10000 if it is not set.",
    ),
    ("OTEL_SERVICE_NAME", "Name of this program in traces; `rkat` or `rkat-mcp` if it is not set."),
    ("OTEL_RESOURCE_ATTRIBUTES", "Further attributes of this program in traces, as `key=value,key=value`."),
    ("OTEL_SDK_DISABLED", "`true` turns traces off."),
    ("OTEL_TRACES_EXPORTER", "`none` turns traces off; `otlp` is the only other value."),
    (
        "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT",
        "`true` includes prompts, answers, tool arguments, and tool results in traces, without known secrets. They are omitted if it is not set.",
    ),
];

/// Whether traces include the content of conversations.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Content {
    /// Content is omitted.
    #[default]
    Omitted,
    /// Content is included, with known secrets redacted.
    Captured,
}

/// Destination of traces and the data sent with them.
#[derive(Clone, PartialEq)]
pub struct OtlpOptions {
    /// Full URL.
    pub url: String,
    /// Headers sent with every request.
    pub headers: Vec<(String, String)>,
    /// Time limit for one request.
    pub timeout: Duration,
    /// Attributes of the sender, including `service.name`.
    pub resource: BTreeMap<String, String>,
    /// Whether traces include the content of conversations.
    pub content: Content,
}

/// Settings read from the variables.
#[derive(Default)]
pub struct Settings {
    /// Filter for log lines.
    pub log: Option<LogFilter>,
    /// Form of log lines, if it is set.
    pub log_format: Option<LogFormat>,
    /// Destination of traces.
    pub otlp: Option<OtlpOptions>,
    /// Problems with the variables.
    pub warnings: Vec<String>,
}

impl Settings {
    /// Reads the variables of a program, and adds the secrets among them to the redactor.
    #[must_use]
    pub fn read(lookup: &dyn Fn(&str) -> Option<String>, service: &str, redactor: &Redactor) -> Self {
        let set = |name: &str| lookup(name).map(|value| value.trim().to_owned()).filter(|v| !v.is_empty());
        let mut warnings = Vec::new();
        let log = parsed(&set, "RKAT_LOG", &mut warnings);
        let log_format = parsed(&set, "RKAT_LOG_FORMAT", &mut warnings);
        let otlp = otlp(&set, service, &mut warnings);
        if let Some(otlp) = &otlp {
            redactor.add_url(&otlp.url);
            otlp.headers.iter().for_each(|(_, value)| redactor.add(value));
        }
        Self { log, log_format, otlp, warnings }
    }
}

/// Parses a variable, if it is set. An invalid value is a warning.
fn parsed<T: FromStr<Err: Display>>(
    set: &dyn Fn(&str) -> Option<String>,
    name: &str,
    warnings: &mut Vec<String>,
) -> Option<T> {
    set(name)?.parse().map_err(|error| warnings.push(format!("{name}: {error}"))).ok()
}

fn otlp(
    set: &dyn Fn(&str) -> Option<String>,
    service: &str,
    warnings: &mut Vec<String>,
) -> Option<OtlpOptions> {
    let traces_var = |name: &str| {
        let specific = set(&format!("OTEL_EXPORTER_OTLP_TRACES_{name}"));
        specific.or_else(|| set(&format!("OTEL_EXPORTER_OTLP_{name}")))
    };
    let is = |name: &str, wanted: &str| set(name).is_some_and(|value| value.eq_ignore_ascii_case(wanted));
    let below = |base: String| format!("{}/v1/traces", base.trim_end_matches('/'));
    let url = set("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")
        .or_else(|| set("OTEL_EXPORTER_OTLP_ENDPOINT").map(below))?;
    if is("OTEL_SDK_DISABLED", "true") || is("OTEL_TRACES_EXPORTER", "none") {
        return None;
    }
    if cfg!(not(feature = "otel")) {
        warnings
            .push("this build cannot send traces, so OTEL_EXPORTER_OTLP_ENDPOINT has no effect".to_owned());
        return None;
    }
    if let Some(other) = set("OTEL_TRACES_EXPORTER").filter(|exporter| !exporter.eq_ignore_ascii_case("otlp"))
    {
        warnings.push(format!(
            "OTEL_TRACES_EXPORTER: unknown value `{other}`, so no traces are sent; use `otlp` or `none`"
        ));
        return None;
    }
    if let Some(other) = traces_var("PROTOCOL").filter(|protocol| protocol != "http/protobuf") {
        warnings.push(format!(
            "OTEL_EXPORTER_OTLP_PROTOCOL: `{other}` is not supported, so no traces are sent; set it to `http/protobuf`, which collectors accept on port 4318"
        ));
        return None;
    }
    if !url.starts_with("http://") && !url.starts_with("https://") {
        warnings.push(
            "OTEL_EXPORTER_OTLP_ENDPOINT must start with `http://` or `https://`; no traces are sent"
                .to_owned(),
        );
        return None;
    }
    let timeout = traces_var("TIMEOUT").map_or(Ok(10_000), |text| text.parse()).unwrap_or_else(|_| {
        warnings.push("OTEL_EXPORTER_OTLP_TIMEOUT must be a number of milliseconds; using 10000".to_owned());
        10_000
    });
    let mut resource = BTreeMap::from([("service.name".to_owned(), service.to_owned())]);
    resource.insert("service.version".to_owned(), env!("CARGO_PKG_VERSION").to_owned());
    resource.extend(pairs(set("OTEL_RESOURCE_ATTRIBUTES")));
    resource.extend(set("OTEL_SERVICE_NAME").map(|name| ("service.name".to_owned(), name)));
    let content = match is("OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT", "true") {
        true => Content::Captured,
        false => Content::Omitted,
    };
    let headers = pairs(traces_var("HEADERS")).collect();
    Some(OtlpOptions { url, headers, timeout: Duration::from_millis(timeout), resource, content })
}

/// Parses `key=value,key=value`, whose values may be percent-encoded.
fn pairs(text: Option<String>) -> impl Iterator<Item = (String, String)> {
    let text = text.unwrap_or_default();
    let pair = |pair: &str| {
        let (name, value) = pair.split_once('=')?;
        let name = name.trim();
        (!name.is_empty()).then(|| (name.to_owned(), meerkat_core::percent_decoded(value.trim())))
    };
    text.split(',').filter_map(pair).collect::<Vec<_>>().into_iter()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use meerkat_core::Redactor;

    use super::{Content, Settings};
    use crate::LogFormat;

    fn read(variables: &[(&str, &str)]) -> Settings {
        let lookup = |name: &str| {
            variables.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned())
        };
        Settings::read(&lookup, "rkat", &Redactor::default())
    }

    #[test]
    fn unset_variables_enable_nothing() {
        for variables in [&[][..], &[("RKAT_LOG", " "), ("OTEL_EXPORTER_OTLP_ENDPOINT", "")]] {
            let settings = read(variables);
            assert!(
                settings.log.is_none()
                    && settings.log_format.is_none()
                    && settings.otlp.is_none()
                    && settings.warnings.is_empty()
            );
        }
    }

    #[test]
    fn invalid_log_variable_is_a_warning() {
        let settings = read(&[("RKAT_LOG", "loud"), ("RKAT_LOG_FORMAT", "xml")]);
        assert!(settings.log.is_none() && settings.log_format.is_none());
        assert!(settings.warnings[0].starts_with("RKAT_LOG: `loud` is not a log level"));
        assert_eq!(settings.warnings[1], "RKAT_LOG_FORMAT: unknown log format `xml`; use `text` or `json`");
        assert_eq!(read(&[("RKAT_LOG_FORMAT", "json")]).log_format, Some(LogFormat::Json));
    }

    #[test]
    #[cfg(feature = "otel")]
    fn trace_variables_override_general_ones() {
        let otlp = read(&[
            ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://one/base/"),
            ("OTEL_EXPORTER_OTLP_HEADERS", "a=one"),
            ("OTEL_EXPORTER_OTLP_TRACES_HEADERS", " b = two%20words ,broken,c="),
            ("OTEL_EXPORTER_OTLP_TIMEOUT", "250"),
            ("OTEL_RESOURCE_ATTRIBUTES", "service.name=other,team=a%2Cb"),
            ("OTEL_SERVICE_NAME", "mine"),
            ("OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT", "True"),
        ])
        .otlp
        .unwrap();
        let header = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        assert_eq!(otlp.url, "http://one/base/v1/traces");
        assert_eq!(otlp.headers, [header("b", "two words"), header("c", "")]);
        assert_eq!((otlp.timeout, otlp.content), (Duration::from_millis(250), Content::Captured));
        let resource: Vec<_> = otlp.resource.iter().map(|(key, value)| format!("{key}={value}")).collect();
        let version = format!("service.version={}", env!("CARGO_PKG_VERSION"));
        assert_eq!(resource, ["service.name=mine", &version, "team=a,b"]);
        let full_url = [("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "https://two/x")];
        assert_eq!(read(&full_url).otlp.unwrap().url, "https://two/x");
    }

    #[test]
    #[cfg(feature = "otel")]
    fn disabling_traces_warns_only_about_mistakes() {
        let cases = [
            ("OTEL_SDK_DISABLED", "TRUE", 0),
            ("OTEL_TRACES_EXPORTER", "none", 0),
            ("OTEL_TRACES_EXPORTER", "zipkin", 1),
            ("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc", 1),
            ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "collector:4318", 1),
        ];
        for (name, value, warnings) in cases {
            let settings = read(&[("OTEL_EXPORTER_OTLP_ENDPOINT", "http://one"), (name, value)]);
            assert_eq!(
                (settings.otlp.is_none(), settings.warnings.len()),
                (true, warnings),
                "{name}={value}"
            );
        }
    }

    #[test]
    fn collector_secrets_are_redacted() {
        let redactor = Redactor::default();
        let lookup = |name: &str| match name {
            "OTEL_EXPORTER_OTLP_ENDPOINT" => Some("http://me:password-1@one".to_owned()),
            "OTEL_EXPORTER_OTLP_HEADERS" => Some("authorization=Bearer%20bearer-1234".to_owned()),
            _ => None,
        };
        let _ = Settings::read(&lookup, "rkat", &redactor);
        let text = redactor.redact("password-1 bearer-1234").into_owned();
        assert_eq!(text, if cfg!(feature = "otel") { "*** ***" } else { "password-1 bearer-1234" });
    }
}
