use std::collections::HashSet;
use std::sync::Arc;
use std::task::{Context as TaskContext, Poll, Waker};

use serde_json::{Value, json};
use tool::executor::{
    CancelSignal, ClientCapabilities, CredentialProvider, ProgressSink, UpstreamCredential,
};
use tool::{
    BoxFuture, CallArguments, CallContext, CallId, Caller, CatalogItem, Clock, ExecutionState,
    IntentReceipt, MonotonicTime, Org, Outcome, OutcomeBody, PermissionLevel, RecordedCall,
    Source as _, SourceName, SourceRevision, ToolCall, ToolKey, WallTime,
};

use super::{BuiltinSource, BuiltinTool, ToolDependencies, pure_tools};

#[derive(Debug)]
struct Fixed(u64);
impl Clock for Fixed {
    fn wall_now(&self) -> WallTime {
        WallTime(self.0)
    }
    fn monotonic_now(&self) -> MonotonicTime {
        MonotonicTime(std::time::Duration::ZERO)
    }
}

struct Nobody;
impl CancelSignal for Nobody {
    fn cancelled(&self) -> BoxFuture<'_, ()> {
        Box::pin(std::future::pending())
    }
    fn is_cancelled(&self) -> bool {
        false
    }
}
impl ProgressSink for Nobody {
    fn report_progress(&self, _: f64, _: Option<f64>, _: Option<&str>) {}
}
impl CredentialProvider for Nobody {
    fn find_credential<'a>(
        &'a self,
        _: &'a SourceName,
        _: &'a Caller,
    ) -> BoxFuture<'a, UpstreamCredential> {
        Box::pin(std::future::ready(UpstreamCredential::NotNeeded))
    }
}

/// 2026-07-01 22:30:15.250 UTC.
pub(crate) fn clock() -> Arc<dyn Clock> {
    Arc::new(Fixed(1_782_945_015_250))
}

/// Finds a tool by its own name, or by its handler's name in the tool-file registry.
fn handler(name: &str) -> Option<BuiltinTool> {
    let named = |it: &BuiltinTool| &*it.handler == name || it.tool.name.as_str() == name;
    pure_tools(&clock()).into_iter().find(named)
}

fn named(name: &str) -> BuiltinTool {
    handler(name).unwrap_or_else(|| panic!("no {name}"))
}

async fn run(name: &str, args: &str) -> Outcome {
    execute(named(name), args).await
}

pub(crate) async fn execute(builtin: BuiltinTool, args: &str) -> Outcome {
    execute_until(builtin, args, &Nobody).await
}

pub(crate) async fn execute_until(
    builtin: BuiltinTool,
    args: &str,
    cancel: &dyn CancelSignal,
) -> Outcome {
    let BuiltinTool { tool, executor, .. } = builtin;
    let key = ToolKey {
        org: Org::default(),
        source: SourceName::new("builtin").unwrap(),
        name: tool.name.clone(),
    };
    let id = CallId(uuid::Uuid::nil());
    let args = CallArguments::parse(args.to_owned()).unwrap();
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
    let ctx = CallContext {
        caller: &caller,
        deadline: MonotonicTime(std::time::Duration::MAX),
        cancel,
        progress: &Nobody,
        client_capabilities: &ClientCapabilities::default(),
        meta: None,
        client_requests: None,
        task_handle: None,
        credentials: &Nobody,
        principal: None,
        sandbox_usage: None,
        answering_node: None,
    };
    let ticket = IntentReceipt::with_abandon_hook(id, drop);
    let step =
        executor.execute(RecordedCall::from_receipt(&call, &ticket).unwrap(), &ctx).await.unwrap();
    let ExecutionState::Completed(outcome) = step else { panic!("it waits") };
    outcome
}

async fn answer(name: &str, args: &str) -> Value {
    let outcome = run(name, args).await;
    assert!(!outcome.is_error, "{outcome:?}");
    value(&outcome)
}

async fn failure(name: &str, args: &str) -> String {
    let outcome = run(name, args).await;
    assert!(outcome.is_error, "{outcome:?}");
    value(&outcome).as_str().unwrap().to_owned()
}

