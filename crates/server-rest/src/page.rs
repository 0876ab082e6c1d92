//! Pagination of lists that are ordered by name.

use serde::Deserialize;
use tool::Code;

use server_core::error::ApiError;
use server_core::route::Param;

/// Maximum and default number of entries per page.
const MOST: usize = 1_000;

/// The query parameters for pagination.
pub(crate) const QUERY: &[Param] = &[
    Param {
        name: "limit",
        what: "entries of one page, 1 to 1000; 1000 where absent",
        kind: "integer",
    },
    Param { name: "after", what: "`next` of the page before", kind: "string" },
];

/// The requested page of a list.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Page {
    limit: Option<usize>,
    pub(crate) after: Option<String>,
}

impl Page {
    /// The number of entries per page.
    ///
    /// # Errors
    /// [`Code::InvalidRequest`] if the limit is zero or too large.
    pub(crate) fn limit(&self) -> Result<usize, ApiError> {
        let limit = self.limit.unwrap_or(MOST);
        if (1..=MOST).contains(&limit) {
            return Ok(limit);
        }
        Err(ApiError::new(Code::InvalidRequest, format!("`limit` is 1 to {MOST}")))
    }
}

/// Truncates a list that was read with one extra entry; returns the name after which the next page
/// begins.
pub(crate) fn cut<T>(
    entries: &mut Vec<T>,
    limit: usize,
    name: impl Fn(&T) -> &str,
) -> Option<String> {
    if entries.len() <= limit {
        return None;
    }
    entries.truncate(limit);
    entries.last().map(|last| name(last).to_owned())
}

/// Runs work over many records on a blocking thread instead of a connection's thread.
///
/// # Errors
/// [`Code::Internal`] if the process is shutting down.
pub(crate) async fn away<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, ApiError> {
    let done = tokio::task::spawn_blocking(work).await;
    done.map_err(|error| ApiError::new(Code::Internal, format!("the list is not made: {error}")))
}
