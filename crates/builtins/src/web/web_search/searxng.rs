//! Search with the JSON interface of SearXNG: `/search?q=…&format=json`.

use egress::EgressClient;
use http::StatusCode;
use serde_json::Value;

use super::super::endpoint_client::{EndpointError, WebEndpoint, percent_encode};
use super::{REQUEST_TIMEOUT, SearchResult};

const SITE_NAME: &str = "SearXNG";

pub(super) async fn search_searxng(
    egress: &EgressClient,
    endpoint: &WebEndpoint,
    (query, region): (&str, &str),
) -> Result<Vec<SearchResult>, EndpointError> {
    // DuckDuckGo regions are country-language, SearXNG languages are language-COUNTRY.
    let language = match region.split_once('-') {
        Some((country, language)) if region != "wt-wt" => {
            format!("{language}-{}", country.to_uppercase())
        }
        _ => "all".to_owned(),
    };
    let path = format!(
        "/search?q={}&format=json&language={}",
        percent_encode(query),
        percent_encode(&language)
    );
    let (status, body) = endpoint.get_path(egress, &path, REQUEST_TIMEOUT).await?;
    if status == StatusCode::FORBIDDEN {
        let what = "SearXNG does not return JSON; add `json` to `search.formats` in its \
            settings.yml";
        return Err(EndpointError { kind: "network", message: what.to_owned() });
    }
    if status != StatusCode::OK {
        return Err(EndpointError::from_status(SITE_NAME, status));
    }
    let answer: Value = serde_json::from_slice(&body)
        .map_err(|error| EndpointError::unexpected_body(SITE_NAME, error))?;
    let results = answer.get("results").and_then(Value::as_array);
    let results =
        results.ok_or_else(|| EndpointError::unexpected_body(SITE_NAME, "it has no `results`"))?;
    let silent = answer.get("unresponsive_engines").and_then(Value::as_array);
    if let (true, Some(silent)) = (results.is_empty(), silent.filter(|all| !all.is_empty())) {
        let shown: String = Value::from(silent.clone()).to_string().chars().take(200).collect();
        let what = format!("SearXNG's engines did not respond: {shown}");
        return Err(EndpointError { kind: "network", message: what });
    }
    let text = |it: &Value, key: &str| {
        it.get(key).and_then(Value::as_str).unwrap_or_default().trim().to_owned()
    };
    let one = |it: &Value| SearchResult {
        title: text(it, "title"),
        url: text(it, "url"),
        snippet: text(it, "content"),
    };
    Ok(results.iter().map(one).filter(|it| !it.url.is_empty()).collect())
}
