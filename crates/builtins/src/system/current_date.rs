//! `get_current_date`: returns today's date in a time zone.

use std::sync::Arc;

use serde_json::json;
use tool::{Args, Clock, Json};

use super::current_datetime::now_in;
use tool_manifest::Registry;
use tool_manifest::{Builtin, Compute};

pub(crate) fn builtin(registry: &Registry, clock: Arc<dyn Clock>) -> Option<Builtin> {
    Some(registry.get("get_current_date")?.pure(CurrentDate(clock)))
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
