//! Pagination of lists that are ordered by name.

use serde::Deserialize;
use tool::ErrorCode;

use crate::error::ApiError;
use crate::query_string::check_limit;
use crate::route::QueryParam;

/// Maximum and default number of entries per page.
const MAX_PAGE_SIZE: usize = 1_000;

/// The query parameters for pagination.
pub const PAGE_QUERY: &[QueryParam] = &[
    QueryParam {
        name: "limit",
        description: "number of entries per page, 1 to 1000; default 1000",
        schema_type: "integer",
    },
    QueryParam { name: "after", description: "`next` of the previous page", schema_type: "string" },
];

/// The requested page of a list.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PageQuery {
    /// Number of entries per page.
    pub limit: Option<usize>,
    /// Name after which the page begins.
    pub after: Option<String>,
}

impl PageQuery {
    /// The number of entries per page.
    ///
    /// # Errors
    /// [`ErrorCode::InvalidRequest`] if the limit is zero or too large.
    pub fn check_limit(&self) -> Result<usize, ApiError> {
        check_limit(self.limit, MAX_PAGE_SIZE, MAX_PAGE_SIZE)
    }
}

/// Truncates a list that was read with one extra entry; returns the name after which the next page
/// begins.
pub fn cut_page<T>(
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
/// [`ErrorCode::Internal`] if the process is shutting down.
pub async fn run_blocking<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, ApiError> {
    let done = tokio::task::spawn_blocking(work).await;
    done.map_err(|error| {
        ApiError::new(ErrorCode::Internal, format!("cannot encode the list: {error}"))
    })
}
