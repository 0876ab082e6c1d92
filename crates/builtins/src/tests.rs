use std::collections::HashSet;
use std::sync::Arc;
use std::task::{Context as TaskContext, Poll, Waker};

use serde_json::{Value, json};
use tool::executor::{Cancel, ClientCan, Credential, Credentials, Progress};
use tool::{
    Args, Body, Boxed, Call, CallId, Caller, Clock, Context, Granted, Item, Level, Mono, Org,
    Outcome, Revision, Source as _, SourceName, Step, Ticket, ToolKey, Wall,
};

use super::{Builtin, BuiltinSource, Means, all};

#[derive(Debug)]
struct Fixed(u64);
impl Clock for Fixed {
    fn wall(&self) -> Wall {
        Wall(self.0)
    }
    fn mono(&self) -> Mono {
        Mono(std::time::Duration::ZERO)
    }
}

struct Nobody;
impl Cancel for Nobody {
    fn cancelled(&self) -> Boxed<'_, ()> {
        Box::pin(std::future::pending())
    }
    fn is_cancelled(&self) -> bool {
        false
    }
}
impl Progress for Nobody {
    fn report(&self, _: f64, _: Option<f64>, _: Option<&str>) {}
}
impl Credentials for Nobody {
    fn for_source<'a>(&'a self, _: &'a SourceName, _: &'a Caller) -> Boxed<'a, Credential> {
        Box::pin(std::future::ready(Credential::None))
    }
}

/// 2026-07-01 22:30:15.250 UTC.
pub(crate) fn clock() -> Arc<dyn Clock> {
    Arc::new(Fixed(1_782_945_015_250))
}

/// By its own name, or by that of its handler in spec 2.
fn handler(name: &str) -> Option<Builtin> {
    let named = |it: &Builtin| &*it.handler == name || it.tool.name.as_str() == name;
    all(&clock()).into_iter().find(named)
}

fn named(name: &str) -> Builtin {
    handler(name).unwrap_or_else(|| panic!("no {name}"))
}

async fn run(name: &str, args: &str) -> Outcome {
    execute(named(name), args).await
}

pub(crate) async fn execute(builtin: Builtin, args: &str) -> Outcome {
    execute_until(builtin, args, &Nobody).await
}

pub(crate) async fn execute_until(builtin: Builtin, args: &str, cancel: &dyn Cancel) -> Outcome {
    let Builtin { tool, executor, .. } = builtin;
    let key = ToolKey {
        org: Org::default(),
        source: SourceName::new("builtin").unwrap(),
        name: tool.name.clone(),
    };
    let id = CallId(uuid::Uuid::nil());
    let args = Args::check(args.to_owned()).unwrap();
    let call = Call { id, parent: None, continues: None, unasked: None, key, tool, args };
    let caller = Caller {
        org: Org::default(),
        subject: "someone".into(),
        key: "k".into(),
        level: Level::Guest,
        agent: true,
        actors: Vec::new(),
        root: None,
    };
    let ctx = Context {
        caller: &caller,
        deadline: Mono(std::time::Duration::MAX),
        cancel,
        progress: &Nobody,
        client: &ClientCan::default(),
        meta: None,
        ask: None,
        task: None,
        credentials: &Nobody,
        principal: None,
        caged: None,
        node: None,
    };
    let ticket = Ticket::issue(id, drop);
    let step = executor.execute(Granted::of(&call, &ticket).unwrap(), &ctx).await.unwrap();
    let Step::Done(outcome) = step else { panic!("it waits") };
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
    let Body::Value(json) = &outcome.body else { panic!("an MCP result") };
    json.value()
}

#[tokio::test]
async fn the_calculator_answers_in_the_shape_of_spec_2() {
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
        "delimiter: `\\n` cannot stand between cells; use one ASCII character that is no quote and no end \
         of line, such as `,`"
    );
}

#[tokio::test]
async fn echo_gives_back_the_very_bytes() {
    let outcome = run("echo", r#"{ "n": 12345678901234567890123, "a":"b" }"#).await;
    let Body::Value(json) = outcome.body else { panic!("an MCP result") };
    assert_eq!(json.as_str(), r#"{"echo":{ "n": 12345678901234567890123, "a":"b" }}"#);
}

#[test]
fn every_built_in_is_declared_whole() {
    let builtins = all(&clock());
    let names: Vec<_> = builtins.iter().map(|builtin| builtin.tool.name.as_str()).collect();
    assert_eq!(names.iter().collect::<HashSet<_>>().len(), names.len());
    for builtin in &builtins {
        let tool = &builtin.tool;
        assert_eq!(tool.input.value()["type"], "object", "{}", tool.name);
        assert!(tool.output.is_some(), "{}", tool.name);
        assert!(
            !tool.description.is_empty() && !tool.traits.effects.any() && tool.traits.idempotent
        );
        assert_eq!(tool.received.value()["parameters"], tool.input.value());
        assert_eq!(tool.traits.categories.len(), 1);
    }
    assert_eq!(named("math_eval").tool.name.as_str(), "calculator");
    assert!(handler("read_file").is_none());
}

#[tokio::test]
async fn the_source_lists_them_and_never_changes() {
    let source = BuiltinSource::new(&clock(), &Means::default());
    assert_eq!(source.name().as_str(), "builtin");
    let listing = source.list().await.unwrap();
    assert!(listing.problems.is_empty());
    let listed = |name: &str| {
        let is =
            |offer: &tool::Offer| matches!(&offer.item, Item::Tool(it) if it.name.as_str() == name);
        listing.offers.iter().any(is)
    };
    assert!(all(&clock()).iter().all(|builtin| listed(builtin.tool.name.as_str())));
    assert!(
        matches!(&listing.offers[0].item, Item::Tool(tool) if tool.name.as_str() == "calculator")
    );
    let mut changed = source.changed(listing.revision);
    let poll = changed.as_mut().poll(&mut TaskContext::from_waker(Waker::noop()));
    assert_eq!(poll, Poll::Pending);
    assert_eq!(source.changed(Revision(0)).await, listing.revision);
    source.close().await;
}

/// Hazard S11: what is labelled safe evaluates no code. The label is ours, in the registry.
#[tokio::test]
async fn hazard_s11_an_expression_is_never_code() {
    for code in [
        "__import__('os').system('true')",
        "().__class__.__bases__[0].__subclasses__()",
        "open('/etc/passwd')",
        "lambda: 1",
        "exec('1')",
        "1 if 1 else 2",
    ] {
        let told = failure("calculator", &json!({ "expression": code }).to_string()).await;
        assert!(told.len() < 300, "{code}: {told}");
        let told = failure("json_query", &json!({ "data": {}, "query": code }).to_string()).await;
        assert!(told.starts_with("query: "), "{code}: {told}");
    }
    // What is no code is computed.
    assert_eq!(answer("calculator", r#"{"expression":"pi - pi"}"#).await["result"], 0);
    // Positive control: an evaluator that takes an expression for code runs it.
    #[expect(clippy::disallowed_methods, reason = "the naive way, in plain Python")]
    let naive = std::process::Command::new("python3")
        .args(["-c", "print(eval(\"().__class__.__bases__[0].__subclasses__()\"))"])
        .output()
        .expect("python3");
    assert!(String::from_utf8_lossy(&naive.stdout).contains("class"), "{naive:?}");
}
