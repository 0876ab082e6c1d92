//! Canonical JSON (RFC 8785) of arguments and its digest, to which approvals are bound.
//!
//! Two texts of the same arguments give the same form. A number that a 64-bit float cannot
//! represent keeps its digits, so that different numbers stay different.

use std::collections::BTreeMap;

use serde_json::value::RawValue;
use sha2::{Digest as _, Sha256};
use tool::{Digest, Json};

/// Returns the SHA-256 of the canonical form of the arguments.
pub fn arguments_digest(args: &Json) -> Digest {
    Digest(Sha256::digest(to_canonical_json(args)).into())
}

/// Returns the canonical text: keys ordered by UTF-16 code units, no white space, shortest numbers,
/// fewest escapes.
pub fn to_canonical_json(args: &Json) -> String {
    let mut out = String::with_capacity(args.as_str().len());
    write_value(args.as_str(), &mut out);
    out
}

/// The text was validated, so its depth is bounded and every branch below finds its input.
fn write_value(text: &str, out: &mut String) {
    let text = text.trim();
    match text.as_bytes().first() {
        Some(b'{') => {
            let read: BTreeMap<String, &RawValue> = serde_json::from_str(text).unwrap_or_default();
            let mut members: Vec<_> = read.into_iter().collect();
            members.sort_by(|(a, _), (b, _)| a.encode_utf16().cmp(b.encode_utf16()));
            out.push('{');
            for (at, (key, value)) in members.into_iter().enumerate() {
                if at > 0 {
                    out.push(',');
                }
                write_string(&key, out);
                out.push(':');
                write_value(value.get(), out);
            }
            out.push('}');
        }
        Some(b'[') => {
            let elements: Vec<&RawValue> = serde_json::from_str(text).unwrap_or_default();
            out.push('[');
            for (at, element) in elements.into_iter().enumerate() {
                if at > 0 {
                    out.push(',');
                }
                write_value(element.get(), out);
            }
            out.push(']');
        }
        Some(b'"') => write_string(&serde_json::from_str::<String>(text).unwrap_or_default(), out),
        Some(b'-' | b'0'..=b'9') => out.push_str(&format_number(text)),
        _ => out.push_str(text),
    }
}

/// Uses serde's escapes, which are those of the RFC.
fn write_string(text: &str, out: &mut String) {
    out.push_str(&serde_json::to_string(text).unwrap_or_default());
}

fn format_number(text: &str) -> String {
    if !text.contains(['.', 'e', 'E']) && !is_exact_integer(text) {
        return text.to_owned();
    }
    match text.parse::<f64>() {
        Ok(number) if number.is_finite() => format_ecmascript(number),
        _ => text.to_owned(),
    }
}

/// Returns true if a 64-bit float represents this integer exactly.
fn is_exact_integer(text: &str) -> bool {
    const LARGEST: i128 = 1 << 53;
    text.parse::<i128>().is_ok_and(|number| (-LARGEST..=LARGEST).contains(&number))
}

/// Formats a number as ECMAScript's `ExactNumber::toString` does.
fn format_ecmascript(number: f64) -> String {
    if number == 0.0 {
        return "0".to_owned();
    }
    // The shortest digits that read back as the same number, as `d.ddde±x`.
    let shortest = format!("{:e}", number.abs());
    let (digits, exponent) = shortest.split_once('e').unwrap_or((&shortest, "0"));
    let digits: String = digits.chars().filter(char::is_ascii_digit).collect();
    let point = exponent.parse::<i32>().unwrap_or_default() + 1;
    let sign = if number < 0.0 { "-" } else { "" };
    format!("{sign}{}", place_decimal_point(&digits, point))
}

