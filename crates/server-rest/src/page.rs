//! Pages of lists that are ordered by a name.

use serde::Deserialize;
use tool::Code;

use server_core::error::ApiError;
use server_core::route::Param;

/// The most entries of one page, and how many where no limit is given.
const MOST: usize = 1_000;

/// The parameters of a page.
pub(crate) const QUERY: &[Param] = &[
    Param {
        name: "limit",
        what: "entries of one page, 1 to 1000; 1000 where absent",
        kind: "integer",
    },
    Param { name: "after", what: "`next` of the page before", kind: "string" },
];

/// The page that is asked for.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Page {
    limit: Option<usize>,
    pub(crate) after: Option<String>,
}

impl Page {
    /// How many entries.
    ///
    /// # Errors
    /// [`Code::InvalidRequest`] where there are to be none, or too many.
    pub(crate) fn limit(&self) -> Result<usize, ApiError> {
        let limit = self.limit.unwrap_or(MOST);
        if (1..=MOST).contains(&limit) {
            return Ok(limit);
        }
        Err(ApiError::new(Code::InvalidRequest, format!("`limit` is 1 to {MOST}")))
    }
}

/// Cuts a list of one entry more than the page has; what the next page is to begin after.
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

/// Works through many records, and not on a connection's thread.
///
/// # Errors
/// [`Code::Internal`] where the process ends.
pub(crate) async fn away<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, ApiError> {
    let done = tokio::task::spawn_blocking(work).await;
    done.map_err(|error| ApiError::new(Code::Internal, format!("the list is not made: {error}")))
}
