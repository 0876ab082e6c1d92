//! Fetching of lists that a server returns in pages.

use serde_json::{Value, json};

use super::command_error::CommandError;
use super::rest_client::{RequestPath, RestClient};

/// Maximum number of fetched pages; with 1,000 entries each, no list has more.
const MAX_PAGES: usize = 1_000;

/// Fetches all entries of the list `name` at a path.
///
/// # Errors
/// Returns the server's error.
pub async fn fetch_all_pages(
    client: &RestClient,
    path: &str,
    name: &str,
) -> Result<Value, CommandError> {
    let (mut all, mut after) = (Vec::new(), None::<String>);
    for _ in 0..MAX_PAGES {
        let mut page = client
            .get_json(&RequestPath::from_segments(path, &[]).with_query("after", after))
            .await?;
        if let Some(Value::Array(entries)) = page.get_mut(name).map(Value::take) {
            all.extend(entries);
        }
        after = page.get("next").and_then(Value::as_str).map(str::to_owned);
        if after.is_none() {
            break;
        }
    }
    Ok(json!({ name: all }))
}
