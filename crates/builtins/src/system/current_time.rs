//! `get_current_time`: returns the current time in a time zone.

use std::sync::Arc;

use serde_json::json;
use tool::{CallArguments, Clock, Json};

use super::current_datetime::now_in;
use tool_manifest::ManifestRegistry;
use tool_manifest::{BuiltinTool, ToolFunction};

pub(crate) fn build_tool(
    registry: &ManifestRegistry,
    clock: Arc<dyn Clock>,
) -> Option<BuiltinTool> {
    Some(registry.find_tool("get_current_time")?.with_inline(CurrentTime(clock)))
}

#[derive(Debug)]
struct CurrentTime(Arc<dyn Clock>);

impl ToolFunction for CurrentTime {
    fn compute_output(&self, args: &CallArguments) -> Result<Json, String> {
        let local = now_in(args, self.0.as_ref())?;
        Ok(Json::encode(&json!({
            "datetime": local.strftime("%Y-%m-%dT%H:%M:%S%:z").to_string(),
            "date": local.strftime("%Y-%m-%d").to_string(),
            "time": local.strftime("%H:%M:%S").to_string(),
            "utc": self.0.wall_now().to_string(),
            "timestamp": local.timestamp().as_duration().as_secs_f64(),
        })))
    }
}
