//! Errors and timeouts of the MongoDB driver, each as one bounded line.

use std::time::Duration;

use mongodb::error::{Error, ErrorKind, WriteFailure};
use tokio::time::timeout;
use tool::StoreError;

/// For one answer, connection and all.
const ANSWER: Duration = Duration::from_secs(4);
/// The longest that is told of an error.
const MOST: usize = 200;

/// What it comes to, where that does not take too long.
pub(super) async fn within<T>(
    asked: impl IntoFuture<Output = Result<T, Error>>,
) -> Result<Result<T, Error>, StoreError> {
    let silent =
        || StoreError::Unavailable(format!("MongoDB: no answer within {} s", ANSWER.as_secs()));
    timeout(ANSWER, asked.into_future()).await.map_err(|_| silent())
}

/// Whether another document has the key already.
pub(super) fn is_duplicate(error: &Error) -> bool {
    let code = match error.kind.as_ref() {
        ErrorKind::Write(WriteFailure::WriteError(error)) => error.code,
        ErrorKind::Command(error) => error.code,
        _ => return false,
    };
    matches!(code, 11_000 | 11_001)
}

pub(super) fn unavailable(error: &Error) -> StoreError {
    let what = match error.kind.as_ref() {
        ErrorKind::ServerSelection { .. } => "no server can be reached".to_owned(),
        ErrorKind::Write(WriteFailure::WriteError(error)) => error.message.clone(),
        ErrorKind::Command(error) => error.message.clone(),
        ErrorKind::Io(error) => error.to_string(),
        other => other.to_string(),
    };
    let what: String = what
        .chars()
        .take(MOST)
        .flat_map(|c| {
            let c = if c.is_control() { ' ' } else { c };
            std::iter::once(c)
        })
        .collect();
    StoreError::Unavailable(format!("MongoDB: {what}"))
}
