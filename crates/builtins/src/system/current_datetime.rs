//! `get_current_datetime`: returns the current date and time in a time zone.
//!
//! The tool-file registry's program silently uses UTC for an unknown zone, which its contract does
//! not require. Here an unknown zone is an error, because a plausible wrong hour is worse than an
//! error that the model can correct.

use std::sync::{Arc, LazyLock};

use jiff::tz::TimeZoneDatabase;
use jiff::{Timestamp, Zoned};
use serde_json::json;
use tool::{CallArguments, Clock, Json};

use tool_manifest::ManifestRegistry;
use tool_manifest::{BuiltinTool, ToolFunction};

/// The bundled time zone database, because the machine may have none.
static TIME_ZONES: LazyLock<TimeZoneDatabase> = LazyLock::new(TimeZoneDatabase::bundled);

pub(crate) fn build_tool(
    registry: &ManifestRegistry,
    clock: Arc<dyn Clock>,
) -> Option<BuiltinTool> {
    Some(registry.find_tool("get_current_datetime")?.with_inline(CurrentDatetime { clock }))
}

#[derive(Debug)]
struct CurrentDatetime {
    clock: Arc<dyn Clock>,
}

impl ToolFunction for CurrentDatetime {
    fn compute_output(&self, args: &CallArguments) -> Result<Json, String> {
        let local = now_in(args, self.clock.as_ref())?;
        let name = local.time_zone().iana_name().unwrap_or("UTC");
        Ok(Json::encode(&json!({
            "iso": self.clock.wall_now().to_string(),
            "date": local.strftime("%Y-%m-%d").to_string(),
            "time": local.strftime("%H:%M:%S").to_string(),
            "timezone": name,
        })))
    }
}

/// Returns the current time in the zone of the arguments.
pub(super) fn now_in(args: &CallArguments, clock: &dyn Clock) -> Result<Zoned, String> {
    let asked = args.as_value().get("timezone").and_then(|zone| zone.as_str()).unwrap_or("UTC");
    let zone = TIME_ZONES.get(asked).map_err(|_| {
        let asked: String = asked.chars().take(64).collect();
        format!(
            "unknown timezone `{}`; use an IANA name such as `Europe/Berlin`, or `UTC`",
            asked.escape_debug()
        )
    })?;
    let wall = clock.wall_now();
    let now = i64::try_from(wall.0).ok().and_then(|ms| Timestamp::from_millisecond(ms).ok());
    let now = now.ok_or("the system clock is past the year 9999")?;
    Ok(now.to_zoned(zone))
}
