//! Installs the model of the shared data and calls the tools.

use std::path::PathBuf;
use std::sync::Arc;

use builtins::SandboxProvider;
use sandbox::SandboxLevel;
use sandbox::process::ProcessLauncher;
use serde_json::Value;
use testkit::context::{quiet_context, test_caller};
use tool::{
    CallArguments, CallContext, CallId, ExecuteError, ExecutionState, IntentReceipt, Org, Outcome,
    OutcomeBody, RecordedCall, SourceName, ToolCall, ToolKey,
};
use tool_manifest::BuiltinTool;

/// Returns the folder of the model below `TOOLKEEP_DATA`.
pub(crate) fn given() -> PathBuf {
    let models = testkit::shared_data::data_folder().join("models");
    assert!(
        models.join("tokenizer.json").is_file(),
        "{} has no model: say with TOOLKEEP_DATA where the shared data is, or leave these tests out: \
         `-E 'not test(/^(data|real)::/)'`",
        models.display()
    );
    models
}

/// Binary that contains the worker.
pub(crate) const BIN: &str = env!("CARGO_BIN_EXE_language-launch");

/// Sandboxes for the worker.
pub(crate) fn sandboxes() -> Arc<SandboxProvider> {
    let launcher = ProcessLauncher::new(PathBuf::from(BIN), vec!["__launch".into()]);
    Arc::new(SandboxProvider::new(launcher, None, SandboxLevel::NoNamespaces))
}

/// Returns the tools with the model, installed as the CLI does it.
pub(crate) async fn tools() -> (tempfile::TempDir, Vec<BuiltinTool>) {
    let home = tempfile::tempdir().unwrap();
    builtins_llm::install_model(&given(), home.path(), &sandboxes()).await.unwrap();
    let tools = builtins_llm::language_tools(home.path(), &sandboxes()).await.tools;
    (home, tools)
}

/// Returns the tools without an installed model.
pub(crate) async fn first_day() -> Vec<BuiltinTool> {
    builtins_llm::language_tools(std::path::Path::new("/no-such-folder"), &sandboxes()).await.tools
}

pub(crate) async fn call(tools: &[BuiltinTool], name: &str, args: &Value) -> Outcome {
    let caller = test_caller();
    tried(tools, (name, args), &quiet_context(&caller)).await.unwrap()
}

/// Calls a tool in the test's own context.
pub(crate) async fn tried(
    tools: &[BuiltinTool],
    (name, args): (&str, &Value),
    context: &CallContext<'_>,
) -> Result<Outcome, ExecuteError> {
    let builtin = tools.iter().find(|it| it.tool.name.as_str() == name).unwrap();
    let source = SourceName::new("builtin").unwrap();
    let key = ToolKey { org: Org::default(), source, name: builtin.tool.name.clone() };
    let id = CallId(uuid::Uuid::nil());
    let tool = Arc::clone(&builtin.tool);
    let args = CallArguments::parse(args.to_string()).unwrap();
    let call = ToolCall {
        id,
        parent_id: None,
        resumption: None,
        unsolicited_input: None,
        tool_key: key,
        tool,
        arguments: args,
    };
    let ticket = IntentReceipt::with_abandon_hook(id, drop);
    let granted = RecordedCall::from_receipt(&call, &ticket).unwrap();
    let step = builtin.executor.execute(granted, context).await?;
    let ExecutionState::Completed(outcome) = step else { panic!("it waits") };
    Ok(outcome)
}

pub(crate) fn value(outcome: &Outcome) -> Value {
    let (OutcomeBody::Value(json) | OutcomeBody::Mcp(json)) = &outcome.body;
    json.to_value()
}
