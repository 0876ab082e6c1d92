use std::time::Duration;

use serde_json::{Value, json};

use super::SuspendedProgram;

const LIMIT: Duration = Duration::from_secs(5);

fn step(desk: &mut SuspendedProgram, asked: &Value) -> Result<Value, String> {
    let answer = desk.run_step(&serde_json::to_vec(asked).unwrap(), LIMIT, || {})?;
    Ok(serde_json::from_slice(&answer).unwrap())
}

fn asked(asked: &Value) -> Value {
    step(&mut SuspendedProgram::default(), asked).unwrap()
}

fn begin(code: &str) -> Value {
    let look = json!({"read_only": false, "chain": true});
    let plan = json!({
        "code": code, "functions": {"look": look}, "inputs": ["n"], "mode": "seq",
        "parallel": false, "parallel_mutations": false,
    });
    json!({"begin": {"plan": plan, "inputs": {"n": 2}}})
}

/// Starts a program; returns its first response and the suspended program.
fn begun(code: &str) -> (Value, SuspendedProgram) {
    let mut desk = SuspendedProgram::default();
    let mut begun = step(&mut desk, &begin(code)).unwrap();
    (begun["answered"].take(), desk)
}

/// Saves a program and continues it elsewhere.
fn gone_on(mut desk: SuspendedProgram, came: &Value) -> (Value, SuspendedProgram) {
    let state = step(&mut desk, &json!({"keep": {"leaves": true}})).unwrap();
    let told = step(&mut desk, &json!({"answer": {"came": came}})).unwrap_err();
    assert_eq!(told, "no program waits for a result");
    let mut elsewhere = SuspendedProgram::default();
    let functions = ["look", "CALL"];
    let asked = json!({"go_on": {"state": state, "functions": functions, "came": came}});
    (step(&mut elsewhere, &asked).unwrap(), elsewhere)
}

#[test]
fn a_script_stops_at_each_call_and_goes_on_from_its_state_alone() {
    let (first, desk) =
        begun("print('begun')\na = look(n, deep=[1, {'k': None}])\nb = look(a['x'])\na['x'] + b");
    assert_eq!(first["call"]["function"], "look");
    assert_eq!(first["call"]["args"], json!([2]));
    assert_eq!(first["call"]["kwargs"], json!({"deep": [1, {"k": null}]}));
    assert_eq!(first["call"]["printed"], "begun\n");
    let (second, mut desk) = gone_on(desk, &json!({"value": {"x": 40}}));
    assert_eq!(second["call"]["args"], json!([40]));
    // A saved program may also stay and continue here; its state can be continued any number of
    // times.
    let state = step(&mut desk, &json!({"keep": {"leaves": false}})).unwrap();
    let stayed = step(&mut desk, &json!({"answer": {"came": {"value": 2}}})).unwrap();
    assert_eq!(stayed["done"]["value"], 42);
    for (came, done) in [(2, 42), (3, 43)] {
        let came = json!({"value": came});
        let again = asked(&json!({"go_on": {"state": state, "functions": ["look"], "came": came}}));
        assert_eq!(again["done"]["value"], done);
    }
}

#[test]
fn a_program_on_the_desk_goes_when_another_comes() {
    let (_, mut desk) = begun("look(1)");
    let mut fresh = 0;
    let other = serde_json::to_vec(&begin("1 + 1")).unwrap();
    desk.run_step(&other, LIMIT, || fresh += 1).unwrap();
    assert_eq!(fresh, 1);
    let answer = serde_json::to_vec(&json!({"answer": {"came": {"value": 1}}})).unwrap();
    let told = desk.run_step(&answer, LIMIT, || fresh += 1).unwrap_err();
    assert_eq!((told.as_str(), fresh), ("no program waits for a result", 1));
}

#[test]
fn what_a_call_raises_is_an_exception_of_its_kind() {
    let code = "try:\n    look(1)\nexcept PermissionError as e:\n    x = 'no: ' + str(e)\nx";
    let denied = json!({"raised": {"kind": "denied", "message": "never"}});
    assert_eq!(gone_on(begun(code).1, &denied).0["done"]["value"], "no: never");
    let failed = json!({"raised": {"kind": "failed", "message": "broken"}});
    let (told, _) = gone_on(begun("n = 1\nlook(n)").1, &failed);
    assert_eq!(told["raised"]["message"], "RuntimeError: broken (line 2)");
}

