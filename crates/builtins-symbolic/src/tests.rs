//! Tests of examples and of rejected input.

use builtin_manifests::ToolFamily;
use std::time::Duration;

use serde_json::{Value, json};

use crate::equation_parser;
use crate::equation_solver::solve_equations;

fn asked(args: &Value) -> Result<Value, String> {
    let answer = solve_equations(args.to_string().as_bytes(), Duration::from_secs(10))?;
    Ok(serde_json::from_slice(&answer).unwrap())
}

#[test]
fn every_example_is_what_happens() {
    let entries: Vec<Value> = serde_json::from_str(ToolFamily::Symbolic.text()).unwrap();
    for entry in entries {
        assert!(
            ToolFamily::Symbolic.registry().find_tool(entry["name"].as_str().unwrap()).is_some()
        );
        for example in entry["examples"].as_array().unwrap() {
            let wanted = match example.get("error") {
                Some(error) => Err(error.as_str().unwrap().to_owned()),
                None => Ok(example["output"].clone()),
            };
            assert_eq!(asked(&example["input"]), wanted, "{}", example["input"]);
        }
    }
}

#[test]
fn what_is_no_equation_is_refused_with_its_place() {
    for (equation, why) in [
        ("", "`equation`: at character 1: a number, a name or `(` was expected, not the end"),
        ("x + (2 = 0", "`equation`: at character 8: `)` was expected, not `=`"),
        ("x = 1 = 2", "`equation`: at character 7: there is one `=` too many"),
        ("sni(x) = 1", "`equation`: at character 1: `sni` is not a known function"),
        ("x < 2", "`equation`: at character 3: only equations are supported"),
        ("x**1000 = 1", "`equation`: at character 4: powers above 100 are too large"),
        ("x = oo", "`equation`: at character 5: `oo` is not a number"),
        ("__import__('os')", "`equation`: at character 12: `'` has no meaning in an equation"),
    ] {
        assert_eq!(asked(&json!({ "equation": equation })), Err(why.to_owned()), "{equation}");
    }
    let unknown = asked(&json!({ "equation": "x = 1", "variable": "y" }));
    assert_eq!(
        unknown,
        Err("`variable`: `y` does not occur in the equation; its names are x".to_owned())
    );
}

/// Each of these had a wrong answer: `x²` was parsed as a name.
#[test]
fn raised_digits_are_powers_and_a_product_without_a_sign_is_asked_about() {
    for (equation, solutions) in [
        ("x²=4", json!(["-2", "2"])),
        ("2x²+1=9", json!(["-2", "2"])),
        ("(x+1)² = 0", json!(["-1"])),
        ("x¹ = 7", json!(["7"])),
        ("y + 1 = 0", json!(["-1"])),
    ] {
        for variable in [None, Some(if equation.contains('y') { "y" } else { "x" })] {
            let args = json!({ "equation": equation, "variable": variable });
            assert_eq!(asked(&args), Ok(solutions.clone()), "{equation}");
        }
    }
    let cubed = asked(&json!({ "equation": "x³=8" })).unwrap();
    assert!(cubed.as_array().unwrap().len() == 3 && cubed[0] == "2", "{cubed}");
    let told = "`variable`: use `xy` if that is the unknown; write a product with `*`";
    assert_eq!(asked(&json!({ "equation": "xy=4" })), Err(told.to_owned()));
    assert_eq!(asked(&json!({ "equation": "xy=4", "variable": "xy" })), Ok(json!(["4"])));
    let large = asked(&json!({ "equation": "x¹²³⁴=1" })).unwrap_err();
    assert!(large.contains("powers above 100"), "{large}");
}

#[test]
fn names_are_the_callers_and_never_the_algebras() {
    let args = json!({ "equation": "gamma**2 = v0 * beta", "variable": "gamma" });
    let answer = asked(&args).unwrap().to_string();
    assert!(answer.contains("beta") && answer.contains("v0"), "{answer}");
    let whole = asked(&json!({ "equation": "sin(x) = n", "variable": "x", "general": true }));
    let whole = whole.unwrap().to_string();
    assert!(whole.contains("pi*k") || whole.contains("k*pi"), "{whole}");
}

/// Regression: `√` was rejected as `\u{221a}`, and roots lacked sympy's index and a number.
#[test]
fn roots_without_a_closed_form_have_sympys_index_and_a_number() {
    assert_eq!(asked(&json!({ "equation": "√x = 3" })), Ok(json!(["9"])));
    let found = asked(&json!({ "equation": "x**5 - x - 1 = 0" })).unwrap();
    let texts: Vec<&str> =
        found.as_array().unwrap().iter().map(|it| it.as_str().unwrap()).collect();
    let part = |at: usize| texts[at].split_once("  # ").unwrap();
    for at in 0..5 {
        assert!(
            part(at).0.starts_with("RootOf(") && part(at).0.ends_with(&format!(", {at})")),
            "{texts:?}"
        );
    }
    // Sympy's order: the real root first, then pairs by their real parts.
    let wanted = [
        "1.1673039782614187",
        "-0.7648844336005847 - 0.3524715460317263*I",
        "-0.7648844336005847 + 0.3524715460317263*I",
        "0.18123244446987538 - 1.0839541013177107*I",
        "0.18123244446987538 + 1.0839541013177107*I",
    ];
    for (at, wanted) in wanted.iter().enumerate() {
        let digits = |text: &str| -> String { text.chars().take(14).collect() };
        assert_eq!(digits(part(at).1), digits(wanted), "{texts:?}");
    }
    // Control: a closed form has no number beside it.
    assert_eq!(asked(&json!({ "equation": "x**2 = 2" })), Ok(json!(["-sqrt(2)", "sqrt(2)"])));
}

#[test]
fn identities_and_contradictions_are_told_apart() {
    assert_eq!(asked(&json!({ "equation": "x = x + 1" })), Ok(json!([])));
    let always = asked(&json!({ "equation": "(x + 1)**2 = x**2 + 2*x + 1" })).unwrap_err();
    assert!(always.contains("every value of x"), "{always}");
}

#[test]
fn assumptions_take_solutions_away() {
    let of = |assume: &str| asked(&json!({ "equation": "x**2 = 4", "assume": { "x": assume } }));
    assert_eq!(of("positive"), Ok(json!(["2"])));
    assert_eq!(of("negative"), Ok(json!(["-2"])));
    assert_eq!(of("complex"), Ok(json!(["-2", "2"])));
    assert_eq!(
        asked(&json!({ "equation": "x + 3 = 0", "assume": { "x": "positive" } })),
        Ok(json!([]))
    );
}

#[test]
fn text_is_read_as_python_reads_it() {
    let two = |text: &str| {
        let node = equation_parser::parse_expression(text).unwrap();
        crate::numeric_eval::evaluate_node(&node, &|name| (name == "x").then(|| 3.0.into()))
            .unwrap()
            .value
            .re
    };
    for (text, wanted) in [
        ("-x**2", -9.0),
        ("2**3**2", 512.0),
        ("2x", 6.0),
        ("1/2*x", 1.5),
        ("6/2*3", 9.0),
        ("x**-1", 1.0 / 3.0),
        ("2e1 + .5", 20.5),
        ("log(8, 2)", 3.0),
        ("np.sqrt(x + 1)", 2.0),
        ("√(x + 1)", 2.0),
        ("2√4", 4.0),
        ("√9**2", 9.0),
    ] {
        assert!((two(text) - wanted).abs() < 1e-12, "{text}: {}", two(text));
    }
}
