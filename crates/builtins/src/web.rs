//! Tools that access the public internet. Every request goes through `egress`.

mod endpoint_client;
pub(crate) mod fetch_wikipedia;
mod html_tokenizer;
pub(crate) mod http_request;
pub(crate) mod web_search;

pub(crate) use endpoint_client::DownloadLimits;
pub use endpoint_client::WebEndpoint;
pub use web_search::SearchEngine;

/// Fixed endpoints of the web tools.
#[derive(Debug, Clone)]
pub struct WebEndpoints {
    /// The search engine.
    pub search_engine: SearchEngine,
    /// The Wikipedia site.
    pub wikipedia: WebEndpoint,
}

impl Default for WebEndpoints {
    fn default() -> Self {
        Self {
            search_engine: SearchEngine::DuckDuckGo(WebEndpoint::public_site(
                "https://html.duckduckgo.com",
            )),
            wikipedia: WebEndpoint::public_site("https://en.wikipedia.org"),
        }
    }
}

#[cfg(test)]
mod tests;
