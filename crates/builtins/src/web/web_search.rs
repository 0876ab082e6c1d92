//! `web_search`: searches the web without an API key.
//!
//! Uses DuckDuckGo's page for browsers without scripts, with Wikipedia titles as the fallback; or
//! only the operator's SearXNG. A CAPTCHA page is an error, never an empty list.

mod duckduckgo;
mod searxng;
mod titles;

use std::time::Duration;

use egress::Egress;
use serde_json::{Value, json};
use tool::{Boxed, Context, ExecuteError, Executor, Granted, Step};

use super::Endpoints;
use super::ask::{Endpoint, Failed};
use tool_manifest::{Bound, Registry};
use tool_manifest::{Builtin, ended};

/// Timeout of one request (spec 3's number), and the pause before a retry.
const LIMIT: Duration = Duration::from_secs(15);
const PAUSE: Duration = Duration::from_secs(1);

/// A search engine and its endpoint.
#[derive(Debug, Clone)]
pub enum Engine {
    /// DuckDuckGo's HTML page.
    DuckDuckGo(Endpoint),
    /// A SearXNG of the operator.
    SearXng(Endpoint),
}

/// One search result.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Found {
    title: String,
    url: String,
    snippet: String,
}

pub(crate) fn builtin(
    registry: &Registry,
    egress: Egress,
    endpoints: &Endpoints,
) -> Option<Builtin> {
    let declared = registry.get("web_search")?;
    let most = declared.bound("max_results");
    let (engine, wikipedia) = (endpoints.search.clone(), endpoints.wikipedia.clone());
    Some(declared.run_by(WebSearch { egress, engine, wikipedia, most }))
}

#[derive(Debug)]
struct WebSearch {
    egress: Egress,
    engine: Engine,
    wikipedia: Endpoint,
    most: Bound,
}

impl WebSearch {
    async fn search(&self, args: &Value) -> Result<Value, Failed> {
        let text = |name| args.get(name).and_then(Value::as_str);
        let (query, region) =
            (text("query").unwrap_or_default().trim(), text("region").unwrap_or("wt-wt"));
        let most = self.most.size(args, "max_results");
        let first = match self.once(query, region).await {
            Err(error) if error.kind != "parse_error" => {
                tokio::time::sleep(PAUSE).await;
                self.once(query, region).await
            }
            other => other,
        };
        let told = |found: Vec<Found>, source: &str| {
            let one = |it: Found| json!({ "title": it.title, "url": it.url, "snippet": it.snippet, "source": source });
            found.into_iter().take(most).map(one).collect::<Value>()
        };
        match (first, &self.engine) {
            (Ok(found), Engine::SearXng(_)) => Ok(told(found, "searxng")),
            (Ok(found), Engine::DuckDuckGo(_)) => Ok(told(found, "duckduckgo")),
            (Err(error), Engine::DuckDuckGo(_)) if error.kind != "parse_error" => {
                let titles = titles::search(&self.egress, &self.wikipedia, (query, most)).await;
                // If both fail, the first error is returned.
                titles.map(|found| told(found, "wikipedia")).map_err(|_| error)
            }
            (Err(error), _) => Err(error),
        }
    }

    async fn once(&self, query: &str, region: &str) -> Result<Vec<Found>, Failed> {
        match &self.engine {
            Engine::DuckDuckGo(at) => duckduckgo::search(&self.egress, at, (query, region)).await,
            Engine::SearXng(at) => searxng::search(&self.egress, at, (query, region)).await,
        }
    }
}

impl Executor for WebSearch {
    fn execute<'a>(
        &'a self,
        call: Granted<'a>,
        _ctx: &'a Context<'a>,
    ) -> Boxed<'a, Result<Step, ExecuteError>> {
        Box::pin(async move {
            let answer = self.search(call.call().args.value()).await;
            Ok(ended(answer.map_err(|failed| failed.told())))
        })
    }
}

#[cfg(test)]
mod tests;
