//! Tests of OAuth tokens, with an authorization server and a resource server of testkit. Both are
//! on loopback and speak the real protocol.

mod alone;
mod attacks;
mod person;

use std::sync::Arc;

use oauth_client::{
    ClientAuth, ConfiguredClient, GrantType, OAuthDependencies, OAuthSettings, TokenProvider,
};
use source_mcp::{HttpEndpoint, McpOptions, McpSource};
use store::MemoryStore;
use testkit::clock::FakeClock;
use testkit::oauth::{AuthorityBehavior, AuthorizationServer, ProtectedServer};
use tool::{Secret, Source as _, SourceError, SourceListing, SourceName, Store};

use super::site::egress;

/// Authorization server, a resource server that trusts it, and the storage of one installation.
struct World {
    authority: AuthorizationServer,
    resource: ProtectedServer,
    store: Arc<MemoryStore>,
}

impl World {
    fn new() -> Self {
        Self::with(AuthorityBehavior::default())
    }

    fn with(habits: AuthorityBehavior) -> Self {
        let authority = AuthorizationServer::start_server(habits);
        let resource = ProtectedServer::start_server(&authority);
        Self { authority, resource, store: Arc::default() }
    }

    fn settings(&self) -> OAuthSettings {
        let name = SourceName::new("guarded").unwrap();
        // Both use free ports of the loopback.
        OAuthSettings {
            is_configured: true,
            any_loopback_port: true,
            ..OAuthSettings::new(name, self.resource.url())
        }
    }

    /// Settings with the client that the authorization server knows.
    fn alone(&self) -> OAuthSettings {
        let proof = ClientAuth::Secret(Secret::new("s3cret"));
        let client = Some(ConfiguredClient { client_id: "known".to_owned(), auth: proof });
        OAuthSettings { grant_type: GrantType::ClientCredentials, client, ..self.settings() }
    }

    /// Creates the source as a new process does.
    fn source(&self, settings: OAuthSettings) -> McpSource {
        self.source_with(settings, McpOptions::default())
    }

    fn source_with(&self, settings: OAuthSettings, options: McpOptions) -> McpSource {
        let store = Some(Arc::clone(&self.store) as Arc<dyn Store>);
        let clock = Arc::new(FakeClock::default());
        let means = OAuthDependencies { egress: egress(), store, clock };
        let name = settings.source.clone();
        let http = HttpEndpoint::new(&egress(), &settings.source_url, &[]).unwrap();
        let http = http.with_token_provider(TokenProvider::new(settings, means).unwrap());
        McpSource::with_http(name, options, http)
    }

    fn tokens(&self) -> usize {
        self.authority.requests_at("/token").len()
    }
}

/// Returns the error of a source that cannot be listed.
async fn refused(source: &McpSource) -> SourceError {
    match source.list_offers().await {
        Err(error) => error,
        Ok(SourceListing { problems, .. }) => panic!("it lists itself: {problems:?}"),
    }
}
