//! Calls the tool as the pipeline does.

use std::path::PathBuf;
use std::sync::Arc;

use builtins::SandboxProvider;
use sandbox::SandboxLevel;
use sandbox::process::ProcessLauncher;
use serde_json::Value;
use testkit::context::{quiet_context, test_caller};
use tool::{
    CallArguments, CallId, ExecutionState, IntentReceipt, Org, Outcome, OutcomeBody, RecordedCall,
    SourceName, ToolCall, ToolKey,
};
use tool_manifest::BuiltinTool;

/// Returns the tool with its own sandboxes.
pub(crate) fn tool() -> BuiltinTool {
    let binary = PathBuf::from(env!("CARGO_BIN_EXE_symbolic-launch"));
    let launcher = ProcessLauncher::new(binary, vec!["__launch".into()]);
    let sandboxes = Arc::new(SandboxProvider::new(launcher, None, SandboxLevel::NoNamespaces));
    builtins_symbolic::symbolic_tools(&sandboxes).pop().unwrap()
}

pub(crate) async fn call(builtin: &BuiltinTool, args: &Value) -> Outcome {
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
    let caller = test_caller();
    let ExecutionState::Completed(outcome) =
        builtin.executor.execute(granted, &quiet_context(&caller)).await.unwrap()
    else {
        panic!("it waits")
    };
    outcome
}

pub(crate) fn value(outcome: &Outcome) -> Value {
    let (OutcomeBody::Value(json) | OutcomeBody::Mcp(json)) = &outcome.body;
    json.to_value()
}
