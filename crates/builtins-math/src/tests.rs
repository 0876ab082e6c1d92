//! Every manifest entry has a function, every function an entry. Every example is executed and
//! checked against the schemas.

use builtin_manifests::ToolFamily;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tool::executor::{
    CancelSignal, ClientCapabilities, CredentialProvider, ProgressSink, UpstreamCredential,
};
use tool::{
    BoxFuture, CallArguments, CallContext, CallId, Caller, Clock, ErrorCode, ExecuteError,
    ExecutionState, IntentReceipt, MonotonicTime, Org, Outcome, OutcomeBody, PermissionLevel,
    RecordedCall, SourceName, ToolCall, ToolKey, WallTime,
};

use crate::{TOOLS, math_tools};

#[derive(Debug)]
struct Still;
impl Clock for Still {
    fn wall_now(&self) -> WallTime {
        WallTime(0)
    }
    fn monotonic_now(&self) -> MonotonicTime {
        MonotonicTime(Duration::ZERO)
    }
}

/// Cancel signal of a caller: cancelled at once if true, else never.
struct Someone(bool);
impl CancelSignal for Someone {
    fn cancelled(&self) -> BoxFuture<'_, ()> {
        if self.0 { Box::pin(std::future::ready(())) } else { Box::pin(std::future::pending()) }
    }
    fn is_cancelled(&self) -> bool {
        self.0
    }
}
impl ProgressSink for Someone {
    fn report_progress(&self, _: f64, _: Option<f64>, _: Option<&str>) {}
}
impl CredentialProvider for Someone {
    fn find_credential<'a>(
        &'a self,
        _: &'a SourceName,
        _: &'a Caller,
    ) -> BoxFuture<'a, UpstreamCredential> {
        Box::pin(std::future::ready(UpstreamCredential::NotNeeded))
    }
}

pub(crate) async fn execute(
    name: &str,
    args: &Value,
    gives_up: bool,
) -> Result<Outcome, ExecuteError> {
    let clock: Arc<dyn Clock> = Arc::new(Still);
    let builtin =
        math_tools(&clock, None).into_iter().find(|it| it.tool.name.as_str() == name).unwrap();
    let key = ToolKey {
        org: Org::default(),
        source: SourceName::new("builtin").unwrap(),
        name: builtin.tool.name.clone(),
    };
    let (id, args) = (CallId(uuid::Uuid::nil()), CallArguments::parse(args.to_string()).unwrap());
    let tool = builtin.tool;
    let call = ToolCall {
        id,
        parent_id: None,
        resumption: None,
        unsolicited_input: None,
        tool_key: key,
        tool,
        arguments: args,
    };
    let caller = Caller {
        org: Org::default(),
        subject: "someone".into(),
        key_id: "k".into(),
        level: PermissionLevel::Guest,
        is_agent: true,
        actors: Vec::new(),
        root_key_id: None,
    };
    let someone = Someone(gives_up);
    let ctx = CallContext {
        caller: &caller,
        deadline: MonotonicTime(Duration::MAX),
        cancel: &someone,
        progress: &someone,
        client_capabilities: &ClientCapabilities::default(),
        meta: None,
        client_requests: None,
        task_handle: None,
        credentials: &someone,
        principal: None,
        sandbox_usage: None,
        answering_node: None,
    };
    let ticket = IntentReceipt::with_abandon_hook(id, drop);
    let step =
        builtin.executor.execute(RecordedCall::from_receipt(&call, &ticket).unwrap(), &ctx).await?;
    let ExecutionState::Completed(outcome) = step else { panic!("it waits") };
    Ok(outcome)
}

fn declared() -> Vec<Value> {
    serde_json::from_str(ToolFamily::Math.text()).unwrap()
}

#[test]
fn each_entry_has_a_function_and_each_function_an_entry() {
    let names: Vec<&str> = ToolFamily::Math.registry().tool_names().collect();
    assert_eq!(names, TOOLS.iter().map(|(name, _)| *name).collect::<Vec<_>>());
    let builtins: Vec<&str> = ToolFamily::General.registry().tool_names().collect();
    assert!(names.iter().all(|name| !builtins.contains(name)), "two tools of one name");
}

#[tokio::test]
async fn every_example_is_what_happens() {
    let clock: Arc<dyn Clock> = Arc::new(Still);
    let tools = math_tools(&clock, None);
    for entry in declared() {
        let name = entry["name"].as_str().unwrap();
        let tool = &tools.iter().find(|it| it.tool.name.as_str() == name).unwrap().tool;
        let valid = |schema: &tool::Json, value: &Value| {
            let schema = jsonschema::validator_for(&schema.to_value()).unwrap();
            assert!(schema.is_valid(value), "{name}: {value} is not as its schema says");
        };
        let examples = entry["examples"].as_array().unwrap();
        assert!(!examples.is_empty(), "{name} has no example");
        for example in examples {
            valid(&tool.input_schema, &example["input"]);
            let outcome = execute(name, &example["input"], false).await.unwrap();
            let answered = match &outcome.body {
                OutcomeBody::Value(json) => json.to_value(),
                OutcomeBody::Mcp(json) => json.to_value()["structuredContent"].clone(),
            };
            if let Some(error) = example.get("error") {
                assert_eq!((outcome.is_error, &answered), (true, error), "{name}");
                continue;
            }
            assert!(!outcome.is_error, "{name}: {answered}");
            valid(tool.output_schema.as_ref().unwrap(), &answered);
            assert!(
                holds(&answered, &example["output"]),
                "{name}: {answered} lacks {}",
                example["output"]
            );
        }
    }
}

/// Whether the answer contains everything expected; numbers match except for the last two digits.
fn holds(answered: &Value, wanted: &Value) -> bool {
    testkit::json_expectation::contains_json_by(answered, wanted, &|answered, wanted| match (
        answered, wanted,
    ) {
        (Value::Number(answered), Value::Number(wanted)) => {
            let (a, b) = (answered.as_f64().unwrap(), wanted.as_f64().unwrap());
            (a - b).abs() <= 1e-13 * b.abs().max(1.0)
        }
        _ => answered == wanted,
    })
}

#[tokio::test]
async fn a_caller_who_gives_up_is_told_at_once() {
    let args = json!({ "bounds": [[0, 1]], "function": "sin(x)", "n_samples": 1_000_000_000_u64 });
    let error = execute("monte_carlo_native", &args, true).await.unwrap_err();
    assert_eq!(error.code, ErrorCode::Cancelled);
}

#[test]
fn an_answer_that_lacks_something_does_not_hold_it() {
    assert!(holds(&json!({ "a": 1, "b": [{ "c": 2, "d": 3 }] }), &json!({ "b": [{ "c": 2.0 }] })));
    for lacking in [json!({ "a": 2 }), json!({ "c": 1 }), json!({ "b": [] }), json!([1])] {
        assert!(!holds(&json!({ "a": 1, "b": [1] }), &lacking), "{lacking}");
    }
}
