//! `get_current_datetime`: returns the current date and time in a time zone.
//!
//! Spec 2's program silently uses UTC for an unknown zone, which the spec does not require. Here an
//! unknown zone is an error, because a plausible wrong hour is worse than an error that the model
//! can correct.

use std::sync::{Arc, LazyLock};

use jiff::tz::TimeZoneDatabase;
use jiff::{Timestamp, Zoned};
use serde_json::json;
use tool::{Args, Clock, Json};

use tool_manifest::Registry;
use tool_manifest::{Builtin, Compute};

/// The bundled time zone database, because the machine may have none.
static ZONES: LazyLock<TimeZoneDatabase> = LazyLock::new(TimeZoneDatabase::bundled);

pub(crate) fn builtin(registry: &Registry, clock: Arc<dyn Clock>) -> Option<Builtin> {
    Some(registry.get("get_current_datetime")?.pure(CurrentDatetime { clock }))
}

#[derive(Debug)]
struct CurrentDatetime {
    clock: Arc<dyn Clock>,
}

impl Compute for CurrentDatetime {
    fn compute(&self, args: &Args) -> Result<Json, String> {
        let local = now_in(args, self.clock.as_ref())?;
        let name = local.time_zone().iana_name().unwrap_or("UTC");
        Ok(Json::of(&json!({
            "iso": self.clock.wall().to_string(),
            "date": local.strftime("%Y-%m-%d").to_string(),
            "time": local.strftime("%H:%M:%S").to_string(),
            "timezone": name,
        })))
    }
}

/// Returns the current time in the zone of the arguments.
pub(super) fn now_in(args: &Args, clock: &dyn Clock) -> Result<Zoned, String> {
    let asked = args.value().get("timezone").and_then(|zone| zone.as_str()).unwrap_or("UTC");
    let zone = ZONES.get(asked).map_err(|_| {
        let asked: String = asked.chars().take(64).collect();
        format!(
            "unknown timezone `{}`; use an IANA name such as `Europe/Berlin`, or `UTC`",
            asked.escape_debug()
        )
    })?;
    let wall = clock.wall();
    let now = i64::try_from(wall.0).ok().and_then(|ms| Timestamp::from_millisecond(ms).ok());
    let now = now.ok_or("the clock of this machine stands past the year 9999")?;
    Ok(now.to_zoned(zone))
}
