//! Fetching of lists that a server returns in pages.

use serde_json::{Value, json};

use super::client::{Client, Path};
use super::failure::Failure;

/// Maximum number of fetched pages; with 1,000 entries each, no list has more.
const MOST: usize = 1_000;

/// Fetches all entries of the list `name` at a path.
///
/// # Errors
/// Returns the server's error.
pub async fn all(client: &Client, path: &str, name: &str) -> Result<Value, Failure> {
    let (mut all, mut after) = (Vec::new(), None::<String>);
    for _ in 0..MOST {
        let mut page = client.get(&Path::new(path, &[]).with("after", after)).await?;
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
