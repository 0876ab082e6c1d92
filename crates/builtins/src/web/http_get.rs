//! `http_get`: sends an HTTP GET request to a public URL.

use std::sync::Arc;

use egress::Egress;
use http::Method;
use tool::Clock;

use super::exchange::Asks;
use tool_manifest::Builtin;
use tool_manifest::Registry;

pub(crate) fn builtin(
    registry: &Registry,
    egress: Egress,
    clock: Arc<dyn Clock>,
) -> Option<Builtin> {
    let declared = registry.get("http_get")?;
    let seconds = declared.bound("timeout");
    Some(declared.run_by(Asks { egress, clock, method: Method::GET, seconds }))
}
