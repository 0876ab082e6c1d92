use serde_json::{Value, json};

use crate::tool_execution::tests::{answer, fault, given_up, outcome};

fn last(found: &Value) -> Vec<f64> {
    let states = found["y"].as_array().unwrap();
    states.last().unwrap().as_array().unwrap().iter().map(|y| y.as_f64().unwrap()).collect()
}

#[test]
fn known_solutions() {
    let linear = json!({ "y0": [1.0], "t_span": [0, 10], "coefficients": { "A": [[-0.5]] } });
    let found = answer("solve_ode", &linear);
    assert!((last(&found)[0] - (-5.0_f64).exp()).abs() < 1e-7, "{found}");
    let written = json!({ "y0": [1.0], "t_span": [0, 10], "system": "-0.5*y" });
    assert_eq!(answer("solve_ode", &written), found);
    let circle = json!({
        "y0": [1, 0], "t_span": [0, std::f64::consts::TAU], "system": "y1; -y0", "rtol": 1e-10, "atol": 1e-12,
    });
    let found = last(&answer("solve_ode", &circle));
    assert!((found[0] - 1.0).abs() < 1e-8 && found[1].abs() < 1e-8, "{found:?}");
    let named = json!({
        "y0": [2.0], "t_span": [0, 1], "system": "-k * y[0] + c * t", "coefficients": { "k": 3, "c": 0 },
    });
    assert!((last(&answer("solve_ode", &named))[0] - 2.0 * (-3.0_f64).exp()).abs() < 1e-6);
    // Backwards in time.
    let back = json!({ "y0": [1.0], "t_span": [1, 0], "system": "y" });
    assert!((last(&answer("solve_ode", &back))[0] - (-1.0_f64).exp()).abs() < 1e-6);
}

#[test]
fn between_the_steps_it_is_as_exact_as_at_them() {
    let args = json!({
        "y0": [0, 1], "t_span": [0, 10], "system": "y1\n-y0", "n_points": 101, "rtol": 1e-9, "atol": 1e-12,
    });
    let found = answer("solve_ode", &args);
    let times = found["t"].as_array().unwrap();
    assert_eq!((times.len(), times[100].as_f64()), (101, Some(10.0)));
    for (t, y) in times.iter().zip(found["y"].as_array().unwrap()) {
        let error = y[0].as_f64().unwrap() - t.as_f64().unwrap().sin();
        assert!(error.abs() < 1e-7, "{t} {error}");
    }
    let args = json!({ "y0": [1], "t_span": [0, 1], "system": "y", "t_eval": [0, 0.25, 1] });
    let found = answer("solve_ode", &args);
    assert_eq!(found["t"], json!([0.0, 0.25, 1.0]));
    assert!((found["y"][1][0].as_f64().unwrap() - 0.25_f64.exp()).abs() < 1e-6);
}

#[test]
fn what_has_no_solution_is_told() {
    for (args, expected) in [
        (json!({ "y0": [1], "t_span": [0, 2], "system": "y**2" }), "the steps became too small"),
        (
            json!({ "y0": [1], "t_span": [0, 100], "system": "-1e6 * (y - cos(t))", "max_steps": 1000 }),
            "is often stiff",
        ),
        (
            json!({ "y0": [1], "t_span": [0, 1], "system": "1 / (y - 1)" }),
            "has no finite value at t = 0",
        ),
        (json!({ "y0": [1], "t_span": [0, 0], "system": "y" }), "two times that differ"),
        (json!({ "y0": [1, 2], "t_span": [0, 1], "system": "y" }), "`system` has 1 expressions"),
        (json!({ "y0": [1], "t_span": [0, 1] }), "one of `system` and `coefficients` is needed"),
        (
            json!({ "y0": [1], "t_span": [0, 1], "system": "z" }),
            "`system`: unknown name `z` at position 1; the variables are t, y or y0",
        ),
        (
            json!({ "y0": [1, 2], "t_span": [0, 1], "coefficients": { "A": [[1]] } }),
            "`y0` has 2 numbers, but `A` is 1 × 1 and `b` has 2",
        ),
        (
            json!({ "y0": [1], "t_span": [0, 1], "system": "y", "t_eval": [0, 2] }),
            "`t_eval` must go from one end",
        ),
    ] {
        let error = fault("solve_ode", &args);
        assert!(error.contains(expected), "{error}");
    }
    let long =
        json!({ "y0": [1], "t_span": [0, 1e5], "system": "cos(t)", "max_steps": 10_000_000 });
    assert_eq!(outcome("solve_ode", &long, &given_up()).unwrap_err(), "the call was cancelled");
}
