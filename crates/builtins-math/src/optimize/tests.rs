use serde_json::{Value, json};

use crate::tool_execution::tests::{answer, endless, fault, outcome, short};

fn x(found: &Value) -> Vec<f64> {
    found["x"].as_array().unwrap().iter().map(|x| x.as_f64().unwrap()).collect()
}

#[test]
fn known_minima_are_found_in_every_way_of_writing() {
    for objective in [
        json!({ "quadratic": { "A": [[2, 0], [0, 2]], "b": [-4, -6], "c": 13 } }),
        json!("(x0 - 2)**2 + (x1 - 3)**2"),
        json!({ "expression": "(x[0] - 2)^2 + (x[1] - 3)^2" }),
    ] {
        for method in ["nelder_mead", "gradient_descent"] {
            let args = json!({ "x0": [0, 0], "objective": objective, "method": method });
            let found = answer("optimize", &args);
            assert_eq!(found["converged"], true, "{args} {found}");
            assert!(
                (x(&found)[0] - 2.0).abs() < 1e-6 && (x(&found)[1] - 3.0).abs() < 1e-6,
                "{found}"
            );
            assert!(found["f"].as_f64().unwrap().abs() < 1e-12, "{found}");
        }
    }
}

#[test]
fn the_banana_is_walked_to_its_end() {
    for objective in [json!("rosenbrock"), json!({ "rosenbrock": true })] {
        let found = answer("optimize", &json!({ "x0": [-1.2, 1], "objective": objective }));
        assert_eq!(found["converged"], true);
        assert!(x(&found).iter().all(|x| (x - 1.0).abs() < 1e-7), "{found}");
    }
    let args = json!({ "x0": [-1.2, 1, 1, 1], "objective": "rosenbrock", "max_iter": 5 });
    assert_eq!(answer("optimize", &args)["converged"], false);
}

#[test]
fn the_greatest_value_is_found_too() {
    let args = json!({ "x0": [0.5], "objective": "sin(x)", "mode": "maximize" });
    let found = answer("optimize", &args);
    assert!((x(&found)[0] - std::f64::consts::FRAC_PI_2).abs() < 1e-7, "{found}");
    assert!((found["f"].as_f64().unwrap() - 1.0).abs() < 1e-15);
}

#[test]
fn what_has_no_minimum_is_told() {
    let flat = json!({ "x0": [0.1], "objective": "-exp(x0)", "max_iter": 100_000 });
    assert!(fault("optimize", &flat).contains("falls without bound"));
    for (args, expected) in [
        (
            json!({ "x0": [-1], "objective": "sqrt(x)" }),
            "`objective` has no finite value at `x0`; start somewhere else",
        ),
        (
            json!({ "x0": [1], "objective": { "quadratic": { "A": [[1, 0], [0, 1]] } } }),
            "`x0` has 1 numbers, but `A` is 2 × 2 and `b` has 1",
        ),
        (
            json!({ "x0": [1, 2, 3], "objective": "x3" }),
            "`objective`: unknown name `x3` at position 1; the variables are x0 to x2",
        ),
    ] {
        assert_eq!(fault("optimize", &args), expected);
    }
    let nothing = fault("optimize", &json!({ "x0": [1], "objective": { "cube": true } }));
    assert!(nothing.starts_with("`objective` must be an expression such as"), "{nothing}");
}

#[test]
fn time_is_bounded() {
    let args = json!({ "x0": vec![3.0; 20], "objective": "rosenbrock", "max_iter": 1_000_000 });
    let error = outcome("optimize", &args, &short(20)).unwrap_err();
    assert!(error.starts_with("not finished within 30 s"), "{error}");
    // Control: with enough time it finishes.
    let args = json!({ "x0": [3.0, 3.0], "objective": "rosenbrock" });
    assert!(outcome("optimize", &args, &endless()).is_ok());
}
