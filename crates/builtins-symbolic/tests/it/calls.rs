//! Calls, as the pipeline makes them.

use std::path::PathBuf;
use std::sync::Arc;

use builtins::Cages;
use sandbox::Tier;
use sandbox::process::Launcher;
use serde_json::Value;
use testkit::context::{caller, context};
use tool::{Args, Body, Call, CallId, Granted, Org, Outcome, SourceName, Step, Ticket, ToolKey};
use tool_manifest::Builtin;

/// The tool, in cages of its own.
pub(crate) fn tool() -> Builtin {
    let binary = PathBuf::from(env!("CARGO_BIN_EXE_symbolic-launch"));
    let launcher = Launcher::new(binary, vec!["__launch".into()]);
    let cages = Arc::new(Cages::new(launcher, None, Tier::Fenced));
    builtins_symbolic::all(&cages).pop().unwrap()
}

pub(crate) async fn call(builtin: &Builtin, args: &Value) -> Outcome {
    let source = SourceName::new("builtin").unwrap();
    let key = ToolKey { org: Org::default(), source, name: builtin.tool.name.clone() };
    let id = CallId(uuid::Uuid::nil());
    let tool = Arc::clone(&builtin.tool);
    let args = Args::check(args.to_string()).unwrap();
    let call = Call { id, parent: None, continues: None, unasked: None, key, tool, args };
    let ticket = Ticket::issue(id, drop);
    let granted = Granted::of(&call, &ticket).unwrap();
    let caller = caller();
    let Step::Done(outcome) = builtin.executor.execute(granted, &context(&caller)).await.unwrap()
    else {
        panic!("it waits")
    };
    outcome
}

pub(crate) fn value(outcome: &Outcome) -> Value {
    let (Body::Value(json) | Body::Mcp(json)) = &outcome.body;
    json.value()
}
