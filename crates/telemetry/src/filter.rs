//! The filter that selects log lines: `debug`, or `info,rmcp=debug`.

use std::str::FromStr;

use tracing::level_filters::LevelFilter;
use tracing_subscriber::filter::Targets;

/// Target of events with conversation content; they go to a collector that asked for content and never to a log.
pub(crate) const CONTENT: &str = "meerkat::content";
/// Target that is enabled if there is a collector, so that libraries can check for one.
pub(crate) const TRACED: &str = "meerkat::traced";

/// Name prefixes of our own crates.
const OWN: [&str; 3] = ["meerkat", "rkat", "skills"];

/// Filter that selects which log lines are written.
#[derive(Debug, Clone, PartialEq)]
pub struct LogFilter(Vec<(String, LevelFilter)>);

/// An invalid log filter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FilterError(String);

impl std::fmt::Display for FilterError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "`{}` is not a log level; use `error`, `warn`, `info`, `debug`, `trace`, or `off`, alone for \
             Meerkat itself, or as `name=level` for a library",
            self.0
        )
    }
}

impl std::error::Error for FilterError {}

impl FromStr for LogFilter {
    type Err = FilterError;

    fn from_str(text: &str) -> Result<Self, FilterError> {
        let mut levels = Vec::new();
        for part in text.split(',').map(str::trim).filter(|part| !part.is_empty()) {
            let (names, level) = match part.split_once('=') {
                Some((name, level)) => (vec![name.trim()], level.trim()),
                None => (OWN.to_vec(), part),
            };
            // The parser also accepts numbers as levels, but their meaning is not obvious.
            let is_name = level.bytes().all(|byte| byte.is_ascii_alphabetic());
            let level = level.parse().ok().filter(|_| is_name).ok_or_else(|| FilterError(part.to_owned()))?;
            levels.extend(names.into_iter().map(|name| (name.to_owned(), level)));
        }
        Ok(Self(levels))
    }
}

impl LogFilter {
    /// Returns the filter for warnings and errors of Meerkat itself, the default of servers.
    #[must_use]
    pub fn warnings() -> Self {
        Self(OWN.map(|name| (name.to_owned(), LevelFilter::WARN)).to_vec())
    }

    pub(crate) fn targets(&self) -> Targets {
        let own = Targets::new().with_targets(self.0.iter().cloned());
        own.with_target(CONTENT, LevelFilter::OFF).with_target(TRACED, LevelFilter::OFF)
    }
}

#[cfg(test)]
mod tests {
    use tracing::Level;

    use super::LogFilter;

    #[test]
    fn bare_level_applies_only_to_own_crates() {
        let targets = "debug, rmcp=trace,meerkat_mcp=warn".parse::<LogFilter>().unwrap().targets();
        let cases = [
            ("meerkat::session", Level::DEBUG, true),
            ("meerkat::session", Level::TRACE, false),
            ("meerkat_mcp::server", Level::INFO, false),
            ("rmcp::service", Level::TRACE, true),
            ("hyper", Level::ERROR, false),
            ("meerkat::content", Level::ERROR, false),
        ];
        for (target, level, expected) in cases {
            assert_eq!(targets.would_enable(target, &level), expected, "{target} {level}");
        }
    }

    #[test]
    fn invalid_level_is_named_in_error() {
        for text in ["loud", "rmcp=loud", "debug,7"] {
            let wrong = text.rsplit(',').next().unwrap();
            let error = text.parse::<LogFilter>().unwrap_err().to_string();
            assert!(error.starts_with(&format!("`{wrong}` is not a log level")), "{error}");
        }
        assert!("".parse::<LogFilter>().is_ok());
    }
}
