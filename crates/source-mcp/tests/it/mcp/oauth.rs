//! Tokens for servers that want some: an authorization server and a server of testkit's, both on
//! loopback, both speaking the real protocol.

mod alone;
mod attacks;
mod person;

use std::sync::Arc;

use oauth_client::{Account, Grant, Means, Proof, Registered, Settings};
use source_mcp::{Http, McpSource, Options};
use store::MemoryStore;
use testkit::clock::FakeClock;
use testkit::oauth::{Authority, Habits, Resource};
use tool::{Listing, Secret, Source as _, SourceError, SourceName, Store};

use super::site::egress;

/// An authorization server, a server that trusts it, and what one installation keeps.
struct World {
    authority: Authority,
    resource: Resource,
    store: Arc<MemoryStore>,
}

impl World {
    fn new() -> Self {
        Self::with(Habits::default())
    }

    fn with(habits: Habits) -> Self {
        let authority = Authority::start(habits);
        let resource = Resource::start(&authority);
        Self { authority, resource, store: Arc::default() }
    }

    fn settings(&self) -> Settings {
        let name = SourceName::new("guarded").unwrap();
        // Both have free ports of loopback.
        Settings { said: true, any_loopback_port: true, ..Settings::new(name, self.resource.url()) }
    }

    /// With the client that the authorization server knows.
    fn alone(&self) -> Settings {
        let proof = Proof::Secret(Secret::new("s3cret"));
        let client = Some(Registered { id: "known".to_owned(), proof });
        Settings { grant: Grant::ClientCredentials, client, ..self.settings() }
    }

    /// A source as a new process makes it.
    fn source(&self, settings: Settings) -> McpSource {
        self.source_with(settings, Options::default())
    }

    fn source_with(&self, settings: Settings, options: Options) -> McpSource {
        let store = Some(Arc::clone(&self.store) as Arc<dyn Store>);
        let clock = Arc::new(FakeClock::default());
        let means = Means { egress: egress(), store, clock };
        let name = settings.source.clone();
        let http = Http::new(&egress(), &settings.url, &[]).unwrap();
        let http = http.with_account(Account::new(settings, means).unwrap());
        McpSource::http(name, options, http)
    }

    fn tokens(&self) -> usize {
        self.authority.seen("/token").len()
    }
}

/// What a source says where it cannot be listed.
async fn refused(source: &McpSource) -> SourceError {
    match source.list().await {
        Err(error) => error,
        Ok(Listing { problems, .. }) => panic!("it lists itself: {problems:?}"),
    }
}
