//! Compares the tools with Python's libraries on the same arguments. Cases and verdicts come from
//! `tests/real/authority.py`.

use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use testkit::context::{quiet_context, test_caller};
use testkit::installed_programs::installed_file;
use tool::{
    CallArguments, CallId, Clock, ExecutionState, IntentReceipt, MonotonicTime, Org, OutcomeBody,
    RecordedCall, SourceName, ToolCall, ToolKey, WallTime,
};

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

/// Runs the reference script and returns its output.
fn authority(script: &str, args: &[&str], input: &Value) -> Value {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/real");
    #[expect(clippy::disallowed_methods, reason = "the authority is a program of its own")]
    let mut python = Command::new(installed_file("venv-math/bin/python"));
    python
        .arg("-B")
        .arg(folder.join(script))
        .args(args)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped());
    let mut child =
        python.env("OMP_NUM_THREADS", "1").env("OPENBLAS_NUM_THREADS", "1").spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let text = input.to_string();
    let writer = std::thread::spawn(move || stdin.write_all(text.as_bytes()));
    let ended = child.wait_with_output().unwrap();
    writer.join().unwrap().unwrap_or_default();
    assert!(ended.status.success(), "{script} failed on {args:?}");
    serde_json::from_slice(&ended.stdout).unwrap()
}

/// Returns the tool's answer to each case.
async fn answers(tool: &str, cases: &[Value]) -> Vec<Value> {
    let answered = outcomes(tool, cases).await.into_iter();
    answered.map(|(args, field, value)| json!({ "args": args, field: value.to_value() })).collect()
}

/// Returns arguments, `answer` or `error`, and the text of each case.
async fn outcomes(tool: &str, cases: &[Value]) -> Vec<(Value, &'static str, tool::Json)> {
    let clock: Arc<dyn Clock> = Arc::new(Still);
    let tools = builtins_math::math_tools(&clock, None);
    let builtin = tools.iter().find(|it| it.tool.name.as_str() == tool).unwrap();
    let source = SourceName::new("builtin").unwrap();
    let key = ToolKey { org: Org::default(), source, name: builtin.tool.name.clone() };
    let caller = test_caller();
    let mut answered = Vec::new();
    for args in cases {
        let checked = CallArguments::parse(args.to_string()).unwrap();
        let call = ToolCall {
            id: CallId(uuid::Uuid::nil()),
            parent_id: None,
            resumption: None,
            unsolicited_input: None,
            tool_key: key.clone(),
            tool: Arc::clone(&builtin.tool),
            arguments: checked,
        };
        let ticket = IntentReceipt::with_abandon_hook(call.id, drop);
        let granted = RecordedCall::from_receipt(&call, &ticket).unwrap();
        let step = builtin.executor.execute(granted, &quiet_context(&caller)).await.unwrap();
        let ExecutionState::Completed(outcome) = step else { panic!("it waits") };
        let (OutcomeBody::Value(value) | OutcomeBody::Mcp(value)) = &outcome.body;
        let field = if outcome.is_error { "error" } else { "answer" };
        answered.push((args.clone(), field, value.clone()));
    }
    answered
}

/// Cases with documented differences, by tool; no other tool has any.
const DIFFER: &[(&str, usize)] = &[("render_math", 1)];

async fn agrees(tool: &str) {
    let cases = authority("authority.py", &["cases", tool], &json!(null));
    let cases = cases.as_array().unwrap();
    assert!(cases.len() >= 220, "{tool}: only {} cases", cases.len());
    let verdict = authority("authority.py", &["judge", tool], &json!(answers(tool, cases).await));
    let wrong = verdict["wrong"].as_array().unwrap();
    let (worst, allowed) = (&verdict["worst"], &verdict["tolerance"]);
    println!("| `{tool}` | {} | {worst:.3} | {allowed} |", cases.len());
    let first: Vec<&Value> = wrong.iter().take(5).collect();
    let known = DIFFER.iter().find(|(name, _)| *name == tool).map_or(0, |(_, count)| *count);
    assert!(
        wrong.len() <= known,
        "{tool}: {} of {} are wrong: {first:#?}",
        wrong.len(),
        cases.len()
    );
}

macro_rules! agreed {
    ($($name:ident: $tool:literal,)*) => {$(
        #[tokio::test]
        async fn $name() {
            agrees($tool).await;
        }
    )*};
}

