//! `get_current_datetime`: what time it is, in a time zone.
//!
//! Spec 2's program answers an unknown zone with UTC and does not say so. The spec itself asks for no
//! such thing, and a wrong hour that looks right is worse than an error the model can mend: here an
//! unknown zone is an error.

use std::sync::{Arc, LazyLock};

use jiff::tz::TimeZoneDatabase;
use jiff::{Timestamp, Zoned};
use serde_json::{Value, json};
use tool::{Args, Clock, Json};

use crate::builtin::{Builtin, Compute, Declaration};

/// The program's own: the machine may have none.
static ZONES: LazyLock<TimeZoneDatabase> = LazyLock::new(TimeZoneDatabase::bundled);

pub(crate) fn builtin(clock: Arc<dyn Clock>) -> Builtin {
    let declaration = Declaration {
        name: "get_current_datetime",
        handler: "get_current_datetime",
        category: "system",
        description: "Returns the current date and time: `iso` in UTC, and `date` and `time` in the \
                      given time zone.",
        input: json!({
            "type": "object",
            "properties": {
                "timezone": timezone(),
            },
            "required": [],
        }),
        output: json!({
            "type": "object",
            "properties": {
                "iso": { "type": "string", "description": "UTC, RFC 3339." },
                "date": { "type": "string", "description": "YYYY-MM-DD in the time zone." },
                "time": { "type": "string", "description": "HH:MM:SS in the time zone." },
                "timezone": { "type": "string" },
            },
            "required": ["iso", "date", "time", "timezone"],
        }),
    };
    declaration.pure(CurrentDatetime { clock })
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

/// The argument `timezone`, as every tool that tells the time has it.
pub(super) fn timezone() -> Value {
    json!({
        "type": "string",
        "description": "IANA time zone, for example `Europe/Berlin`. Default: UTC.",
    })
}

/// What time it is in the zone that the arguments ask for.
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
