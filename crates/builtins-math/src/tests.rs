//! Every entry of the manifests has a function, every function an entry, and every example is
//! what happens, through the executor and by the schemas.

use builtin_manifests::Family;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tool::executor::{Cancel, ClientCan, Credential, Credentials, Progress};
use tool::{
    Args, Body, Boxed, Call, CallId, Caller, Clock, Code, Context, ExecuteError, Granted, Level,
    Mono, Org, Outcome, SourceName, Step, Ticket, ToolKey, Wall,
};

use crate::{TOOLS, all};

#[derive(Debug)]
struct Still;
impl Clock for Still {
    fn wall(&self) -> Wall {
        Wall(0)
    }
    fn mono(&self) -> Mono {
        Mono(Duration::ZERO)
    }
}

/// A caller who gives up, or does not.
struct Someone(bool);
impl Cancel for Someone {
    fn cancelled(&self) -> Boxed<'_, ()> {
        if self.0 { Box::pin(std::future::ready(())) } else { Box::pin(std::future::pending()) }
    }
    fn is_cancelled(&self) -> bool {
        self.0
    }
}
impl Progress for Someone {
    fn report(&self, _: f64, _: Option<f64>, _: Option<&str>) {}
}
impl Credentials for Someone {
    fn for_source<'a>(&'a self, _: &'a SourceName, _: &'a Caller) -> Boxed<'a, Credential> {
        Box::pin(std::future::ready(Credential::None))
    }
}

pub(crate) async fn execute(
    name: &str,
    args: &Value,
    gives_up: bool,
) -> Result<Outcome, ExecuteError> {
    let clock: Arc<dyn Clock> = Arc::new(Still);
    let builtin = all(&clock, None).into_iter().find(|it| it.tool.name.as_str() == name).unwrap();
    let key = ToolKey {
        org: Org::default(),
        source: SourceName::new("builtin").unwrap(),
        name: builtin.tool.name.clone(),
    };
    let (id, args) = (CallId(uuid::Uuid::nil()), Args::check(args.to_string()).unwrap());
    let tool = builtin.tool;
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
    let someone = Someone(gives_up);
    let ctx = Context {
        caller: &caller,
        deadline: Mono(Duration::MAX),
        cancel: &someone,
        progress: &someone,
        client: &ClientCan::default(),
        meta: None,
        ask: None,
        task: None,
        credentials: &someone,
        principal: None,
        caged: None,
        node: None,
    };
    let ticket = Ticket::issue(id, drop);
    let step = builtin.executor.execute(Granted::of(&call, &ticket).unwrap(), &ctx).await?;
    let Step::Done(outcome) = step else { panic!("it waits") };
    Ok(outcome)
}

fn declared() -> Vec<Value> {
    serde_json::from_str(Family::Math.text()).unwrap()
}

#[test]
fn each_entry_has_a_function_and_each_function_an_entry() {
    let names: Vec<&str> = Family::Math.registry().names().collect();
    assert_eq!(names, TOOLS.iter().map(|(name, _)| *name).collect::<Vec<_>>());
    let builtins: Vec<&str> = Family::General.registry().names().collect();
    assert!(names.iter().all(|name| !builtins.contains(name)), "two tools of one name");
}

#[tokio::test]
async fn every_example_is_what_happens() {
    let clock: Arc<dyn Clock> = Arc::new(Still);
    let tools = all(&clock, None);
    for entry in declared() {
        let name = entry["name"].as_str().unwrap();
        let tool = &tools.iter().find(|it| it.tool.name.as_str() == name).unwrap().tool;
        let valid = |schema: &tool::Json, value: &Value| {
            let schema = jsonschema::validator_for(&schema.value()).unwrap();
            assert!(schema.is_valid(value), "{name}: {value} is not as its schema says");
        };
        let examples = entry["examples"].as_array().unwrap();
        assert!(!examples.is_empty(), "{name} has no example");
        for example in examples {
            valid(&tool.input, &example["input"]);
            let outcome = execute(name, &example["input"], false).await.unwrap();
            let answered = match &outcome.body {
                Body::Value(json) => json.value(),
                Body::Mcp(json) => json.value()["structuredContent"].clone(),
            };
            if let Some(error) = example.get("error") {
                assert_eq!((outcome.is_error, &answered), (true, error), "{name}");
                continue;
            }
            assert!(!outcome.is_error, "{name}: {answered}");
            valid(tool.output.as_ref().unwrap(), &answered);
            assert!(
                holds(&answered, &example["output"]),
                "{name}: {answered} lacks {}",
                example["output"]
            );
        }
    }
}

/// Whether all that is wanted is there; numbers to the last digits but two.
fn holds(answered: &Value, wanted: &Value) -> bool {
    testkit::expected::holds_by(answered, wanted, &|answered, wanted| match (answered, wanted) {
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
    assert_eq!(error.code, Code::Cancelled);
}

#[test]
fn an_answer_that_lacks_something_does_not_hold_it() {
    assert!(holds(&json!({ "a": 1, "b": [{ "c": 2, "d": 3 }] }), &json!({ "b": [{ "c": 2.0 }] })));
    for lacking in [json!({ "a": 2 }), json!({ "c": 1 }), json!({ "b": [] }), json!([1])] {
        assert!(!holds(&json!({ "a": 1, "b": [1] }), &lacking), "{lacking}");
    }
}
