//! Title search in Wikipedia (`opensearch`), the fallback of `web_search`.

use egress::Egress;
use http::StatusCode;
use serde_json::Value;

use super::super::ask::{Endpoint, Failed, encoded};
use super::{Found, LIMIT};

const WHO: &str = "Wikipedia";

pub(super) async fn search(
    egress: &Egress,
    at: &Endpoint,
    (query, most): (&str, usize),
) -> Result<Vec<Found>, Failed> {
    let query = encoded(query);
    let path = format!("/w/api.php?action=opensearch&search={query}&limit={most}&format=json");
    let (status, body) = at.get(egress, &path, LIMIT).await?;
    if status != StatusCode::OK {
        return Err(Failed::status(WHO, status));
    }
    // The query, then titles, descriptions and links, each a list.
    let (_, titles, told, links): (Value, Vec<String>, Vec<String>, Vec<String>) =
        serde_json::from_slice(&body).map_err(|error| Failed::unread(WHO, error))?;
    let told = told.into_iter().chain(std::iter::repeat(String::new()));
    let one = |((title, url), snippet)| Found { title, url, snippet };
    Ok(titles.into_iter().zip(links).zip(told).map(one).collect())
}
