//! `get_current_date`: returns today's date in a time zone.

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
    Some(registry.find_tool("get_current_date")?.with_inline(CurrentDate(clock)))
}

#[derive(Debug)]
struct CurrentDate(Arc<dyn Clock>);

impl ToolFunction for CurrentDate {
    fn compute_output(&self, args: &CallArguments) -> Result<Json, String> {
        let local = now_in(args, self.0.as_ref())?;
        Ok(Json::encode(&json!({
            "date": local.strftime("%Y-%m-%d").to_string(),
            "weekday": local.strftime("%A").to_string(),
            "year": local.year(),
            "month": local.month(),
            "day": local.day(),
        })))
    }
}
