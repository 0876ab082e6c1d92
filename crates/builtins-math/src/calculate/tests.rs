//! Tests of expression values, by cases that once differed from Python.

use proptest::prelude::*;
use serde_json::json;

use super::value_of;
use crate::tool_execution::tests::{endless, fault, outcome};

/// Returns the answer as text, with all its digits.
fn value(text: &str) -> String {
    value_of(text).unwrap_or_else(|error| panic!("{text}: {error}")).json().as_str().to_owned()
}

fn error(text: &str) -> String {
    match value_of(text) {
        Err(error) => error.to_string(),
        Ok(value) => panic!("{text}: {}", value.json().as_str()),
    }
}

fn all(cases: &[(&str, &str)]) {
    for (text, expected) in cases {
        assert_eq!(value(text), *expected, "{text}");
    }
}

#[test]
fn a_half_is_rounded_to_the_even_neighbour() {
    all(&[
        ("round(2.5)", "2"),
        ("round(0.5)", "0"),
        ("round(-2.5)", "-2"),
        ("round(3.5)", "4"),
        ("np.round(2.5)", "2.0"),
        ("np.rint([0.5, 1.5, -2.5])", "[0.0,2.0,-2.0]"),
        ("round(2.675, 2)", "2.67"),
        ("round(0.125, 2)", "0.12"),
        ("round(1250.0, -2)", "1200.0"),
        ("round(1250.1, -2)", "1300.0"),
        ("round(-1350.0, -2)", "-1400.0"),
        ("round(25, -1)", "20"),
        ("round(35, -1)", "40"),
        ("round(2**70 + 5, -1)", "1180591620717411303430"),
    ]);
    // Control: Rust rounds half away from zero.
    assert!((2.5_f64.round() - 3.0).abs() < f64::EPSILON);
}

#[test]
fn whole_numbers_are_exact_at_any_size() {
    all(&[
        ("2**64+1", "18446744073709551617"),
        ("2**100", "1267650600228229401496703205376"),
        ("10**23", "100000000000000000000000"),
        ("factorial(25)", "15511210043330985984000000"),
        ("math.prod([2**40, 2**40])", "1208925819614629174706176"),
        ("-(2**200) // 3", "-535646014752996758513987364113720867507400997927597611767126"),
        ("sum([2**70, 1])", "1180591620717411303425"),
        ("(2**70 + 1) % 2**70", "1"),
        ("2**70 / 2**69", "2.0"),
        ("2**53 + 1 == 2.0**53", "false"),
        ("comb(60, 30)", "118264581564861424"),
        ("math.isqrt(10**40)", "100000000000000000000"),
        ("0xffff_ffff_ffff_ffff_ff", "4722366482869645213695"),
    ]);
    // Through the tool: a JSON tree would round the number.
    let exact = outcome("calculate", &json!({ "expression": "2**64+1" }), &endless()).unwrap();
    assert_eq!(exact.exact.unwrap().as_str(), "18446744073709551617");
    // JSON readers have no number above the largest float, so all digits are returned as text.
    assert_eq!(value("10**400"), format!("\"1{}\"", "0".repeat(400)));
}

#[test]
fn operators_are_those_of_python() {
    all(&[
        ("7 // 2", "3"),
        ("-7 // 2", "-4"),
        ("7 // -2", "-4"),
        ("-7 % 3", "2"),
        ("7 % -3", "-2"),
        ("-7.5 // 2", "-4.0"),
        ("5.5 % -2", "-0.5"),
        ("np.mod(-7, 3)", "2"),
        ("7 / 2", "3.5"),
        ("6 / 2", "3.0"),
        ("2 ** -1", "0.5"),
        ("-2 ** 2", "-4"),
        ("2 ** 3 ** 2", "512"),
        ("1 < 2 < 3", "true"),
        ("1 < 3 < 2", "false"),
        ("1 if 2 > 1 else 1 / 0", "1"),
        ("0 or 5", "5"),
        ("3 and 0", "0"),
        ("not 1", "false"),
        ("True + 1", "2"),
        ("sum([True, False, True])", "2"),
        ("None", "null"),
        ("2 in [1, 2]", "true"),
        ("5 & 3 | 8", "9"),
        ("1 << 70", "1180591620717411303424"),
        ("~5", "-6"),
        ("divmod(-7, 2)", "[-4,1]"),
        ("pow(3, 200, 1000)", "1"),
        ("[1, 2] + [3]", "[1,2,3]"),
        ("[0] * 3", "[0,0,0]"),
        ("[1, 2, 3][-1] + [4, 5, 6][::-1][0]", "9"),
        ("sum(x ** 2 for x in range(10) if x % 2)", "165"),
        ("[a * b for a, b in zip([1, 2], [3, 4])]", "[3,8]"),
    ]);
}