agreed! {
    statistics_are_those_of_numpy_and_scipy: "statistics",
    solutions_are_those_of_numpy: "matrix_solve",
    eigenvalues_are_those_of_numpy: "matrix_eigenvalues",
    singular_values_are_those_of_numpy: "matrix_svd",
    inverses_and_determinants_are_those_of_numpy: "matrix_op",
    simulations_agree_with_quadrature: "monte_carlo",
    integrals_and_bootstraps_agree_with_scipy: "monte_carlo_native",
    steps_are_those_of_scipy: "solve_ode",
    minima_are_those_of_scipy: "optimize",
    samples_are_of_the_density: "mcmc",
    places_are_those_that_promise_most_to_scikit_learn: "bayesopt",
    dots_are_where_the_points_are: "plot_braille",
    curves_are_those_of_numpy: "plot_function",
    bins_are_those_of_matplotlib: "histogram",
    spots_are_where_the_points_are: "plot_sixel",
    formulas_have_the_letters_of_matplotlib_where_it_has_them: "render_math",
}

/// 20,000 random expressions: integers and booleans exactly, floats to 1e-12, and errors exactly
/// where Python or NumPy has one.
#[tokio::test]
async fn expressions_are_those_of_python_and_numpy() {
    let cases = authority("calculate.py", &["cases", "20000"], &json!(null));
    let cases = cases.as_array().unwrap();
    assert_eq!(cases.len(), 20_000);
    let answered: Vec<Value> = outcomes("calculate", cases)
        .await
        .into_iter()
        .map(|(args, field, value)| {
            // A JSON tree would round the answer; error messages are text already.
            let text = if field == "answer" {
                value.as_str().to_owned()
            } else {
                value.to_value().as_str().unwrap_or_default().to_owned()
            };
            json!({ "args": args, field: text })
        })
        .collect();
    let verdict = authority("calculate.py", &["judge"], &json!(answered));
    let differ = verdict["differ"].as_array().unwrap();
    let count = |field: &str| verdict[field].as_u64().unwrap();
    println!(
        "{} values, {} errors, {} explained",
        count("values"),
        count("errors"),
        count("explained")
    );
    assert!(count("values") >= 12_000 && count("errors") >= 1_000, "{verdict}");
    assert!(count("explained") <= 20, "{verdict}");
    // Control: an answer that differs in its last digit is reported.
    let off = json!([{ "args": { "expression": "2**64" }, "answer": "18446744073709551617" }]);
    assert_eq!(authority("calculate.py", &["judge"], &off)["differ"].as_array().unwrap().len(), 1);
    let first: Vec<&Value> = differ.iter().take(20).collect();
    assert!(differ.is_empty(), "{} of {} differ: {first:#?}", differ.len(), cases.len());
}

/// Known posteriors and optima: at most 1.5 times the iterations and 1.25 times the error of
/// Python's equivalents.
async fn needs_at_most_half_more_iterations_than_python(tool: &str) {
    let asked = authority("recover.py", &["cases", tool], &json!(null));
    let mut answered = Vec::new();
    for case in asked.as_array().unwrap() {
        let args = std::slice::from_ref(&case["args"]);
        let found = answers(tool, args).await.remove(0);
        answered.push(json!({ "case": case, "answer": found["answer"], "error": found["error"] }));
    }
    let verdicts = authority("recover.py", &["judge"], &json!(answered));
    let verdicts = verdicts.as_array().unwrap();
    for verdict in verdicts {
        println!("{verdict}");
    }
    assert!(!verdicts.is_empty(), "{tool}: no problem was judged");
    for verdict in verdicts {
        assert_eq!(verdict["good"], true, "{verdict}");
    }
}

#[tokio::test]
async fn posteriors_need_at_most_half_more_iterations_than_in_numpy() {
    needs_at_most_half_more_iterations_than_python("mcmc").await;
}

#[tokio::test]
async fn optima_need_at_most_half_more_evaluations_than_in_scikit_optimize() {
    needs_at_most_half_more_iterations_than_python("bayesopt").await;
}

#[tokio::test]
async fn simplex_minima_need_at_most_half_more_iterations_than_in_scipy() {
    needs_at_most_half_more_iterations_than_python("optimize").await;
}
