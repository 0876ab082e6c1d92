use proptest::prelude::*;

use super::{Expression, MAX_LENGTH};

fn value(text: &str) -> String {
    Expression(text)
        .evaluate_exact()
        .map_or_else(|e| panic!("{text}: {e}"), |n| n.to_json().as_str().to_owned())
}

fn fault(text: &str) -> String {
    Expression(text).evaluate_exact().expect_err(text).to_string()
}

#[test]
fn precedence_is_that_of_mathjs() {
    for (text, expected) in [
        ("1 + 2 * 3", "7"),
        ("(1 + 2) * 3", "9"),
        ("-2^2", "-4"),
        ("(-2)^2", "4"),
        ("2^3^2", "512"),
        ("2^-1", "0.5"),
        ("2^-1*4", "2"),
        ("2*-3", "-6"),
        ("--3", "3"),
        ("+3", "3"),
        ("10 - 4 - 3", "3"),
        ("100 / 10 / 5", "2"),
        ("7 % 3", "1"),
        ("-7 % 3", "2"),
        ("7 % -3", "-2"),
        ("5.5 % 2", "1.5"),
        ("2 * 7 % 4", "2"),
        ("1e17 % 7.5", "2.5"),
    ] {
        assert_eq!(value(text), expected, "{text}");
    }
}

#[test]
fn whole_numbers_are_exact_and_have_no_point() {
    for (text, expected) in [
        ("123456789 * 987654321", "121932631112635269"),
        ("2^100", "1267650600228229401496703205376"),
        ("9007199254740993 + 0", "9007199254740993"),
        ("floor(9007199254740993) - ceil(9007199254740992)", "1"),
        ("6 / 3", "2"),
        ("7 / 2", "3.5"),
        ("0.5 * 4", "2"),
        ("sqrt(16)", "4"),
        ("-0.0", "0"),
        ("1e3", "1000"),
        ("1e300", "1e+300"),
    ] {
        assert_eq!(value(text), expected, "{text}");
    }
}

/// Control: the `round` of Rust rounds half away from zero.
#[test]
fn rounding_away_from_zero_would_have_answered_three() {
    assert!((2.5_f64.round() - 3.0).abs() < f64::EPSILON);
}

#[test]
fn every_name_that_is_suggested_is_known() {
    for name in crate::math::function_table::NAMES {
        let known = crate::math::function_table::ExpressionFunction::by_name(name).is_some();
        assert!(known || crate::math::function_table::constant_by_name(name).is_some(), "{name}");
    }
}

/// Positive control: floating point alone computes a wrong product.
#[test]
#[expect(clippy::float_cmp, reason = "the very point")]
fn floating_point_would_have_lost_a_digit() {
    assert_eq!(123_456_789_f64 * 987_654_321_f64, 121_932_631_112_635_260_f64);
}

#[test]
fn functions_and_constants() {
    for (text, expected) in [
        ("max(1, 2.5, -3)", "2.5"),
        ("min(4)", "4"),
        ("abs(-3)", "3"),
        ("floor(-1.5) + ceil(1.2)", "0"),
        ("round(2.5) + round(-3.5)", "-2"),
        ("round(0.5)", "0"),
        ("np.round(2.5)", "2"),
        ("round(2.675, 2)", "2.67"),
        ("round(0.125, 2)", "0.12"),
        ("round(pi, 4)", "3.1416"),
        ("log(e)", "1"),
        ("log(8, 2) + log10(1000) + log2(4)", "8"),
        ("exp(0) + sin(0) + cos(0) + tan(0)", "2"),
        ("pow(2, 10)", "1024"),
        ("cbrt(27)", "3"),
        ("atan(1) * 4 - pi", "0"),
        (".5 + 5.", "5.5"),
        ("2e3 + 1E-1", "2000.1"),
    ] {
        assert_eq!(value(text), expected, "{text}");
    }
}

#[test]
fn python_s_way_of_writing_is_understood() {
    for (text, expected) in [
        ("2 ** 10", "1024"),
        ("-2 ** 2", "-4"),
        ("2 ** 3 ** 2", "512"),
        ("np.sqrt(16) + math.pi - numpy.pi", "4"),
        ("1 < 2", "1"),
        ("2 + 2 == 2 * 2", "1"),
        ("3 != 3", "0"),
        ("(1 >= 1) + (1 <= 0) + (2 > 1)", "2"),
        ("sum([1, 2, 3]) + prod(2, 3)", "12"),
        ("mean([1, 2, 3, 4])", "2.5"),
        ("std([2, 4, 4, 4, 5, 5, 7, 9])", "2"),
        ("max([3, 9007199254740993])", "9007199254740993"),
        ("factorial(20)", "2432902008176640000"),
        ("where(1 > 2, 10, 20)", "20"),
        ("degrees(pi) + sign(-3) + hypot(3, 4)", "184"),
        ("trunc(-2.7)", "-2"),
    ] {
        assert_eq!(value(text), expected, "{text}");
    }
    for (text, expected) in [
        ("0 < 1 < 2", "comparisons cannot be chained; multiply them instead at position 7"),
        ("factorial(-1)", "`factorial` requires a whole number from 0 to 170 at position 1"),
        ("1 = 2", "expected an operator, found `=` at position 3"),
        ("os.system(1)", "unknown name `os`; did you mean `cos`? at position 1"),
    ] {
        assert_eq!(fault(text), expected, "{text}");
    }
}

