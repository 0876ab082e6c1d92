//! Everything that a server listed, as received, and its form in a store: from it a source is listed
//! without its server.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::Arc;

use ::mcp::ProtocolEra;
use bytes::Bytes;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use tool::{BoxFuture, Json};

use super::connection::McpConnection;
use super::list_page::UpstreamListKind;
use super::mcp_options::ServerLimits;
use super::negotiation::{NegotiatedServer, ServerCapabilities, parse_negotiation};

/// Version of the stored form; another one is not read.
const VERSION: u32 = 1;

/// Keeps the last listing of one server, for the next start of this program. What cannot be stored or
/// read is listed anew.
pub trait ListingStore: Send + Sync + std::fmt::Debug {
    /// Returns the stored listing, if there is one.
    fn load_listing(&self) -> BoxFuture<'_, Option<Bytes>>;

    /// Stores a listing in place of the one before.
    fn store_listing(&self, listing: Bytes) -> BoxFuture<'_, ()>;
}

/// The items of a server, and what it declared of itself.
#[derive(Debug)]
pub(super) struct ListedItems {
    negotiated: Arc<NegotiatedServer>,
    era: ProtocolEra,
    requires_request_headers: bool,
    items: Vec<(UpstreamListKind, Box<RawValue>)>,
    byte_count: usize,
}

#[derive(Serialize)]
struct StoredItems<'a> {
    version: u32,
    is_stateless: bool,
    requires_request_headers: bool,
    initialize: &'a Json,
    items: &'a [(UpstreamListKind, Box<RawValue>)],
}

#[derive(Deserialize)]
struct LoadedItems {
    version: u32,
    is_stateless: bool,
    requires_request_headers: bool,
    initialize: Box<RawValue>,
    items: Vec<(UpstreamListKind, Box<RawValue>)>,
}

impl ListedItems {
    /// Creates an empty list of a connection.
    pub(super) fn new(connection: &McpConnection) -> Self {
        Self {
            negotiated: connection.negotiated(),
            era: connection.era(),
            requires_request_headers: connection.requires_request_headers(),
            items: Vec::new(),
            byte_count: 0,
        }
    }

    /// Parses a stored list; `None` if it cannot be used.
    pub(super) fn from_stored(bytes: &[u8]) -> Option<Self> {
        let stored: LoadedItems = serde_json::from_slice(bytes).ok()?;
        let era = if stored.is_stateless { ProtocolEra::Stateless } else { ProtocolEra::Handshake };
        let initialize =
            Json::parse(stored.initialize.get().to_owned(), tool::JsonLimits::DOCUMENT);
        let negotiated = parse_negotiation(era, initialize.ok()?).ok()?;
        (stored.version == VERSION).then(|| Self {
            negotiated: Arc::new(negotiated),
            era,
            requires_request_headers: stored.requires_request_headers,
            byte_count: stored.items.iter().map(|(_, raw)| raw.get().len()).sum(),
            items: stored.items,
        })
    }

    /// Returns the form for a store.
    pub(super) fn to_stored(&self) -> Option<Bytes> {
        let stored = StoredItems {
            version: VERSION,
            is_stateless: self.era == ProtocolEra::Stateless,
            requires_request_headers: self.requires_request_headers,
            initialize: &self.negotiated.raw_result,
            items: &self.items,
        };
        serde_json::to_vec(&stored).ok().map(Bytes::from)
    }

    /// Adds an item; returns `false` if the limits are reached.
    pub(super) fn add_item(
        &mut self,
        kind: UpstreamListKind,
        raw: &RawValue,
        limits: &ServerLimits,
    ) -> bool {
        self.byte_count = self.byte_count.saturating_add(raw.get().len());
        if self.items.len() >= limits.max_definitions
            || self.byte_count > limits.max_definition_bytes
        {
            return false;
        }
        self.items.push((kind, raw.to_owned()));
        true
    }

    /// Iterates over all items, in the order of the lists.
    pub(super) fn iter(&self) -> impl Iterator<Item = (UpstreamListKind, &RawValue)> {
        self.items.iter().map(|(kind, raw)| (*kind, raw.as_ref()))
    }

    /// Whether a tool with exactly this definition is listed.
    pub(super) fn has_tool_definition(&self, definition: &str) -> bool {
        self.iter().any(|(kind, raw)| kind == UpstreamListKind::Tools && raw.get() == definition)
    }

    /// Returns a hash of all items and of what the server declared.
    pub(super) fn content_hash(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        self.negotiated.raw_result.as_str().hash(&mut hasher);
        for (kind, raw) in self.iter() {
            (kind.method(), raw.get()).hash(&mut hasher);
        }
        hasher.finish()
    }

    pub(super) fn capabilities(&self) -> ServerCapabilities {
        self.negotiated.capabilities
    }

    pub(super) fn era(&self) -> ProtocolEra {
        self.era
    }

    /// Whether headers must repeat arguments.
    pub(super) fn requires_request_headers(&self) -> bool {
        self.requires_request_headers
    }

    /// The answer to `initialize` or `server/discover`.
    pub(super) fn initialize_result(&self) -> &Json {
        &self.negotiated.raw_result
    }
}
