//! Computation on a thread for blocking work, which learns when nobody waits for it any more.

use tokio_util::sync::CancellationToken;
use tool::{Code, Context, ExecuteError};

/// Why a call ends whose caller does not wait for it.
pub const GIVEN_UP: &str = "the call was given up";

/// Runs `work` on a thread for blocking work. `stop` is cancelled where this future is dropped: work that
/// may take long asks it between its steps.
///
/// # Errors
/// Where the work panics.
pub async fn run_blocking<T: Send + 'static>(
    stop: CancellationToken,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, ExecuteError> {
    let _stop = stop.drop_guard();
    let done = tokio::task::spawn_blocking(work).await;
    done.map_err(|_| ExecuteError::during(Code::Internal, "a fault in the built-in tool"))
}

/// What comes of `work`, which is dropped where the caller gives up before.
///
/// # Errors
/// Those of `work`, and `cancelled`.
pub async fn unless_given_up<T>(
    ctx: &Context<'_>,
    work: impl Future<Output = Result<T, ExecuteError>>,
) -> Result<T, ExecuteError> {
    tokio::select! {
        done = work => done,
        () = ctx.cancel.cancelled() => Err(given_up()),
    }
}

/// The error of a call whose caller does not wait for it.
pub fn given_up() -> ExecuteError {
    ExecuteError::during(Code::Cancelled, GIVEN_UP)
}
