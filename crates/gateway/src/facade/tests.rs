use std::sync::Arc;

use serde_json::{Value, json};
use testkit::executor::{Scripted, echo};
use tool::executor::Approval;
use tool::outcome::{Answer, Failure, Status};
use tool::{
    Body, CallId, Code, Effect, Effects, Executor, Json, Level, Outcome, Safety, Step, Tool, Wait,
    Wall,
};

use super::{Asked, Runner, ToolOutput, listed};
use crate::tests::{bench, offer, principal};

fn tool(name: &str, change: impl FnOnce(&mut Tool)) -> Tool {
    let schema = json!({"type": "object", "required": ["n"], "properties": {
        "n": {"type": "integer", "description": "a number"}, "m": {"type": "string"}}});
    let mut tool = testkit::tool(name, "Counts.", &schema);
    change(&mut tool);
    tool
}

fn entry(change: impl FnOnce(&mut Tool)) -> catalog::Entry {
    let tool = Arc::new(tool("count", change));
    catalog::Entry::new(tool::Org::default(), "s".parse().unwrap(), tool, echo()).unwrap()
}

fn answer(result: Result<Step, Failure>) -> Answer {
    Answer { call: CallId(uuid::Uuid::nil()), status: Status::Succeeded, result, elapsed_ms: 12 }
}

fn done(body: Body, is_error: bool) -> Step {
    Step::Done(Outcome { body, is_error })
}

fn approval() -> Approval {
    let (reason, effects) = ("it is dangerous".to_owned(), vec!["system_state".to_owned()]);
    Approval { reason, expires: Wall(0), effects, approved: false, by_agent: true }
}

/// All states of spec 3's envelope, with both ways to read it.
#[test]
fn golden_tool_output_has_spec_3s_fields_in_every_state() {
    let effects = |tool: &mut Tool| {
        tool.traits.effects = Effects::Declared(vec![Effect::ModifiesFiles, Effect::SystemState]);
        tool.traits.destructive = true;
    };
    let (entry, args) = (entry(effects), json!({"n": 1}));
    let mcp = json!({"content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]});
    let null = Body::Value(Json::of(&Value::Null));
    let states = [
        ("success", Ok(done(Body::Value(Json::of("plain")), false))),
        ("success, null", Ok(done(null, false))),
        ("success, object", Ok(done(Body::Value(Json::of(&json!({"a": [1, 2]}))), false))),
        ("success, MCP", Ok(done(Body::Mcp(Json::of(&mcp)), false))),
        ("error by the tool", Ok(done(Body::Value(Json::of("no such file")), true))),
        (
            "error by its source",
            Err(Failure::new(Code::Timeout, "Tool execution timed out (30s).")),
        ),
        ("pending_approval", Ok(Step::Wait(Wait::Approval(approval())))),
    ];
    let shown = states.map(|(name, result)| {
        let output = ToolOutput::of(&entry, &args, &answer(result)).expect("it ran or waits");
        json!({"state": name, "to_machine": output.to_machine(), "to_human": output.to_human()})
    });
    insta::assert_json_snapshot!("tool_output", shown);
    // What spec 3 raises is no output.
    for code in [Code::UnknownTool, Code::Denied, Code::InvalidArguments] {
        let refused = answer(Err(Failure::new(code, "no")));
        assert_eq!(ToolOutput::of(&entry, &args, &refused), None);
    }
}

#[test]
fn a_tool_is_listed_with_side_effects_only_where_there_are_any() {
    let plain = entry(|tool| tool.traits.effects = Effects::Unknown);
    let listing = json!(listed(&plain, "tool_file"));
    let expected = json!({"name": "count", "description": "Counts.", "category": "",
        "parameters": {"n": {"type": "integer", "description": "a number", "required": true},
            "m": {"type": "string", "required": false}}, "mcp_backed": false});
    assert_eq!(listing, expected);
    let severe = entry(|tool| {
        tool.traits.effects = Effects::Declared(vec![Effect::LocalExec]);
        (tool.traits.destructive, tool.traits.categories) = (true, vec!["code".to_owned()]);
    });
    let listing = json!(listed(&severe, "mcp"));
    assert_eq!(
        (&listing["side_effects"], &listing["destructive"]),
        (&json!(["local_exec"]), &json!(true))
    );
    assert_eq!((&listing["category"], &listing["mcp_backed"]), (&json!("code"), &json!(true)));
}

fn answers(body: &Value, is_error: bool) -> Arc<dyn Executor> {
    let body = Body::Value(Json::of(body));
    Arc::new(Scripted::new(move |_| Ok(Step::Done(Outcome { body: body.clone(), is_error }))))
}

/// Every id is answered, in order, with spec 1's object and texts.
#[tokio::test(start_paused = true)]
async fn golden_results_have_spec_1s_object_and_texts() {
    let plain = |name: &str| testkit::tool(name, "d", &json!({"type": "object"}));
    let mut dangerous = plain("dangerous");
    dangerous.traits.safety = Safety::Dangerous;
    let bench = bench(vec![
        offer(plain("text"), answers(&json!("as it is\n"), false)),
        offer(plain("none"), answers(&Value::Null, false)),
        offer(plain("object"), answers(&json!({"a": 1}), false)),
        offer(plain("fails"), answers(&json!("division by zero"), true)),
        offer(tool("strict", |tool| tool.traits.safety = Safety::Cautious), echo()),
        offer(dangerous, echo()),
    ]);
    let runner = Runner::new(Arc::clone(&bench.gateway), principal(Level::User));
    let names = ["text", "none", "object", "fails", "strict", "dangerous", "absent"];
    let asked = names.iter().zip(1..).map(|(name, id)| Asked {
        id: format!("call_{id}"),
        name: (*name).to_owned(),
        args: "{}".into(),
    });
    let mut results = runner.execute_all(asked.collect()).await;
    for result in &mut results {
        result.metadata.execution_time_ms = 0;
    }
    for (result, id) in results.iter().zip(1..) {
        assert_eq!(result.id, format!("call_{id}"));
        assert_eq!(result.success, result.error.is_none());
    }
    insta::assert_json_snapshot!("spec_1_result", results);
}
