//! Tools that access the public internet. Every request goes through `egress`.

mod ask;
mod exchange;
pub(crate) mod fetch_wikipedia;
mod html;
pub(crate) mod http_get;
pub(crate) mod http_post;
pub(crate) mod web_search;

pub use ask::Endpoint;
pub use web_search::Engine;

/// Fixed endpoints of the web tools.
#[derive(Debug, Clone)]
pub struct Endpoints {
    /// The search engine.
    pub search: Engine,
    /// The Wikipedia site.
    pub wikipedia: Endpoint,
}

impl Default for Endpoints {
    fn default() -> Self {
        Self {
            search: Engine::DuckDuckGo(Endpoint::public("https://html.duckduckgo.com")),
            wikipedia: Endpoint::public("https://en.wikipedia.org"),
        }
    }
}

#[cfg(test)]
mod tests;
