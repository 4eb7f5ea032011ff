//! `datetime`.

use std::sync::Arc;

use jiff::tz::TimeZone;
use meerkat_core::{Clock, SessionId, ToolImpact};
use serde_json::json;

use crate::builtin::{Builtin, NoArguments, Reply, reply};

pub(crate) struct Datetime {
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) zone: fn() -> TimeZone,
}

impl Builtin for Datetime {
    const NAME: &'static str = "datetime";
    const DESCRIPTION: &'static str = "Return the current date and time, with the time zone of this machine.";
    const IMPACT: ToolImpact = ToolImpact::ReadOnly;
    type Arguments = NoArguments;

    async fn run(&self, _: NoArguments, _: SessionId) -> Reply {
        let zone = (self.zone)();
        let now = self.clock.now().to_zoned(zone.clone());
        let text = |format: &str| now.strftime(format).to_string();
        reply(&json!({
            "iso8601": text("%Y-%m-%dT%H:%M:%S%:z"),
            "date": now.date().to_string(),
            "time": text("%H:%M:%S"),
            "timezone": zone.iana_name().map_or_else(|| text("%:z"), str::to_owned),
            "unix_timestamp": now.timestamp().as_second(),
            "year": now.year(),
            "month": now.month(),
            "day": now.day(),
            "weekday": text("%A"),
        }))
    }
}
