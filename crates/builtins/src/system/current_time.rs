//! `get_current_time`: what time it is, in a time zone.

use std::sync::Arc;

use serde_json::json;
use tool::{Args, Clock, Json};

use super::current_datetime::{now_in, timezone};
use crate::builtin::{Builtin, Compute, Declaration};

pub(crate) fn builtin(clock: Arc<dyn Clock>) -> Builtin {
    let declaration = Declaration {
        name: "get_current_time",
        handler: "get_current_time",
        category: "system",
        description: "Returns the current time in a time zone: `datetime`, `date`, `time`, `utc`, `timestamp`.",
        input: json!({
            "type": "object",
            "properties": { "timezone": timezone() },
            "required": [],
            "additionalProperties": false,
        }),
        output: json!({
            "type": "object",
            "properties": {
                "datetime": { "type": "string", "format": "date-time" },
                "date": { "type": "string", "format": "date" },
                "time": { "type": "string", "description": "HH:MM:SS." },
                "utc": { "type": "string", "format": "date-time" },
                "timestamp": { "type": "number", "description": "Seconds since 1970, UTC." },
            },
            "required": ["datetime", "date", "time", "utc", "timestamp"],
        }),
    };
    declaration.pure(CurrentTime(clock))
}

#[derive(Debug)]
struct CurrentTime(Arc<dyn Clock>);

impl Compute for CurrentTime {
    fn compute(&self, args: &Args) -> Result<Json, String> {
        let local = now_in(args, self.0.as_ref())?;
        Ok(Json::of(&json!({
            "datetime": local.strftime("%Y-%m-%dT%H:%M:%S%:z").to_string(),
            "date": local.strftime("%Y-%m-%d").to_string(),
            "time": local.strftime("%H:%M:%S").to_string(),
            "utc": self.0.wall().to_string(),
            "timestamp": local.timestamp().as_duration().as_secs_f64(),
        })))
    }
}
