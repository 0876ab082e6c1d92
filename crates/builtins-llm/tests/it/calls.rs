//! The model of the shared data, installed, and calls of the tools.

use std::path::PathBuf;
use std::sync::Arc;

use builtins::Cages;
use sandbox::Tier;
use sandbox::process::Launcher;
use serde_json::Value;
use testkit::context::{caller, context};
use tool::{
    Args, Body, Call, CallId, Context, ExecuteError, Granted, Org, Outcome, SourceName, Step,
    Ticket, ToolKey,
};
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

/// The binary that has the worker.
pub(crate) const BIN: &str = env!("CARGO_BIN_EXE_language-launch");

/// Cages in which the worker runs.
pub(crate) fn cages() -> Arc<Cages> {
    let launcher = Launcher::new(PathBuf::from(BIN), vec!["__launch".into()]);
    Arc::new(Cages::new(launcher, None, Tier::Fenced))
}

/// The tools, with the model installed as the command line does it.
pub(crate) async fn tools() -> (tempfile::TempDir, Vec<Builtin>) {
    let home = tempfile::tempdir().unwrap();
    builtins_llm::install(&given(), home.path(), &cages()).await.unwrap();
    let tools = builtins_llm::all(home.path(), &cages()).await.tools;
    (home, tools)
}

/// The tools as they are on the first day: no model is installed.
pub(crate) async fn first_day() -> Vec<Builtin> {
    builtins_llm::all(std::path::Path::new("/no-such-folder"), &cages()).await.tools
}

pub(crate) async fn call(tools: &[Builtin], name: &str, args: &Value) -> Outcome {
    let caller = caller();
    tried(tools, (name, args), &context(&caller)).await.unwrap()
}

/// The same in a context of the test's own.
pub(crate) async fn tried(
    tools: &[Builtin],
    (name, args): (&str, &Value),
    context: &Context<'_>,
) -> Result<Outcome, ExecuteError> {
    let builtin = tools.iter().find(|it| it.tool.name.as_str() == name).unwrap();
    let source = SourceName::new("builtin").unwrap();
    let key = ToolKey { org: Org::default(), source, name: builtin.tool.name.clone() };
    let id = CallId(uuid::Uuid::nil());
    let tool = Arc::clone(&builtin.tool);
    let args = Args::check(args.to_string()).unwrap();
    let call = Call { id, parent: None, continues: None, unasked: None, key, tool, args };
    let ticket = Ticket::issue(id, drop);
    let granted = Granted::of(&call, &ticket).unwrap();
    let step = builtin.executor.execute(granted, context).await?;
    let Step::Done(outcome) = step else { panic!("it waits") };
    Ok(outcome)
}

pub(crate) fn value(outcome: &Outcome) -> Value {
    let (Body::Value(json) | Body::Mcp(json)) = &outcome.body;
    json.value()
}
