//! Checks of a caller's rights before it changes keys, roles, personas and organizations.

use identity::{ChangeError, Principal, Right};
use tool::identifier::validate_line;
use tool::{ErrorCode, Org};

use crate::error::ApiError;

/// Checks that the caller has this right.
///
/// # Errors
/// [`ErrorCode::Forbidden`].
pub fn require_right(principal: &Principal, right: Right) -> Result<(), ApiError> {
    if principal.has_right(right) {
        return Ok(());
    }
    Err(ApiError::missing_right(right))
}

/// Checks the right to change roles and personas, which belong to the default organization.
///
/// # Errors
/// [`ErrorCode::Forbidden`].
pub fn require_installation_admin(principal: &Principal) -> Result<(), ApiError> {
    require_right(principal, Right::KeysWrite)?;
    if *principal.org() == Org::default() {
        return Ok(());
    }
    let message = "roles and personas belong to the installation, not to an organisation";
    Err(ApiError::new(ErrorCode::Forbidden, message)
        .with_help("use a key of the organisation `default`"))
}

/// The error for a change that this caller may not make.
pub fn forbidden_change(error: &ChangeError) -> ApiError {
    ApiError::new(ErrorCode::Forbidden, error.to_string())
}

/// Checks a description, which may be empty.
///
/// # Errors
/// [`ErrorCode::InvalidRequest`] if it is longer than `limit` bytes or contains invisible characters.
pub fn check_description(text: &str, limit: usize) -> Result<(), ApiError> {
    if text.is_empty() {
        return Ok(());
    }
    validate_line(text, limit).map_err(|fault| {
        ApiError::new(ErrorCode::InvalidRequest, format!("the description {fault}"))
    })
}