fn value(outcome: &Outcome) -> Value {
    let OutcomeBody::Value(json) = &outcome.body else { panic!("an MCP result") };
    json.to_value()
}

#[tokio::test]
async fn the_calculator_answers_in_the_tool_file_registrys_format() {
    let answered = answer("calculator", r#"{"expression":"2 * (3 + 4)"}"#).await;
    assert_eq!(answered, json!({ "expression": "2 * (3 + 4)", "result": 14 }));
    assert_eq!(
        failure("math_eval", r#"{"expression":"1 / 0"}"#).await,
        "division by zero at position 3"
    );
    for nothing in [r#"{"expression":"  "}"#, "{}", r#"{"expression":5}"#] {
        assert_eq!(
            failure("math_eval", nothing).await,
            "math_eval requires a non-empty string \"expression\" parameter"
        );
    }
}

#[tokio::test]
async fn the_date_is_that_of_the_zone() {
    let answered = answer("get_current_datetime", "{}").await;
    assert_eq!(
        answered,
        json!({
            "iso": "2026-07-01T22:30:15.250Z",
            "date": "2026-07-01",
            "time": "22:30:15",
            "timezone": "UTC",
        })
    );
    let answered = answer("get_current_datetime", r#"{"timezone":"europe/berlin"}"#).await;
    assert_eq!(answered["timezone"], "Europe/Berlin");
    assert_eq!((&answered["date"], &answered["time"]), (&json!("2026-07-02"), &json!("00:30:15")));
    let answered = answer("get_current_datetime", r#"{"timezone":"Asia/Kathmandu"}"#).await;
    assert_eq!(answered["time"], "04:15:15");
}

#[tokio::test]
async fn date_and_time_are_told_in_parts() {
    let date = answer("get_current_date", r#"{"timezone":"Europe/Berlin"}"#).await;
    let wanted =
        json!({ "date": "2026-07-02", "weekday": "Thursday", "year": 2026, "month": 7, "day": 2 });
    assert_eq!(date, wanted);
    let time = answer("get_current_time", r#"{"timezone":"America/New_York"}"#).await;
    let wanted = json!({
        "datetime": "2026-07-01T18:30:15-04:00",
        "date": "2026-07-01",
        "time": "18:30:15",
        "utc": "2026-07-01T22:30:15.250Z",
        "timestamp": 1_782_945_015.25,
    });
    assert_eq!(time, wanted);
    let told = failure("get_current_date", r#"{"timezone":"x"}"#).await;
    assert!(told.contains("unknown timezone `x`"), "{told}");
}

#[tokio::test]
async fn an_unknown_zone_is_an_error_and_not_another_zone() {
    assert_eq!(
        failure("get_current_datetime", r#"{"timezone":"Europe/Berln"}"#).await,
        "unknown timezone `Europe/Berln`; use an IANA name such as `Europe/Berlin`, or `UTC`"
    );
    let hostile = format!(r#"{{"timezone":"../../etc/{}\n"}}"#, "x".repeat(500));
    let error = failure("get_current_datetime", &hostile).await;
    assert!(error.len() < 200 && !error.contains('\n'), "{error}");
}

#[tokio::test]
async fn uuids_are_random_and_of_version_4() {
    let one = answer("generate_uuid", "{}").await["uuid"].as_str().unwrap().to_owned();
    let two = answer("generate_uuid", "{}").await["uuid"].as_str().unwrap().to_owned();
    assert_ne!(one, two);
    assert_eq!(uuid::Uuid::parse_str(&one).unwrap().get_version_num(), 4);
}

#[tokio::test]
async fn data_goes_from_one_form_to_the_other() {
    let rows =
        answer("csv_to_json", r#"{"csv_content":"name;age\nAnn;41\n","delimiter":";"}"#).await;
    assert_eq!(rows, json!([{ "name": "Ann", "age": 41 }]));
    let text = answer("json_to_csv", &json!({ "data": rows }).to_string()).await;
    assert_eq!(text, "age,name\r\n41,Ann\r\n");
    let found = json!({ "data": rows, "query": "[?age > `40`].name | [0]" }).to_string();
    assert_eq!(answer("json_query", &found).await, "Ann");
    assert_eq!(
        failure("csv_to_json", r#"{"csv_content":"a","delimiter":"\n"}"#).await,
        "delimiter: `\\n` is not allowed; use one ASCII character, such as `,`, but not a quote or \
         a line break"
    );
}

#[tokio::test]
async fn echo_gives_back_the_very_bytes() {
    let outcome = run("echo", r#"{ "n": 12345678901234567890123, "a":"b" }"#).await;
    let OutcomeBody::Value(json) = outcome.body else { panic!("an MCP result") };
    assert_eq!(json.as_str(), r#"{"echo":{ "n": 12345678901234567890123, "a":"b" }}"#);
}

#[test]
fn every_built_in_is_declared_whole() {
    let builtins = pure_tools(&clock());
    let names: Vec<_> = builtins.iter().map(|builtin| builtin.tool.name.as_str()).collect();
    assert_eq!(names.iter().collect::<HashSet<_>>().len(), names.len());
    for builtin in &builtins {
        let tool = &builtin.tool;
        assert_eq!(tool.input_schema.to_value()["type"], "object", "{}", tool.name);
        assert!(tool.output_schema.is_some(), "{}", tool.name);
        assert!(
            !tool.description.is_empty()
                && !tool.traits.effects.may_change_state()
                && tool.traits.is_idempotent
        );
        assert_eq!(tool.raw_definition.to_value()["parameters"], tool.input_schema.to_value());
        assert_eq!(tool.traits.categories.len(), 1);
    }
    assert_eq!(named("math_eval").tool.name.as_str(), "calculator");
    assert!(handler("read_file").is_none());
}

#[tokio::test]
async fn the_source_lists_them_and_never_changes() {
    let source = BuiltinSource::new(&clock(), &ToolDependencies::default());
    assert_eq!(source.name().as_str(), "builtin");
    let listing = source.list_offers().await.unwrap();
    assert!(listing.problems.is_empty());
    let listed = |name: &str| {
        let is = |offer: &tool::Offer| matches!(&offer.item, CatalogItem::Tool(it) if it.name.as_str() == name);
        listing.offers.iter().any(is)
    };
    assert!(pure_tools(&clock()).iter().all(|builtin| listed(builtin.tool.name.as_str())));
    assert!(
        matches!(&listing.offers[0].item, CatalogItem::Tool(tool) if tool.name.as_str() == "calculator")
    );
    let mut changed = source.wait_for_change(listing.revision);
    let poll = changed.as_mut().poll(&mut TaskContext::from_waker(Waker::noop()));
    assert_eq!(poll, Poll::Pending);
    assert_eq!(source.wait_for_change(SourceRevision(0)).await, listing.revision);
    source.shut_down().await;
}

/// Code that a shell runs within an expression.
const SHELL_CODE: &str = "$(expr 6 + 1) * 6";

/// Hazard S11: tools labelled safe evaluate no code. The label comes from Toolkeep's own registry.
#[tokio::test]
async fn hazard_s11_an_expression_is_never_code() {
    for code in [
        "__import__('os').system('true')",
        "().__class__.__bases__[0].__subclasses__()",
        "open('/etc/passwd')",
        "lambda: 1",
        "exec('1')",
        "1 if 1 else 2",
        SHELL_CODE,
    ] {
        let told = failure("calculator", &json!({ "expression": code }).to_string()).await;
        assert!(told.len() < 300, "{code}: {told}");
        let told = failure("json_query", &json!({ "data": {}, "query": code }).to_string()).await;
        assert!(told.starts_with("query: "), "{code}: {told}");
    }
    // Text that is no code is computed.
    assert_eq!(answer("calculator", r#"{"expression":"pi - pi"}"#).await["result"], 0);
    // Positive control: an evaluator that executes expressions as code runs it.
    #[expect(clippy::disallowed_methods, reason = "the naive way: a calculator made of a shell")]
    let naive = std::process::Command::new("sh")
        .args(["-c", &format!("echo $(({SHELL_CODE}))")])
        .output()
        .unwrap();
    assert_eq!(String::from_utf8_lossy(&naive.stdout), "42\n", "{naive:?}");
}
