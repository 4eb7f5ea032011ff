//! `datetime`.

use std::sync::Arc;

use jiff::tz::TimeZone;
use meerkat_core::{Clock, SessionId, ToolImpact, ToolOutput};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::Error;
use crate::builtin::{Builtin, json};

pub(crate) struct Datetime {
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) zone: fn() -> TimeZone,
}

/// No arguments.
#[derive(Deserialize, JsonSchema)]
pub(crate) struct Arguments {}

#[derive(Serialize)]
struct Moment {
    iso8601: String,
    date: String,
    time: String,
    timezone: String,
    unix_timestamp: i64,
    year: i16,
    month: i8,
    day: i8,
    weekday: &'static str,
}

impl Builtin for Datetime {
    const NAME: &'static str = "datetime";
    const DESCRIPTION: &'static str = "Return the current date and time, with the time zone of this machine.";
    const IMPACT: ToolImpact = ToolImpact::ReadOnly;
    type Arguments = Arguments;

    async fn run(&self, _: Arguments, _: SessionId) -> Result<ToolOutput, Error> {
        let zone = (self.zone)();
        let now = self.clock.now().to_zoned(zone.clone());
        json(&Moment {
            iso8601: now.strftime("%Y-%m-%dT%H:%M:%S%:z").to_string(),
            date: now.date().to_string(),
            time: now.strftime("%H:%M:%S").to_string(),
            timezone: zone.iana_name().map_or_else(|| now.strftime("%:z").to_string(), str::to_owned),
            unix_timestamp: now.timestamp().as_second(),
            year: now.year(),
            month: now.month(),
            day: now.day(),
            weekday: weekday(now.weekday()),
        })
    }
}

const fn weekday(day: jiff::civil::Weekday) -> &'static str {
    use jiff::civil::Weekday;
    match day {
        Weekday::Monday => "Monday",
        Weekday::Tuesday => "Tuesday",
        Weekday::Wednesday => "Wednesday",
        Weekday::Thursday => "Thursday",
        Weekday::Friday => "Friday",
        Weekday::Saturday => "Saturday",
        Weekday::Sunday => "Sunday",
    }
}
