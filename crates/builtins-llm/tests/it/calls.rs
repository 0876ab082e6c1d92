//! The model of the shared data, installed, and calls of the tools.

use std::path::PathBuf;
use std::sync::Arc;

use serde_json::Value;
use testkit::context::{caller, context};
use tool::{Args, Body, Call, CallId, Granted, Org, Outcome, SourceName, Step, Ticket, ToolKey};
use tool_manifest::Builtin;

/// Where the model is, as `TOOLKEEP_DATA` says.
pub(crate) fn given() -> PathBuf {
    let models = testkit::data::folder().join("models");
    assert!(
        models.join("tokenizer.json").is_file(),
        "{} has no model: say with TOOLKEEP_DATA where the shared data is, or leave these tests out: \
         `-E 'not test(/^(data|real)::/)'`",
        models.display()
    );
    models
}

/// The tools, with the model installed as the command line does it.
pub(crate) fn tools() -> (tempfile::TempDir, Vec<Builtin>) {
    let home = tempfile::tempdir().unwrap();
    builtins_llm::install(&given(), home.path()).unwrap();
    let tools = builtins_llm::all(home.path());
    (home, tools)
}

/// The tools as they are on the first day: no model is installed.
pub(crate) fn first_day() -> Vec<Builtin> {
    builtins_llm::all(std::path::Path::new("/no-such-folder"))
}

pub(crate) async fn call(tools: &[Builtin], name: &str, args: &Value) -> Outcome {
    let builtin = tools.iter().find(|it| it.tool.name.as_str() == name).unwrap();
    let source = SourceName::new("builtin").unwrap();
    let key = ToolKey { org: Org::default(), source, name: builtin.tool.name.clone() };
    let id = CallId(uuid::Uuid::nil());
    let tool = Arc::clone(&builtin.tool);
    let args = Args::check(args.to_string()).unwrap();
    let call = Call { id, parent: None, continues: None, unasked: None, key, tool, args };
    let ticket = Ticket::issue(id, drop);
    let granted = Granted::of(&call, &ticket).unwrap();
    let caller = caller();
    let step = builtin.executor.execute(granted, &context(&caller)).await.unwrap();
    let Step::Done(outcome) = step else { panic!("it waits") };
    outcome
}

pub(crate) fn value(outcome: &Outcome) -> Value {
    let (Body::Value(json) | Body::Mcp(json)) = &outcome.body;
    json.value()
}
