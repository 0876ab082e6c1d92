use serde_json::{Value, json};

use crate::tool_execution::tests::{answer, fault, outcome, short};

const BRANIN: &str = "(x1 - 5.1 / (4 * pi**2) * x0**2 + 5 / pi * x0 - 6)**2 + 10 * (1 - 1 / (8 * pi)) * cos(x0) + 10";

fn best(args: &Value) -> f64 {
    answer("bayesopt", args)["y_best"].as_f64().unwrap()
}

#[test]
fn branin_is_found_with_each_acquisition() {
    for acquisition in ["ei", "ucb", "pi"] {
        let args = json!({
            "bounds": [[-5, 10], [0, 15]], "objective": BRANIN, "mode": "minimize",
            "acquisition": acquisition, "n_init": 8, "n_iter": 32,
        });
        let found = best(&args);
        // Probability of improvement is greedy and converges less precisely.
        let near = if acquisition == "pi" { 0.15 } else { 0.02 };
        assert!(found < 0.397_887 + near, "{acquisition} {found}");
    }
    // Control: the same number of random points gives a much worse result.
    let args = json!({
        "bounds": [[-5, 10], [0, 15]], "objective": BRANIN, "mode": "minimize", "n_init": 40, "n_iter": 0,
    });
    assert!(best(&args) > 0.6, "{}", best(&args));
}

#[test]
fn a_hill_is_climbed_and_told_in_full() {
    let args =
        json!({ "bounds": [[0, 5], [0, 5]], "objective": "-(x0-2)**2-(x1-3)**2", "n_iter": 15 });
    let found = answer("bayesopt", &args);
    assert!(found["y_best"].as_f64().unwrap() > -1e-2, "{found}");
    assert_eq!(found["n_evaluations"], 20);
    assert_eq!(found["history"]["X"].as_array().unwrap().len(), 20);
    assert!(found["model"]["length_scale"].as_f64().unwrap() > 0.0);
    assert_eq!(answer("bayesopt", &args), found, "the seed fixes it all");
}

#[test]
fn places_without_a_value_do_not_end_it() {
    let args =
        json!({ "bounds": [[-1, 1]], "objective": "sqrt(x) - x", "n_init": 6, "n_iter": 10 });
    let found = answer("bayesopt", &args);
    assert!((found["y_best"].as_f64().unwrap() - 0.25).abs() < 1e-3, "{found}");
    assert!(found["history"]["y"].as_array().unwrap().iter().any(Value::is_null));
    let nowhere = json!({ "bounds": [[-2, -1]], "objective": "sqrt(x)", "n_iter": 2 });
    assert_eq!(
        fault("bayesopt", &nowhere),
        "`objective` has no finite value at any evaluated point"
    );
}

#[test]
fn size_and_time_are_bounded() {
    let args = json!({ "bounds": [[0, 1]], "objective": "x", "n_init": 200, "n_iter": 101 });
    assert_eq!(
        fault("bayesopt", &args),
        "the sum of `n_init` and `n_iter` is 301; the maximum is \
        300"
    );
    let args = json!({ "bounds": [[0, 1]], "objective": "x" });
    assert!(outcome("bayesopt", &args, &short(5)).unwrap_err().starts_with("not finished within"));
}