#[test]
fn functions_of_numpy_and_math_are_there() {
    all(&[
        ("np.median([3, 1, 2, 4])", "2.5"),
        ("np.var([1, 2, 3, 4])", "1.25"),
        ("np.std([2, 4, 4, 4, 5, 5, 7, 9])", "2.0"),
        ("np.std([1, 2, 3, 4], ddof=1)", "1.2909944487358056"),
        ("np.clip([-1, 5, 11], 0, 10)", "[0,5,10]"),
        ("np.dot([1, 2, 3], [4, 5, 6])", "32"),
        ("np.linspace(0, 1, 5)", "[0.0,0.25,0.5,0.75,1.0]"),
        ("np.arange(0, 1, 0.25)", "[0.0,0.25,0.5,0.75]"),
        ("np.array([1, 2, 3]) * 2", "[2,4,6]"),
        ("np.array([1, 2, 3]).mean()", "2.0"),
        ("np.deg2rad(180) == np.pi", "true"),
        ("np.rad2deg(np.pi)", "180.0"),
        ("np.cumsum([1, 2, 3])", "[1,3,6]"),
        ("np.mean([0.1] * 10)", "0.1"),
        ("np.percentile([1, 2, 3, 4], 25)", "1.75"),
        ("np.where(np.array([1, 5]) > 2, 10, 20)", "[20,10]"),
        ("np.array([3, 1, 2])[np.array([3, 1, 2]) > 1]", "[3,2]"),
        ("gcd(84, 30) + math.lcm(4, 6)", "18"),
        ("math.comb(5, 2) + math.perm(5, 2)", "30"),
        ("hypot(3, 4) + atan2(0, 1)", "5.0"),
        ("isclose(0.1 + 0.2, 0.3)", "true"),
        ("math.floor(-1.5) + math.ceil(1.2) + math.trunc(-2.7)", "-2"),
        ("max(inf, 1)", "\"inf\""),
        ("nan != nan", "true"),
        ("float('-inf')", "\"-inf\""),
        ("1e308 * 10", "\"inf\""),
        ("degrees(pi) + radians(0) + log(8, 2)", "183.0"),
        ("sqrt([4, 9])", "[2.0,3.0]"),
        ("sum([0.1] * 10)", "1.0"),
        ("math.fsum([1e16, 1, -1e16])", "1.0"),
        ("round(np.float64(2.5))", "2"),
        ("np.sqrt(16)", "4.0"),
    ]);
}

#[test]
fn errors_name_the_place_and_what_was_meant() {
    for (text, expected) in [
        ("1 / 0", "division by zero at position 3"),
        ("5 % (2 - 2)", "division by zero at position 3"),
        ("np.array([1]) / 0", "division by zero at position 15"),
        ("1 + np.medain([1])", "unknown name `np.medain`; did you mean `median`? at position 5"),
        ("math.median([1])", "unknown name `math.median`; did you mean `np.median`? at position 1"),
        ("1 + p", "unknown name `p`; did you mean `pi`? at position 5"),
        ("sqrt", "`sqrt` is a function; call it with its values in parentheses at position 1"),
        (
            "1 + sqrt(-1)",
            "the result is not a real number: a root of a negative number at position \
            5",
        ),
        ("np.log(0)", "the result is too large at position 1"),
        ("sum(1, 2, 3)", "`sum(iterable, start)` takes its values, found 3 at position 1"),
        ("mean(1, 2, 3)", "`mean(a, axis)` takes its values, found 3 at position 1"),
        (
            "round(2.5, digits=1)",
            "`round` has no parameter `digits`; it has number, ndigits at position 1",
        ),
        (
            "np.sum([[1, 2], [3]])",
            "arrays have one dimension here, found a list in a list; for matrices use matrix_op at position 1",
        ),
        (
            "np.prod([2**40, 2**40])",
            "the result exceeds numpy's 64-bit integers; use Python's functions, such as sum or \
             math.prod at position 1",
        ),
        ("3j", "calculate has no complex numbers at position 1"),
    ] {
        assert_eq!(error(text), expected, "{text}");
    }
    for (text, part) in [
        ("2 ^ 3", "`^` is not a power in Python; write `**`"),
        ("(-8) ** (1/3)", "complex"),
        ("os.system(1)", "unknown name `os`"),
        ("integrate(1)", "there are abs, all, any, bool, divmod"),
        ("math.integrate(1)", "there are acos, acosh"),
        ("zzzzzz", "the constants are pi, e, tau"),
        ("[1, 2] * 1.5", "write np.array([…])"),
        ("1 +", "expected an expression at position"),
        ("x = 1", "at position 3"),
        ("lambda: 1", "use python_eval for more at position 1"),
        ("np.array([1, 2]) if np.array([1, 2]) else 0", "np.any"),
    ] {
        assert!(error(text).contains(part), "{text}: {}", error(text));
    }
}

