//! `echo`: returns its arguments unchanged, byte for byte, to test a connection.

use tool::{Args, Json};

use tool_manifest::Registry;
use tool_manifest::{Builtin, Compute};

pub(crate) fn builtin(registry: &Registry) -> Option<Builtin> {
    Some(registry.get("echo")?.pure(Echo))
}

#[derive(Debug)]
struct Echo;

impl Compute for Echo {
    fn compute(&self, args: &Args) -> Result<Json, String> {
        Ok(Json::fields([("echo", args.raw())]))
    }
}
