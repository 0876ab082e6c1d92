//! MCP servers as sources: a child that speaks over its pipes, or a streamable HTTP endpoint.
//!
//! The bytes of definitions, arguments and results pass untouched. Nothing here decides who may call
//! what, and nothing here dials or spawns by itself: `egress` and `sandbox` do.

mod audience;
mod call;
mod callers;
mod definition;
mod dial;
mod ears;
mod eras;
mod exchange;
mod fail;
mod follow;
mod greeting;
mod http;
mod link;
mod listing;
mod method;
mod mirror;
mod noise;
mod options;
mod page;
mod parked;
mod patience;
mod pipe;
mod question;
mod request;
mod run;
mod session;
mod stdio;
mod subscription;
mod trial;
mod upstream;
mod uptime;

use std::sync::Arc;
use std::time::Duration;

use tokio::time::timeout;
use tool::source::SourceFault;
use tool::{Boxed, Listing, Revision, Source, SourceError, SourceName};

pub use definition::offered_name;
pub use dial::{Dial, Dialed, Fault, Process};
pub use http::Http;
pub use options::{Bounds, Dialect, Marks, Options};
pub use pipe::{Reader, Writer};
pub use stdio::Stdio;

use upstream::{Target, Upstream};

/// One MCP server. Starts at the first [`Source::list`]; dropped, it ends in its own time.
#[derive(Debug)]
pub struct McpSource {
    upstream: Arc<Upstream>,
}

impl McpSource {
    /// A server reached by pipes to whatever `dial` starts.
    pub fn pipes(name: SourceName, options: Options, dial: Arc<dyn Dial>) -> Self {
        Self { upstream: Upstream::new(name, options, Target::Pipes(dial)) }
    }

    /// A server reached by streamable HTTP.
    pub fn http(name: SourceName, options: Options, http: Http) -> Self {
        Self { upstream: Upstream::new(name, options, Target::Http(Arc::new(http))) }
    }

    async fn gather(&self) -> Result<Listing, SourceError> {
        let upstream = &self.upstream;
        upstream.start();
        // A start has a bound of its own.
        let link = upstream.link().await.map_err(|fault| fault.error(&upstream.place))?;
        let limit = upstream.options.bounds.list;
        match timeout(limit, listing::list(upstream, &link)).await {
            Ok(listing) => listing,
            Err(_) => Err(Fault::new(
                SourceFault::TimedOut,
                format!("did not list its tools within {limit:?}"),
            )),
        }
        .map_err(|fault| fault.error(&upstream.place))
    }
}

impl Source for McpSource {
    fn name(&self) -> &SourceName {
        &self.upstream.name
    }

    fn list(&self) -> Boxed<'_, Result<Listing, SourceError>> {
        Box::pin(self.gather())
    }

    fn changed(&self, seen: Revision) -> Boxed<'_, Revision> {
        Box::pin(self.upstream.changed(seen))
    }

    fn list_timeout(&self) -> Option<Duration> {
        Some(self.upstream.options.bounds.whole_list())
    }

    fn refresh(&self) {
        self.upstream.refresh();
    }

    fn close(&self) -> Boxed<'_, ()> {
        Box::pin(async {
            self.upstream.close();
            self.upstream.closed().await;
        })
    }

    fn consent(&self) -> Option<&dyn tool::source::Consent> {
        let account = self.upstream.account()?;
        Some(account.as_ref())
    }
}

impl Drop for McpSource {
    fn drop(&mut self) {
        self.upstream.close();
    }
}
