//! Errors and timeouts of the MongoDB driver, each as one bounded line.

use std::time::Duration;

use mongodb::error::{Error, ErrorKind, WriteFailure};
use tokio::time::timeout;
use tool::StoreError;

/// Timeout of one operation, including the connection.
const OPERATION_TIMEOUT: Duration = Duration::from_secs(4);
/// Maximum length of an error message, in characters.
const MAX_ERROR_CHARS: usize = 200;

/// Runs a driver operation with a timeout.
pub(super) async fn run_with_timeout<T>(
    operation: impl IntoFuture<Output = Result<T, Error>>,
) -> Result<Result<T, Error>, StoreError> {
    let timeout_error = || {
        StoreError::Unavailable(format!(
            "MongoDB: no response within {} s",
            OPERATION_TIMEOUT.as_secs()
        ))
    };
    timeout(OPERATION_TIMEOUT, operation.into_future()).await.map_err(|_| timeout_error())
}

/// Whether the error is a duplicate key error.
pub(super) fn is_duplicate(error: &Error) -> bool {
    let code = match error.kind.as_ref() {
        ErrorKind::Write(WriteFailure::WriteError(error)) => error.code,
        ErrorKind::Command(error) => error.code,
        _ => return false,
    };
    matches!(code, 11_000 | 11_001)
}

pub(super) fn to_store_error(error: &Error) -> StoreError {
    let what = match error.kind.as_ref() {
        ErrorKind::ServerSelection { .. } => "no server can be reached".to_owned(),
        ErrorKind::Write(WriteFailure::WriteError(error)) => error.message.clone(),
        ErrorKind::Command(error) => error.message.clone(),
        ErrorKind::Io(error) => error.to_string(),
        other => other.to_string(),
    };
    let what: String = what
        .chars()
        .take(MAX_ERROR_CHARS)
        .flat_map(|c| {
            let c = if c.is_control() { ' ' } else { c };
            std::iter::once(c)
        })
        .collect();
    StoreError::Unavailable(format!("MongoDB: {what}"))
}