#[test]
fn a_program_is_evaluated_for_many_values() {
    let slot = |name: &str| match name {
        "t" => Some(0),
        "y0" => Some(1),
        "y1" => Some(2),
        _ => None,
    };
    let program = Expression("t + 10 * y[0] - y1 ** 2").compile(slot).unwrap();
    let mut stack = Vec::new();
    assert_eq!(program.slot_count(), 3);
    for (values, expected) in [([1.0, 2.0, 3.0], 12.0), ([0.0, 0.0, 0.5], -0.25)] {
        assert!((program.evaluate_f64(&values, &mut stack) - expected).abs() < 1e-15);
    }
    assert!(program.evaluate_f64(&[1.0], &mut stack).is_nan(), "a variable without a value");
    assert!(program.evaluate_exact().is_err());
    // An invalid result is NaN here, not an error: the caller decides.
    let program = Expression("sqrt(t)").compile(slot).unwrap();
    assert!(program.evaluate_f64(&[-1.0], &mut stack).is_nan());
    let fault = Expression("t + z").compile(slot).unwrap_err().to_string();
    assert_eq!(fault, "unknown name `z` at position 5");
}

#[test]
fn errors_name_the_position() {
    for (text, expected) in [
        ("1 +", "expected a number, found the end at position 4"),
        ("1 + )", "expected a number, found `)` at position 5"),
        ("(1 + 2", "expected `)`, found the end at position 7"),
        ("1 2", "expected an operator, found `2` at position 3"),
        ("2e", "expected an operator, found `e` at position 2"),
        ("é + x", "unknown name `é` at position 1"),
        ("1 + foo(2)", "unknown name `foo` at position 5"),
        ("1 + sqr(2)", "unknown name `sqr`; did you mean `sqrt`? at position 5"),
        ("1 + x", "unknown name `x` at position 5"),
        ("sqrt(1, 2)", "`sqrt` takes one argument, found 2 at position 1"),
        ("max()", "`max` takes at least one argument, found 0 at position 1"),
        ("round(1, 16)", "`round` takes 0 to 15 places at position 1"),
        ("1 / (2 - 2)", "division by zero at position 3"),
        ("5 % 0", "division by zero at position 3"),
        ("0 ^ -1", "division by zero at position 3"),
        ("1 + sqrt(-1)", "the result is not a real number at position 5"),
        ("(-8) ^ 0.5", "the result is not a real number at position 6"),
        ("10 ^ 400", "the result is too large at position 4"),
        ("1e999", "the result is too large at position 1"),
        (".", "`.` is not a number at position 1"),
        ("1 $ 2", "expected an operator, found `$` at position 3"),
    ] {
        assert_eq!(fault(text), expected, "{text}");
    }
}

#[test]
fn length_and_depth_are_bounded() {
    let long = "1+".repeat(1_000) + "1";
    assert_eq!(
        fault(&long),
        "the expression has 2001 characters; the maximum is 2000 at position 2001"
    );
    for nest in ["(", "-", "2^", "abs(", "1+("] {
        let text: String = nest.repeat(MAX_LENGTH / nest.len());
        assert!(fault(&text).starts_with("nested deeper than 64 levels"), "{nest}");
    }
    // A long flat expression is no deeper than a short one.
    assert_eq!(value(&("1+".repeat(999) + "1")), "1000");
}

/// Generates an expression of integers, with its text and value.
fn tree() -> impl Strategy<Value = (String, Option<i128>)> {
    let leaf = (-99_i128..100).prop_map(|n| (format!("({n})"), Some(n)));
    leaf.prop_recursive(4, 24, 2, |inner| {
        (inner.clone(), inner, prop_oneof![Just('+'), Just('-'), Just('*')]).prop_map(
            |((left, a), (right, b), sign)| {
                let value = a.zip(b).and_then(|(a, b)| match sign {
                    '+' => a.checked_add(b),
                    '-' => a.checked_sub(b),
                    _ => a.checked_mul(b),
                });
                (format!("({left} {sign} {right})"), value)
            },
        )
    })
}

proptest! {
    #[test]
    fn any_text_gives_a_finite_number_or_an_error(text in "[-+*/%^(),.0-9e a-z]{0,40}|.{0,20}") {
        match Expression(&text).evaluate_exact() {
            Ok(number) => prop_assert!(number.to_f64().is_finite()),
            Err(error) => prop_assert!((1..=text.chars().count() + 1).contains(&error.position)),
        }
    }

    #[test]
    fn both_ways_of_computing_agree(text in "[-+*/%^<(),.0-9e a-z]{0,40}") {
        let Ok(program) = Expression(&text).compile(|_| None) else { return Ok(()) };
        if let Ok(exact) = program.evaluate_exact() {
            let (exact, fast) = (exact.to_f64(), program.evaluate_f64(&[], &mut Vec::new()));
            prop_assert!((exact - fast).abs() <= 1e-9 * exact.abs().max(1.0), "{exact} {fast}");
        }
    }

    #[test]
    fn whole_trees_come_out_exact((text, value) in tree()) {
        if let Some(value) = value {
            prop_assert_eq!(Expression(&text).evaluate_exact().unwrap().to_json().to_value().to_string(), value.to_string());
        }
    }
}
