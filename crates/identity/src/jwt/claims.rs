//! Claims of a token, parsed without trust.

use serde_json::{Map, Value};
use tool::Wall;
use tool::identifier::check_foreign_name;

use super::LEEWAY;
use crate::error::Reason;

/// Claims of a token by name.
pub(super) type Claims = Map<String, Value>;

/// Maximum length of a subject in bytes.
const SUBJECT: usize = 200;
/// Maximum depth of a claim path.
const STEPS: usize = 8;

/// Checks the validity period and returns the expiry time.
pub(super) fn in_time(claims: &Claims, now: Wall, longest: u64) -> Result<Wall, Reason> {
    let read = |name: &str| match claims.get(name) {
        None => Ok(None),
        Some(value) => millis(value).map(Some).ok_or(Reason::Malformed),
    };
    let (exp, nbf, iat) = (read("exp")?.ok_or(Reason::NoExpiry)?, read("nbf")?, read("iat")?);
    let latest = now.0.saturating_add(LEEWAY);
    if exp.saturating_add(LEEWAY) <= now.0 {
        return Err(Reason::Expired);
    }
    if nbf.is_some_and(|nbf| nbf > latest) || iat.is_some_and(|iat| iat > latest) {
        return Err(Reason::NotYet);
    }
    let begun = iat.unwrap_or(now.0);
    if exp > begun.saturating_add(longest).saturating_add(LEEWAY) {
        return Err(Reason::TooLong);
    }
    Ok(Wall(exp.saturating_add(LEEWAY)))
}

/// Converts a `NumericDate` to milliseconds; some issuers use fractions.
fn millis(value: &Value) -> Option<u64> {
    if let Some(seconds) = value.as_u64() {
        return seconds.checked_mul(1_000);
    }
    let seconds = value.as_f64().filter(|seconds| (0.0..4e12).contains(seconds))?;
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "it lies between 0 and 4e15"
    )]
    let millis = (seconds * 1_000.0) as u64;
    Some(millis)
}

/// Returns true if the token is for one of these audiences, compared exactly.
pub(super) fn for_one_of(claims: &Claims, audiences: &[&str]) -> bool {
    let known = |value: &Value| value.as_str().is_some_and(|text| audiences.contains(&text));
    match claims.get("aud") {
        Some(Value::Array(all)) => all.iter().any(known),
        Some(one) => known(one),
        None => false,
    }
}

/// Returns the user of the token.
pub(super) fn subject<'a>(claims: &'a Claims, claim: &str) -> Option<&'a str> {
    let subject = at(claims, claim)?.as_str()?;
    // The issuer chose the subject, but people read it in approvals and records.
    check_foreign_name(subject, SUBJECT).is_ok().then_some(subject)
}

/// Finds a claim by its name, or else by a path with dots.
pub(super) fn at<'a>(claims: &'a Claims, way: &str) -> Option<&'a Value> {
    if let Some(value) = claims.get(way) {
        return Some(value);
    }
    let mut steps = way.split('.').take(STEPS);
    let first = claims.get(steps.next()?)?;
    steps.try_fold(first, |value, step| value.get(step))
}

/// Returns true if a claim has a value: the claim itself, a list element, or one word of a scope.
pub(super) fn has(claims: &Claims, claim: &str, value: &str) -> bool {
    match at(claims, claim) {
        Some(Value::Array(all)) => all.iter().any(|one| one.as_str() == Some(value)),
        Some(Value::String(text)) if matches!(claim, "scope" | "scp") => {
            text.split(' ').any(|word| word == value)
        }
        Some(Value::String(text)) => text == value,
        _ => false,
    }
}
