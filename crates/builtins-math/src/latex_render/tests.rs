use proptest::prelude::*;
use serde_json::json;

use crate::tool_execution::tests::{answer, fault};

fn shown(latex: &str, format: &str) -> String {
    let found = answer("render_math", &json!({ "latex": latex, "format": format }));
    assert_eq!(found["original"], latex);
    found["rendered"].as_str().unwrap().to_owned()
}

#[test]
fn formulas_in_unicode() {
    for (latex, expected) in [
        ("x^2 + y_1 = z^{10}", "x² + y₁ = z¹⁰"),
        (r"\frac{a}{b}", " a\n───\n b"),
        (r"\frac{a+1}{b}", " a + 1\n───────\n   b"),
        (r"e^{i\pi} = -1", " iπ\ne   = −1"),
        (r"\sqrt{x} + \sqrt[3]{x+1}", "√x + ∛(x + 1)"),
        (r"\alpha \leq \beta", "α ≤ β"),
        (r"\sin^2 x + \cos(y)", "sin²x + cos(y)"),
        (r"$$a \cdot b$$", "a ⋅ b"),
        (r"\mathbb{R}^n", "ℝⁿ"),
        (r"f'(x)", "f′(x)"),
        (r"\lim_{x \to 0} f", " lim  f\nx → 0"),
        (r"\begin{pmatrix} 1 & 2 \\ 3 & 40 \end{pmatrix}", "⎛1  2 ⎞\n⎝3  40⎠"),
        (r"\left( \frac{1}{2} \right)^2", " 2"),
    ] {
        let found = shown(latex, "unicode");
        if latex.ends_with(")^2") {
            assert_eq!(found.lines().next().map(str::trim), Some("2"), "{found}");
            assert!(found.contains("⎛ 1 ⎞\n⎜───⎟\n⎝ 2 ⎠"), "{found}");
            continue;
        }
        assert_eq!(found, expected, "{latex}\n{found}");
    }
}

#[test]
fn formulas_in_ascii() {
    for (latex, expected) in [
        ("x^2 + y_1 = z^{10}", "x^2 + y_1 = z^(10)"),
        (r"\frac{\alpha}{b}", " alpha\n-------\n   b"),
        (r"\sqrt{x} \neq \infty", "sqrt(x) != oo"),
        (r"\int_0^1 x", "  1\n /\n|  x\n/\n 0"),
    ] {
        let found = shown(latex, "ascii");
        assert!(found.is_ascii(), "{found}");
        if latex.starts_with(r"\int") {
            assert!(found.contains('|') && found.contains('0') && found.contains('x'), "{found}");
            continue;
        }
        assert_eq!(found, expected, "{latex}\n{found}");
    }
}

#[test]
fn what_is_not_known_is_named_and_never_left_out() {
    for (latex, expected) in [
        (r"a + \foo{b}", r"`latex`: `\foo` is not known at position 5"),
        (r"\frac{a}{b", "`latex`: expected `}` for what opens at position 9 at position 11"),
        ("x^1^2", "`latex`: two scripts on one symbol: put braces around the first at position 4"),
        ("a & b", "`latex`: `&` outside of a matrix at position 3"),
        (r"\left( a", r"`latex`: `\left` without `\right` at position 1"),
        (r"\begin{table} a \end{table}", "`latex`: unknown environment `table` at position 1"),
        (r"\left x a \right)", "`latex`: `x` is not a bracket at position 7"),
        ("a }", "`latex`: unexpected `}` at position 3"),
        ("  ", "`latex`: there is nothing to render"),
    ] {
        assert_eq!(fault("render_math", &json!({ "latex": latex })), expected);
    }
    let deep = format!("{}x{}", "{".repeat(900), "}".repeat(900));
    assert!(
        fault("render_math", &json!({ "latex": deep })).contains("nested deeper than 40 levels")
    );
    let long = "x".repeat(2_001);
    assert!(fault("render_math", &json!({ "latex": long })).contains("2001 characters"));
    let error = fault("render_math", &json!({ "latex": "é", "format": "ascii" }));
    assert!(error.contains("`é` is not ASCII"), "{error}");
}

proptest! {
    #[test]
    fn any_text_is_shown_or_refused(
        latex in r"(\\frac|\\sqrt|\\sum|\\left|\\right|\\begin\{matrix\}|\\end\{matrix\}|\\alpha|[-{}\[\]()^_&xyz0-9 +=,']|\\\\){0,40}",
        ascii in any::<bool>(),
    ) {
        let format = if ascii { "ascii" } else { "unicode" };
        let args = json!({ "latex": latex, "format": format });
        if let Ok(found) = crate::tool_execution::tests::outcome("render_math", &args, &crate::tool_execution::tests::endless()) {
            let text = found.value["rendered"].as_str().unwrap();
            prop_assert!(!ascii || text.is_ascii());
        }
    }
}

#[test]
fn small_letters_are_those_they_stand_for() {
    let small = |text: &str, above| super::latex_symbols::inline_script(text, above);
    assert_eq!(small("aehijklmnoprstuvx", false).as_deref(), Some("ₐₑₕᵢⱼₖₗₘₙₒₚᵣₛₜᵤᵥₓ"));
    assert_eq!(small("abcwyz", true).as_deref(), Some("ᵃᵇᶜʷʸᶻ"));
    // If one character has no script form, none is used.
    for lacking in ["b", "w", "y", "ab"] {
        assert_eq!(small(lacking, false), None, "{lacking}");
    }
}