/// Places the decimal point after the first `point` digits.
fn place_decimal_point(digits: &str, point: i32) -> String {
    let count = i32::try_from(digits.len()).unwrap_or(i32::MAX);
    let zeros = |many: i32| "0".repeat(usize::try_from(many).unwrap_or_default());
    let split = |at: i32| digits.split_at_checked(usize::try_from(at).unwrap_or_default());
    match (point, split(point)) {
        (1..=21, _) if count <= point => format!("{digits}{}", zeros(point - count)),
        (1..=21, Some((whole, rest))) => format!("{whole}.{rest}"),
        (-5..=0, _) => format!("0.{}{digits}", zeros(-point)),
        _ => {
            let (first, rest) = split(1).unwrap_or((digits, ""));
            let dot = if rest.is_empty() { "" } else { "." };
            format!("{first}{dot}{rest}e{:+}", point - 1)
        }
    }
}

#[cfg(test)]
mod tests {
    use tool::{Json, JsonLimits};

    use super::{arguments_digest, to_canonical_json};

    fn of(text: &str) -> String {
        to_canonical_json(&Json::parse(text.to_owned(), JsonLimits::DOCUMENT).unwrap())
    }

    /// The RFC's own example, section 3.2.2 and 3.2.3.
    #[test]
    fn the_example_of_the_rfc() {
        let text =
            "{\"numbers\": [333333333.33333329, 1E30, 4.50, 2e-3, 0.000000000000000000000000001],
            \"string\": \"\\u20ac$\\u000F\\u000aA'\\u0042\\u0022\\u005c\\\\\\\"\\/\",
            \"literals\": [null, true, false]}";
        let expected = "{\"literals\":[null,true,false],\"numbers\":[333333333.3333333,1e+30,4.5,0.002,1e-27],\"string\":\"€$\\u000f\\nA'B\\\"\\\\\\\\\\\"/\"}";
        assert_eq!(of(text), expected);
        let keys = "{\"\\u20ac\":1,\"\\r\":2,\"\\ufb33\":3,\"1\":4,\"\\ud83d\\ude00\":5,\"\\u0080\":6,\"\\u00f6\":7}";
        let order: Vec<_> = of(keys).chars().filter(char::is_ascii_digit).collect();
        // The key `1` itself is the second digit that is seen.
        assert_eq!(order.iter().collect::<String>(), "21467153");
    }

    #[test]
    fn numbers_as_ecmascript_writes_them() {
        for (text, expected) in [
            ("0", "0"),
            ("-0", "0"),
            ("-0.0", "0"),
            ("1.0", "1"),
            ("1e0", "1"),
            ("100", "100"),
            ("1e21", "1e+21"),
            ("1e20", "100000000000000000000"),
            ("123456.789", "123456.789"),
            ("0.000001", "0.000001"),
            ("0.0000001", "1e-7"),
            ("1.5e-9", "1.5e-9"),
            ("-12.50", "-12.5"),
            ("5e-324", "5e-324"),
            ("1.7976931348623157e308", "1.7976931348623157e+308"),
            ("9007199254740992", "9007199254740992"),
            ("9007199254740993", "9007199254740993"),
            ("123456789012345678901", "123456789012345678901"),
        ] {
            assert_eq!(of(&format!("[{text}]")), format!("[{expected}]"), "{text}");
        }
    }

    #[test]
    fn the_same_arguments_have_one_digest_and_others_another() {
        let digest = |text: &str| {
            arguments_digest(&Json::parse(text.to_owned(), JsonLimits::DOCUMENT).unwrap())
        };
        let one = digest(r#"{"a":1,"b":["\u0041",2.0]}"#);
        for same in [r#"{"b":["A",2],"a":1.0}"#, "{ \"a\" : 1e0 , \"b\":[\"A\", 2] }"] {
            assert_eq!(digest(same), one, "{same}");
        }
        let others = [
            r#"{"a":1,"b":["A","2"]}"#,
            r#"{"a":1,"b":["A",2],"c":null}"#,
            r#"{"a":1,"b":[2,"A"]}"#,
        ];
        for other in others {
            assert_ne!(digest(other), one, "{other}");
        }
        assert_ne!(digest(r#"{"n":9007199254740993}"#), digest(r#"{"n":9007199254740992}"#));
    }
}
