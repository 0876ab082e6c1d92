//! MCP servers as sources: a child process over stdio, or a streamable HTTP endpoint.
//!
//! The bytes of definitions, arguments and results are forwarded unchanged. This crate makes no
//! access decision, and opens connections and processes only through `egress` and `sandbox`.

mod call_attribution;
mod caller_servers;
mod connection;
mod definition_parser;
mod delivery_errors;
mod dual_era;
mod http_transport;
mod idle_stop;
mod in_flight_request;
mod input_requests;
mod list_page;
mod list_subscription;
mod listed_items;
mod listing;
mod mcp_options;
mod method_executor;
mod negotiation;
mod notifications;
mod outgoing_request;
mod pending_input;
mod pipe_connector;
mod pipe_transport;
mod request_headers;
mod resource_subscription;
mod restart_backoff;
mod server_instance;
mod server_supervisor;
mod skill_files;
mod skill_parser;
mod start_monitoring;
mod stdio_connector;
mod stray_output;
mod test_call;
mod tool_executor;
mod upstream_call;

use std::sync::Arc;
use std::time::Duration;

use tokio::time::timeout;
use tool::source::SourceErrorKind;
use tool::{BoxFuture, Source, SourceError, SourceListing, SourceName, SourceRevision};

pub use definition_parser::offered_name;
pub use http_transport::HttpEndpoint;
pub use listed_items::ListingStore;
pub use mcp_options::{EraSelection, McpOptions, ServerLimits, StartMode, TraitOverrides};
pub use pipe_connector::{ConnectionError, PipeConnection, PipeConnector, ServerProcess};
pub use pipe_transport::{PipeReader, PipeWriter};
pub use stdio_connector::StdioConnector;

use server_supervisor::{ServerConnector, ServerSupervisor};

/// Source backed by one MCP server. The server starts at the first [`Source::list_offers`], or with its
/// first call ([`StartMode`]). After a drop it shuts down in the background.
#[derive(Debug)]
pub struct McpSource {
    supervisor: Arc<ServerSupervisor>,
}

impl McpSource {
    /// Creates a source for a server reached over pipes to the process that `connector` starts.
    pub fn with_pipes(
        name: SourceName,
        options: McpOptions,
        connector: Arc<dyn PipeConnector>,
    ) -> Self {
        Self { supervisor: ServerSupervisor::new(name, options, ServerConnector::Pipes(connector)) }
    }

    /// Creates a source for a server reached over streamable HTTP.
    pub fn with_http(name: SourceName, options: McpOptions, endpoint: HttpEndpoint) -> Self {
        Self {
            supervisor: ServerSupervisor::new(
                name,
                options,
                ServerConnector::Http(Arc::new(endpoint)),
            ),
        }
    }

    /// Keeps what the server lists in `store`, for a source whose server starts with its first call.
    #[must_use]
    pub fn with_listing_store(self, store: Arc<dyn ListingStore>) -> Self {
        self.supervisor.lazy_listing.set_store(store);
        self
    }

    async fn fetch_listing(&self) -> Result<SourceListing, SourceError> {
        let upstream = &self.supervisor;
        if let Some(items) = upstream.items_without_server().await {
            return Ok(listing::build_listing(upstream, &items, Vec::new()));
        }
        upstream.start();
        // The start has its own time limit.
        let link = upstream
            .wait_for_connection()
            .await
            .map_err(|fault| fault.to_source_error(&upstream.display_address))?;
        let limit = upstream.options.limits.list_timeout;
        match timeout(limit, listing::fetch_listing(upstream, &link)).await {
            Ok(listing) => listing,
            Err(_) => Err(ConnectionError::new(
                SourceErrorKind::TimedOut,
                format!("did not list its tools within {limit:?}"),
            )),
        }
        .map_err(|fault| fault.to_source_error(&upstream.display_address))
    }
}

impl Source for McpSource {
    fn name(&self) -> &SourceName {
        &self.supervisor.name
    }

    fn list_offers(&self) -> BoxFuture<'_, Result<SourceListing, SourceError>> {
        Box::pin(self.fetch_listing())
    }

    fn wait_for_change(&self, seen: SourceRevision) -> BoxFuture<'_, SourceRevision> {
        Box::pin(self.supervisor.wait_for_change(seen))
    }

    fn list_timeout(&self) -> Option<Duration> {
        Some(self.supervisor.options.limits.max_listing_time())
    }

    fn reset_backoff(&self) {
        self.supervisor.restart_now();
    }

    fn shut_down(&self) -> BoxFuture<'_, ()> {
        Box::pin(async {
            self.supervisor.close();
            self.supervisor.wait_until_closed().await;
        })
    }

    fn consent_flow(&self) -> Option<&dyn tool::source::ConsentFlow> {
        let account = self.supervisor.token_provider()?;
        Some(account.as_ref())
    }
}

impl Drop for McpSource {
    fn drop(&mut self) {
        self.supervisor.close();
    }
}