#[test]
fn what_is_no_state_of_ours_is_refused() {
    for state in ["", "AAAA", "not base64", "TU9OVFkACQAAAA=="] {
        let asked = json!({"go_on": {"state": state, "functions": [], "came": {"value": 1}}});
        let told = step(&mut SuspendedProgram::default(), &asked).unwrap_err();
        assert!(!told.is_empty(), "{state}");
    }
}

#[test]
fn a_script_has_no_files_no_clock_and_no_other_functions() {
    for code in ["open('/etc/passwd').read()", "import time\ntime.time()", "nobody(1)", "look.x(1)"]
    {
        let (told, _) = begun(code);
        assert!(told["raised"]["message"].is_string(), "{code}: {told}");
    }
}

/// `look` and `see` are read-only, `put` and `cut` have effects, `own` is not callable by programs.
fn planned(code: &str, mode: &str, parallel_mutations: bool) -> Value {
    let function = |read_only, chain| json!({"read_only": read_only, "chain": chain});
    asked(&json!({"plan": {
        "code": code, "inputs": ["n"], "mode": mode, "parallel": true,
        "parallel_mutations": parallel_mutations,
        "functions": {
            "look": function(true, true), "see": function(true, true), "put": function(false, true),
            "cut": function(false, true), "own": function(false, false),
        },
    }}))
}

fn order(code: &str, parallel_mutations: bool) -> Value {
    planned(code, "dep", parallel_mutations)["waves"]["order"].clone()
}

#[test]
fn waves_keep_the_order_that_could_be_seen() {
    assert_eq!(order("a = look(1)\nb = see(a)\nc = look(2)", false), json!([[0, 2], [1]]));
    // A read-only call after an effect runs after it, and one before it runs before.
    assert_eq!(
        order("a = look(1)\nput(2)\nb = look(3)\nc = see(4)", false),
        json!([[0, 1], [2, 3]])
    );
    assert_eq!(order("put(1)\ncut(2)\nput(3)", false), json!([[0], [1], [2]]));
    let late = "a = look(1)\nb = look(a)\nput(7)\nc = look(2)";
    assert_eq!(order(late, false), json!([[0], [1, 2], [3]]));
    // Unless effects may run in parallel.
    assert_eq!(order("put(1)\ncut(2)\nput(3)", true), json!([[0, 1, 2]]));
}

#[test]
fn what_is_more_than_calls_has_no_waves() {
    for code in [
        "a = look(1)\nb = look(a + 1)",
        "a = look(1)\na = look(2)",
        "a = look(1)\nif a:\n    look(2)",
        "look(1)",
        "a = look(1)\nb = look(unknown)",
        "x = 1\nlook(x)\nlook(2)",
        "a = b = look(1)\nlook(2)",
        "look(*n)\nlook(1)",
        "look(1",
    ] {
        let plan = planned(code, "dep", false);
        assert_eq!((&plan["used"], &plan["fallback"]), (&json!("seq"), &json!(true)), "{code}");
        assert!(plan["waves"].is_null(), "{code}");
    }
    let plain = "a = look(n, [1, -2.5, (3,)], {'k': n})\nb = CALL('see', a)\n[a, b]";
    let plan = planned(plain, "dep", false);
    assert_eq!(plan["waves"]["steps"][1]["function"], "see", "{plan}");
    assert_eq!(plan["waves"]["value"], json!({"list": [{"name": "a"}, {"name": "b"}]}));
}

#[test]
fn what_is_blocked_is_sorted_and_named_as_it_is_called() {
    let plan = planned("own(1)\nput(1)\nTOOL('own')\nCALL(n)\nlook(own(2))", "seq", false);
    assert_eq!(plan["blocked"], json!(["CALL(dynamic)", "TOOL(own)", "own"]));
    assert_eq!(planned("look(1)\nput(2)", "seq", false)["blocked"], json!([]));
    assert_eq!(planned("look(1)\nsee(2)", "seq", false)["used"], "parallel_read_only");
    assert_eq!(planned("look(1)\nput(2)", "seq", false)["used"], "seq");
    assert_eq!(planned("look(1)\nsee(2)", "legacy", false)["used"], "seq");
}
