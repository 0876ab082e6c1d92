//! The results of `initialize` and `server/discover`: server info, capabilities and instructions of
//! an endpoint.

use catalog::Shelf;
use gateway::View;
use http::HeaderValue;
use mcp::{Era, Revision, header, meta};
use serde_json::{Map, Value, json};
use tool::Json;

use super::asked::{Asked, text};
use super::body::Reply;
use super::refused::Refused;
use super::scope::speaks_mcp;

/// Time for which a client may cache the description of an endpoint, in milliseconds.
const TTL: u64 = 60_000;

/// The capabilities, server info and instructions that an endpoint reports.
struct About {
    capabilities: Value,
    server: Json,
    instructions: Option<Json>,
}

/// Handles `initialize`: negotiates the protocol version and creates a session.
pub(crate) fn initialize(asked: &Asked<'_>) -> Result<Reply, Refused> {
    let [version, declared] = asked.pick(["protocolVersion", "capabilities"]);
    let version = text("protocolVersion", version.as_ref())?;
    // A handshake belongs to the older versions, whichever version it names.
    let settled = Revision::read(&version)
        .filter(|revision| revision.era() == Era::Handshake)
        .unwrap_or(Revision::LAST_HANDSHAKE);
    let about = about(asked)?;
    let (version, capabilities) = (Json::of(settled.as_str()), Json::of(&about.capabilities));
    let fields = [
        Some(("protocolVersion", &version)),
        Some(("capabilities", &capabilities)),
        Some(("serverInfo", &about.server)),
        about.instructions.as_ref().map(|text| ("instructions", text)),
    ];
    let mut reply = asked.result(&Json::fields(fields.into_iter().flatten()));
    let who = asked.who;
    let now = who.now;
    let session = who.doors.mcp.sessions.begin((who.principal, who.scope), settled, declared, now);
    let session = session.and_then(|id| HeaderValue::try_from(id).ok());
    let session = session.ok_or_else(|| Refused::internal("no session can be begun"))?;
    reply.headers_mut().insert(header::SESSION, session);
    Ok(reply)
}

/// Handles `server/discover`: reports the endpoint without a session.
pub(crate) fn discover(asked: &Asked<'_>) -> Result<Reply, Refused> {
    let about = about(asked)?;
    let versions = Json::of(&Revision::ALL.map(Revision::as_str));
    let capabilities = Json::of(&about.capabilities).with("extensions", &mcp::task::extensions());
    let (ttl, scope) = (Json::of(&TTL), Json::of("private"));
    let beside = Json::fields([(meta::SERVER_INFO, &about.server)]);
    let fields = [
        Some(("supportedVersions", &versions)),
        Some(("capabilities", &capabilities)),
        about.instructions.as_ref().map(|text| ("instructions", text)),
        Some(("ttlMs", &ttl)),
        Some(("cacheScope", &scope)),
        Some((meta::META, &beside)),
    ];
    Ok(asked.result(&Json::fields(fields.into_iter().flatten())))
}

fn about(asked: &Asked<'_>) -> Result<About, Refused> {
    let view = asked.who.view();
    let shelf = asked.who.scope.shelf(&view).map_err(Refused::params)?;
    let own = json!({"name": "toolkeep", "version": env!("CARGO_PKG_VERSION")});
    let mut capabilities = Map::new();
    capabilities.insert("logging".to_owned(), json!({}));
    capabilities.insert("tools".to_owned(), json!({"listChanged": true}));
    let Some(shelf) = shelf else {
        return Ok(About {
            capabilities: Value::Object(capabilities),
            server: Json::of(&own),
            instructions: None,
        });
    };
    of_source(&mut capabilities, &view, shelf);
    let said = shelf.about.as_ref().filter(|_| speaks_mcp(shelf));
    let server = said.and_then(|about| {
        let beside = meta::of(about).and_then(|beside| beside.get(meta::SERVER_INFO));
        beside.or_else(|| about.get("serverInfo")).filter(|server| server.kind() == "object")
    });
    Ok(About {
        capabilities: Value::Object(capabilities),
        server: server.unwrap_or_else(|| Json::of(&own)),
        instructions: said
            .and_then(|about| about.get("instructions"))
            .filter(|text| text.kind() == "string"),
    })
}

/// Adds the capabilities of the endpoint's source that this caller can use and that are forwarded.
fn of_source(capabilities: &mut Map<String, Value>, view: &View, shelf: &Shelf) {
    let source = shelf.source.as_str();
    let has = |method: &str| view.method(source, method).is_some();
    if has("mcp.prompts.get") {
        capabilities.insert("prompts".to_owned(), json!({"listChanged": true}));
    }
    if has("mcp.resources.read") {
        let mut resources = json!({"listChanged": true});
        if has("mcp.resources.subscribe") {
            resources = json!({"listChanged": true, "subscribe": true});
        }
        capabilities.insert("resources".to_owned(), resources);
    }
    if has("mcp.completion.complete") {
        capabilities.insert("completions".to_owned(), json!({}));
    }
}
