//! Scalars of one line whose value is beyond doubt.

use std::fmt::Write as _;

use json::quote;
use serde_json::Number;

/// Words that are something else than a text in one spelling or another. `yes`, `no` and `on` are texts.
const SPECIAL: [&str; 6] = ["null", "true", "false", "nan", "inf", "infinity"];
/// The most digits of a number that is read here.
const DIGITS: usize = 15;

/// Whether this word, in any case, may be something else than a text.
pub(super) fn is_special(word: &str) -> bool {
    let longest = 8;
    word.len() <= longest && SPECIAL.iter().any(|special| word.eq_ignore_ascii_case(special))
}

/// Writes the scalar as JSON; nothing where it is not surely known what it is.
pub(super) fn write(text: &str, out: &mut String) -> Option<()> {
    let first = text.chars().next()?;
    if let Some(said) = quoted(text, first) {
        quote(out, said?);
        return Some(());
    }
    let ends = text.ends_with(':') || text.contains(": ") || text.contains(" #");
    if ends {
        return None;
    }
    word(text, first, out)
}

/// What stands in quotes of either kind; `Some(None)` where that is not plain.
#[expect(clippy::option_option, reason = "not surely read, or read: and then there may be none")]
pub(super) fn quoted(text: &str, first: char) -> Option<Option<&str>> {
    if !matches!(first, '"' | '\'') {
        return None;
    }
    let inner = text.get(1..).and_then(|rest| rest.strip_suffix(first));
    Some(inner.filter(|inner| !inner.contains([first, '\\'])))
}

/// A scalar without quotes.
pub(super) fn word(text: &str, first: char, out: &mut String) -> Option<()> {
    match text {
        "true" | "false" | "null" => out.push_str(text),
        _ if first.is_ascii_digit() || first == '-' => number(text, out)?,
        _ if is_special(text) || !(first.is_alphabetic() || matches!(first, '_' | '/' | '(')) => {
            return None;
        }
        _ => quote(out, text),
    }
    Some(())
}

fn number(text: &str, out: &mut String) -> Option<()> {
    let bare = text.strip_prefix('-').unwrap_or(text);
    let (whole, part) = match bare.split_once('.') {
        Some((whole, part)) => (whole, Some(part)),
        None => (bare, None),
    };
    let digits = |digits: &str| !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit());
    let leads = whole.len() > 1 && whole.starts_with('0');
    if bare.len() > DIGITS || leads || !digits(whole) || !part.is_none_or(digits) {
        return None;
    }
    match part {
        // It differs from zero only as floating point.
        None if text == "-0" => return None,
        None => out.push_str(text),
        Some(_) => write!(out, "{}", Number::from_f64(text.parse().ok()?)?).ok()?,
    }
    Some(())
}
