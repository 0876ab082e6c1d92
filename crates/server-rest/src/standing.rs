//! Checks of a caller's rights before it changes keys, roles, personas and organizations.

use identity::{ChangeFault, Principal, Right};
use tool::identifier::check_line;
use tool::{Code, Org};

use server_core::error::ApiError;

/// Checks that the caller has this right.
///
/// # Errors
/// [`Code::Forbidden`].
pub(crate) fn has(principal: &Principal, right: Right) -> Result<(), ApiError> {
    if principal.may(right) {
        return Ok(());
    }
    Err(ApiError::lacks(right))
}

/// Checks the right to change roles and personas, which belong to the default organization.
///
/// # Errors
/// [`Code::Forbidden`].
pub(crate) fn of_installation(principal: &Principal) -> Result<(), ApiError> {
    has(principal, Right::KeysWrite)?;
    if *principal.org() == Org::default() {
        return Ok(());
    }
    let told = "roles and personas belong to the installation, not to an organisation";
    Err(ApiError::new(Code::Forbidden, told).fix("use a key of the organisation `default`"))
}

/// The error for a change that this caller may not make.
pub(crate) fn forbidden(fault: &ChangeFault) -> ApiError {
    ApiError::new(Code::Forbidden, fault.to_string())
}

/// Checks a description, which may be empty.
///
/// # Errors
/// [`Code::InvalidRequest`] if it is longer than `limit` bytes or contains invisible characters.
pub(crate) fn described(text: &str, limit: usize) -> Result<(), ApiError> {
    if text.is_empty() {
        return Ok(());
    }
    check_line(text, limit)
        .map_err(|fault| ApiError::new(Code::InvalidRequest, format!("the description {fault}")))
}