#[test]
fn no_expression_takes_more_than_its_share() {
    for text in [
        "2**(10**10)",
        "10**10**10",
        "factorial(10**9)",
        "factorial(100000)",
        "comb(10**9, 5 * 10**8)",
        "perm(10**9)",
        "1 << 10**12",
        "9**9**9 % 7",
        "range(10**12)",
        "[0] * 10**12",
        "np.arange(1e18)",
        "np.linspace(0, 1, 10**9)",
        "[x for x in range(100000) for y in range(100000)]",
        "sum(x * y for x in range(100000) for y in range(100000))",
        "sum(sum(x) for x in [range(100000)] for i in range(100000))",
        "sum([2**14000 * 2**14000 for i in range(100000)])",
        "[2**14000] * 100000",
        "[1 << 14000 for i in range(100000)]",
        "math.lcm(*range(1, 100000))",
        "[[0] * 100000 for i in range(100000)]",
        "[pow(7**5000, 11**4000, 13**3800) for i in range(100000)]",
    ] {
        let said = error(text);
        assert!(
            ["digits", "the maximum is", "too expensive"].iter().any(|word| said.contains(word)),
            "{text}: {said}"
        );
    }
    // Control: large values that fit are computed.
    assert_eq!(value("sum(x**2 for x in range(100000))"), "333328333350000");
    assert_eq!(value("sum(comb(1000, k) for k in range(1001)) == 2**1000"), "true");
    let waves = "np.sin(np.arange(100000))**2 + np.cos(np.arange(100000))**2";
    assert_eq!(value(&format!("round(np.sum({waves}), 3)")), "100000.0");
    assert_eq!(value("len(range(100000)) + 0 * 3**9000"), "100000");
    assert_eq!(value("factorial(1500) // factorial(1499)"), "1500");
}

#[test]
fn length_and_depth_are_bounded() {
    let long = format!("1{}", "+1".repeat(1_000));
    let said = fault("calculate", &json!({ "expression": long }));
    assert_eq!(said, "the expression has 2001 characters; the maximum is 2000 at position 2001");
    for nest in ["(", "-", "2**", "abs(", "1+(", "not ", "[", "1 if 1 else "] {
        let text = nest.repeat(2_000 / nest.len());
        assert!(
            error(&text).starts_with("nested deeper than 64 levels"),
            "{nest}: {}",
            error(&text)
        );
    }
    assert!(error(&format!("x{}", "[0]".repeat(600))).starts_with("nested deeper"));
    // Control: a long flat expression is no deeper than a short one.
    assert_eq!(value(&("1+".repeat(999) + "1")), "1000");
}

proptest! {
    #[test]
    fn any_text_has_an_answer_or_an_error_with_a_place(text in "[-+*/%^(),.0-9e a-z\\[\\]<=]{0,40}|.{0,20}") {
        match value_of(&text) {
            Ok(value) => {
                let answer = value.json();
                prop_assert!(serde_json::from_str::<serde_json::Value>(answer.as_str()).is_ok());
            }
            Err(error) => prop_assert!((1..=text.chars().count() + 1).contains(&error.position)),
        }
    }
}
