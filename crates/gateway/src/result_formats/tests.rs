use std::sync::Arc;

use serde_json::{Value, json};
use testkit::executor::{MockExecutor, echo_executor};
use tool::call_outcome::{CallFailure, CallResponse, CallStatus};
use tool::executor::ApprovalRequest;
use tool::{
    CallId, ErrorCode, ExecutionState, Executor, Json, Outcome, OutcomeBody, PendingReason,
    PermissionLevel, SafetyLevel, SideEffect, SideEffects, Tool, WallTime,
};

use super::{ModelToolCall, ToolOutput, ToolRunner, list_tool};
use crate::tests::{bench, offer, principal};

fn tool(name: &str, change: impl FnOnce(&mut Tool)) -> Tool {
    let schema = json!({"type": "object", "required": ["n"], "properties": {
        "n": {"type": "integer", "description": "a number"}, "m": {"type": "string"}}});
    let mut tool = testkit::read_only_tool(name, "Counts.", &schema);
    change(&mut tool);
    tool
}

fn entry(change: impl FnOnce(&mut Tool)) -> catalog::CatalogEntry {
    let tool = Arc::new(tool("count", change));
    catalog::CatalogEntry::new(tool::Org::default(), "s".parse().unwrap(), tool, echo_executor())
        .unwrap()
}

fn answer(result: Result<ExecutionState, CallFailure>) -> CallResponse {
    CallResponse {
        call_id: CallId(uuid::Uuid::nil()),
        status: CallStatus::Succeeded,
        result,
        elapsed_ms: 12,
    }
}

fn done(body: OutcomeBody, is_error: bool) -> ExecutionState {
    ExecutionState::Completed(Outcome { body, is_error })
}

fn approval() -> ApprovalRequest {
    let (reason, effects) = ("it is dangerous".to_owned(), vec!["system_state".to_owned()]);
    ApprovalRequest {
        reason,
        expires_at: WallTime(0),
        effects,
        is_approved: false,
        is_from_agent: true,
    }
}

/// All states of the research registry's envelope, with both ways to read it.
#[test]
fn golden_tool_output_has_the_research_registry_fields_in_every_state() {
    let effects = |tool: &mut Tool| {
        tool.traits.effects =
            SideEffects::Declared(vec![SideEffect::ModifiesFiles, SideEffect::SystemState]);
        tool.traits.is_destructive = true;
    };
    let (entry, args) = (entry(effects), json!({"n": 1}));
    let mcp = json!({"content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]});
    let null = OutcomeBody::Value(Json::encode(&Value::Null));
    let states = [
        ("success", Ok(done(OutcomeBody::Value(Json::encode("plain")), false))),
        ("success, null", Ok(done(null, false))),
        (
            "success, object",
            Ok(done(OutcomeBody::Value(Json::encode(&json!({"a": [1, 2]}))), false)),
        ),
        ("success, MCP", Ok(done(OutcomeBody::Mcp(Json::encode(&mcp)), false))),
        ("error by the tool", Ok(done(OutcomeBody::Value(Json::encode("no such file")), true))),
        (
            "error by its source",
            Err(CallFailure::new(ErrorCode::Timeout, "Tool execution timed out (30s).")),
        ),
        ("pending_approval", Ok(ExecutionState::Pending(PendingReason::Approval(approval())))),
    ];
    let shown = states.map(|(name, result)| {
        let output =
            ToolOutput::from_response(&entry, &args, &answer(result)).expect("it ran or waits");
        json!({"state": name, "to_machine": output.to_machine(), "to_human": output.to_human()})
    });
    insta::assert_json_snapshot!("tool_output", shown);
    // What the research registry raises is no output.
    for code in [ErrorCode::UnknownTool, ErrorCode::Denied, ErrorCode::InvalidArguments] {
        let refused = answer(Err(CallFailure::new(code, "no")));
        assert_eq!(ToolOutput::from_response(&entry, &args, &refused), None);
    }
}

#[test]
fn a_tool_is_listed_with_side_effects_only_where_there_are_any() {
    let plain = entry(|tool| tool.traits.effects = SideEffects::Unknown);
    let listing = json!(list_tool(&plain, "tool_file"));
    let expected = json!({"name": "count", "description": "Counts.", "category": "",
        "parameters": {"n": {"type": "integer", "description": "a number", "required": true},
            "m": {"type": "string", "required": false}}, "mcp_backed": false});
    assert_eq!(listing, expected);
    let severe = entry(|tool| {
        tool.traits.effects = SideEffects::Declared(vec![SideEffect::LocalExec]);
        (tool.traits.is_destructive, tool.traits.categories) = (true, vec!["code".to_owned()]);
    });
    let listing = json!(list_tool(&severe, "mcp"));
    assert_eq!(
        (&listing["side_effects"], &listing["destructive"]),
        (&json!(["local_exec"]), &json!(true))
    );
    assert_eq!((&listing["category"], &listing["mcp_backed"]), (&json!("code"), &json!(true)));
}

fn answers(body: &Value, is_error: bool) -> Arc<dyn Executor> {
    let body = OutcomeBody::Value(Json::encode(body));
    Arc::new(MockExecutor::new(move |_| {
        Ok(ExecutionState::Completed(Outcome { body: body.clone(), is_error }))
    }))
}

/// Every id is answered, in order, with the safety-level library's object and texts.
#[tokio::test(start_paused = true)]
async fn golden_results_have_the_safety_level_librarys_object_and_texts() {
    let plain = |name: &str| testkit::read_only_tool(name, "d", &json!({"type": "object"}));
    let mut dangerous = plain("dangerous");
    dangerous.traits.safety = SafetyLevel::Dangerous;
    let bench = bench(vec![
        offer(plain("text"), answers(&json!("as it is\n"), false)),
        offer(plain("none"), answers(&Value::Null, false)),
        offer(plain("object"), answers(&json!({"a": 1}), false)),
        offer(plain("fails"), answers(&json!("division by zero"), true)),
        offer(tool("strict", |tool| tool.traits.safety = SafetyLevel::Cautious), echo_executor()),
        offer(dangerous, echo_executor()),
    ]);
    let runner = ToolRunner::new(Arc::clone(&bench.gateway), principal(PermissionLevel::User));
    let names = ["text", "none", "object", "fails", "strict", "dangerous", "absent"];
    let asked = names.iter().zip(1..).map(|(name, id)| ModelToolCall {
        id: format!("call_{id}"),
        name: (*name).to_owned(),
        arguments: "{}".into(),
    });
    let mut results = runner.execute_calls(asked.collect()).await;
    for result in &mut results {
        result.metadata.execution_time_ms = 0;
    }
    for (result, id) in results.iter().zip(1..) {
        assert_eq!(result.id, format!("call_{id}"));
        assert_eq!(result.success, result.error.is_none());
    }
    insta::assert_json_snapshot!("safety_level_result", results);
}
