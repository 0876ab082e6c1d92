//! `get_current_time`: returns the current time in a time zone.

use std::sync::Arc;

use serde_json::json;
use tool::{Args, Clock, Json};

use super::current_datetime::now_in;
use tool_manifest::Registry;
use tool_manifest::{Builtin, Compute};

pub(crate) fn builtin(registry: &Registry, clock: Arc<dyn Clock>) -> Option<Builtin> {
    Some(registry.get("get_current_time")?.pure(CurrentTime(clock)))
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
