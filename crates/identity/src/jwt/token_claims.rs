//! Claims of a token, parsed without trust.

use serde_json::{Map, Value};
use tool::WallTime;
use tool::identifier::validate_foreign_name;

use super::CLOCK_SKEW_MS;
use crate::credential_errors::CredentialErrorKind;

/// Claims of a token by name.
pub(super) type TokenClaims = Map<String, Value>;

/// Maximum length of a subject in bytes.
const MAX_SUBJECT_BYTES: usize = 200;
/// Maximum depth of a claim path.
const MAX_CLAIM_PATH_DEPTH: usize = 8;

/// Checks the validity period and returns the expiry time.
pub(super) fn check_validity_period(
    claims: &TokenClaims,
    now: WallTime,
    max_lifetime: u64,
) -> Result<WallTime, CredentialErrorKind> {
    let read = |name: &str| match claims.get(name) {
        None => Ok(None),
        Some(value) => numeric_date_ms(value).map(Some).ok_or(CredentialErrorKind::Malformed),
    };
    let (exp, nbf, iat) =
        (read("exp")?.ok_or(CredentialErrorKind::NoExpiry)?, read("nbf")?, read("iat")?);
    let latest = now.0.saturating_add(CLOCK_SKEW_MS);
    if exp.saturating_add(CLOCK_SKEW_MS) <= now.0 {
        return Err(CredentialErrorKind::Expired);
    }
    if nbf.is_some_and(|nbf| nbf > latest) || iat.is_some_and(|iat| iat > latest) {
        return Err(CredentialErrorKind::NotYetValid);
    }
    let begun = iat.unwrap_or(now.0);
    if exp > begun.saturating_add(max_lifetime).saturating_add(CLOCK_SKEW_MS) {
        return Err(CredentialErrorKind::LifetimeTooLong);
    }
    Ok(WallTime(exp.saturating_add(CLOCK_SKEW_MS)))
}

/// Converts a `NumericDate` to milliseconds; some issuers use fractions.
fn numeric_date_ms(value: &Value) -> Option<u64> {
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
pub(super) fn has_audience(claims: &TokenClaims, audiences: &[&str]) -> bool {
    let known = |value: &Value| value.as_str().is_some_and(|text| audiences.contains(&text));
    match claims.get("aud") {
        Some(Value::Array(all)) => all.iter().any(known),
        Some(one) => known(one),
        None => false,
    }
}

/// Returns the user of the token. An email address that its issuer did not verify is no user:
/// whoever may edit a profile could write another's.
pub(super) fn subject_claim<'a>(claims: &'a TokenClaims, claim: &str) -> Option<&'a str> {
    let is_verified = |value: &Value| value.as_bool() == Some(true) || value == "true";
    if claim == "email" && claims.get("email_verified").is_some_and(|value| !is_verified(value)) {
        return None;
    }
    let subject = find_claim(claims, claim)?.as_str()?;
    // The issuer chose the subject, but people read it in approvals and records.
    validate_foreign_name(subject, MAX_SUBJECT_BYTES).is_ok().then_some(subject)
}

/// Finds a claim by its name, or else by a path with dots.
pub(super) fn find_claim<'a>(claims: &'a TokenClaims, path: &str) -> Option<&'a Value> {
    if let Some(value) = claims.get(path) {
        return Some(value);
    }
    let mut steps = path.split('.').take(MAX_CLAIM_PATH_DEPTH);
    let first = claims.get(steps.next()?)?;
    steps.try_fold(first, |value, step| value.get(step))
}

/// Returns true if a claim has a value: the claim itself, a list element, or one word of a scope.
pub(super) fn has_claim_value(claims: &TokenClaims, claim: &str, value: &str) -> bool {
    match find_claim(claims, claim) {
        Some(Value::Array(all)) => all.iter().any(|one| one.as_str() == Some(value)),
        Some(Value::String(text)) if matches!(claim, "scope" | "scp") => {
            text.split(' ').any(|word| word == value)
        }
        Some(Value::String(text)) => text == value,
        _ => false,
    }
}
