//! `web_search`: searches the web without an API key.
//!
//! Uses DuckDuckGo's page for browsers without scripts, with Wikipedia titles as the fallback; or
//! only the operator's SearXNG. A CAPTCHA page is an error, never an empty list.

mod duckduckgo;
mod searxng;
mod wikipedia_titles;

use std::time::Duration;

use egress::EgressClient;
use serde_json::{Value, json};
use tool::{BoxFuture, CallContext, ExecuteError, ExecutionState, Executor, RecordedCall};

use super::WebEndpoints;
use super::endpoint_client::{EndpointError, WebEndpoint};
use tool_manifest::{BuiltinTool, completed_step};
use tool_manifest::{ManifestRegistry, NumericLimit};

/// Timeout of one request (the research registry's number), and the pause before a retry.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(15);
const RETRY_PAUSE: Duration = Duration::from_secs(1);

/// A search engine and its endpoint.
#[derive(Debug, Clone)]
pub enum SearchEngine {
    /// DuckDuckGo's HTML page.
    DuckDuckGo(WebEndpoint),
    /// A SearXNG of the operator.
    SearXng(WebEndpoint),
}

/// One search result.
#[derive(Debug, Clone, PartialEq, Eq)]
struct SearchResult {
    title: String,
    url: String,
    snippet: String,
}

pub(crate) fn build_tool(
    registry: &ManifestRegistry,
    egress: EgressClient,
    endpoints: &WebEndpoints,
) -> Option<BuiltinTool> {
    let declared = registry.find_tool("web_search")?;
    let most = declared.numeric_limit("max_results");
    let (engine, wikipedia) = (endpoints.search_engine.clone(), endpoints.wikipedia.clone());
    Some(declared.with_executor(WebSearch { egress, engine, wikipedia, max_results: most }))
}

#[derive(Debug)]
struct WebSearch {
    egress: EgressClient,
    engine: SearchEngine,
    wikipedia: WebEndpoint,
    max_results: NumericLimit,
}

impl WebSearch {
    async fn search_with_retry(&self, args: &Value) -> Result<Value, EndpointError> {
        let text = |name| args.get(name).and_then(Value::as_str);
        let (query, region) =
            (text("query").unwrap_or_default().trim(), text("region").unwrap_or("wt-wt"));
        let most = self.max_results.usize_in(args, "max_results");
        let first = match self.search_once(query, region).await {
            Err(error) if error.kind != "parse_error" => {
                tokio::time::sleep(RETRY_PAUSE).await;
                self.search_once(query, region).await
            }
            other => other,
        };
        let told = |found: Vec<SearchResult>, source: &str| {
            let one = |it: SearchResult| json!({ "title": it.title, "url": it.url, "snippet": it.snippet, "source": source });
            found.into_iter().take(most).map(one).collect::<Value>()
        };
        match (first, &self.engine) {
            (Ok(found), SearchEngine::SearXng(_)) => Ok(told(found, "searxng")),
            (Ok(found), SearchEngine::DuckDuckGo(_)) => Ok(told(found, "duckduckgo")),
            (Err(error), SearchEngine::DuckDuckGo(_)) if error.kind != "parse_error" => {
                let titles =
                    wikipedia_titles::search_titles(&self.egress, &self.wikipedia, (query, most))
                        .await;
                // If both fail, the first error is returned.
                titles.map(|found| told(found, "wikipedia")).map_err(|_| error)
            }
            (Err(error), _) => Err(error),
        }
    }

    async fn search_once(
        &self,
        query: &str,
        region: &str,
    ) -> Result<Vec<SearchResult>, EndpointError> {
        match &self.engine {
            SearchEngine::DuckDuckGo(at) => {
                duckduckgo::search_duckduckgo(&self.egress, at, (query, region)).await
            }
            SearchEngine::SearXng(at) => {
                searxng::search_searxng(&self.egress, at, (query, region)).await
            }
        }
    }
}

impl Executor for WebSearch {
    fn execute<'a>(
        &'a self,
        call: RecordedCall<'a>,
        _ctx: &'a CallContext<'a>,
    ) -> BoxFuture<'a, Result<ExecutionState, ExecuteError>> {
        Box::pin(async move {
            let answer = self.search_with_retry(call.call().arguments.as_value()).await;
            Ok(completed_step(answer.map_err(|failed| failed.to_text())))
        })
    }
}

#[cfg(test)]
mod tests;
