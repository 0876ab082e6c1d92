//! `get_current_date`: what day it is, in a time zone.

use std::sync::Arc;

use serde_json::json;
use tool::{Args, Clock, Json};

use super::current_datetime::{now_in, timezone};
use crate::builtin::{Builtin, Compute, Declaration};

pub(crate) fn builtin(clock: Arc<dyn Clock>) -> Builtin {
    let declaration = Declaration {
        name: "get_current_date",
        handler: "get_current_date",
        category: "system",
        description: "Returns today's date in a time zone: `date`, `weekday`, `year`, `month`, `day`.",
        input: json!({
            "type": "object",
            "properties": { "timezone": timezone() },
            "required": [],
            "additionalProperties": false,
        }),
        output: json!({
            "type": "object",
            "properties": {
                "date": { "type": "string", "format": "date" },
                "weekday": { "type": "string", "description": "In English, such as `Monday`." },
                "year": { "type": "integer" },
                "month": { "type": "integer" },
                "day": { "type": "integer" },
            },
            "required": ["date", "weekday", "year", "month", "day"],
        }),
    };
    declaration.pure(CurrentDate(clock))
}

#[derive(Debug)]
struct CurrentDate(Arc<dyn Clock>);

impl Compute for CurrentDate {
    fn compute(&self, args: &Args) -> Result<Json, String> {
        let local = now_in(args, self.0.as_ref())?;
        Ok(Json::of(&json!({
            "date": local.strftime("%Y-%m-%d").to_string(),
            "weekday": local.strftime("%A").to_string(),
            "year": local.year(),
            "month": local.month(),
            "day": local.day(),
        })))
    }
}
