//! Computation on a blocking thread, which is cancelled when no caller waits for its result.

use tokio_util::sync::CancellationToken;
use tool::{CallContext, ErrorCode, ExecuteError};

/// Error message of a call whose caller gave up.
pub const GIVEN_UP: &str = "the call was cancelled";

/// Runs `work` on a blocking thread. `stop` is cancelled when this future is dropped; long work
/// must poll it between its steps.
///
/// # Errors
/// [`ErrorCode::Internal`] if the work panics.
pub async fn run_blocking<T: Send + 'static>(
    stop: CancellationToken,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, ExecuteError> {
    let _stop = stop.drop_guard();
    let done = tokio::task::spawn_blocking(work).await;
    done.map_err(|_| {
        ExecuteError::maybe_sent(
            ErrorCode::Internal,
            "an internal error of the \
        built-in tool",
        )
    })
}

/// Runs `work` until it ends or its caller gives up. On cancellation `work` is dropped.
///
/// # Errors
/// Errors of `work`, and [`ErrorCode::Cancelled`].
pub async fn run_until_cancelled<T>(
    ctx: &CallContext<'_>,
    work: impl Future<Output = Result<T, ExecuteError>>,
) -> Result<T, ExecuteError> {
    tokio::select! {
        done = work => done,
        () = ctx.cancel.cancelled() => Err(cancelled_error()),
    }
}

/// Returns the error of a call whose caller gave up.
pub fn cancelled_error() -> ExecuteError {
    ExecuteError::maybe_sent(ErrorCode::Cancelled, GIVEN_UP)
}
