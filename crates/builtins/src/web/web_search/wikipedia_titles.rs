//! Title search in Wikipedia (`opensearch`), the fallback of `web_search`.

use egress::EgressClient;
use http::StatusCode;
use serde_json::Value;

use super::super::endpoint_client::{EndpointError, WebEndpoint, percent_encode};
use super::{REQUEST_TIMEOUT, SearchResult};

const SITE_NAME: &str = "Wikipedia";

pub(super) async fn search_titles(
    egress: &EgressClient,
    endpoint: &WebEndpoint,
    (query, max_results): (&str, usize),
) -> Result<Vec<SearchResult>, EndpointError> {
    let query = percent_encode(query);
    let path =
        format!("/w/api.php?action=opensearch&search={query}&limit={max_results}&format=json");
    let (status, body) = endpoint.get_path(egress, &path, REQUEST_TIMEOUT).await?;
    if status != StatusCode::OK {
        return Err(EndpointError::from_status(SITE_NAME, status));
    }
    // The query, then titles, descriptions and links, each a list.
    let (_, titles, told, links): (Value, Vec<String>, Vec<String>, Vec<String>) =
        serde_json::from_slice(&body)
            .map_err(|error| EndpointError::unexpected_body(SITE_NAME, error))?;
    let told = told.into_iter().chain(std::iter::repeat(String::new()));
    let one = |((title, url), snippet)| SearchResult { title, url, snippet };
    Ok(titles.into_iter().zip(links).zip(told).map(one).collect())
}
