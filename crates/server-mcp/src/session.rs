//! Sessions of the MCP versions with a handshake. A session id is an encrypted token that every
//! server of the installation can open. State that needs a live connection is kept in this process
//! only, and is bounded.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use identity::Principal;
use mcp::ProtocolVersion;
use serde::{Deserialize, Serialize};
use tool::clock::duration_millis;
use tool::executor::ClientCapabilities;
use tool::{FastMap, Json, Secret, WallTime};

use super::log_level::LogLevel;
use super::session_runtime::SessionRuntime;
use super::{client_capabilities, endpoint::Endpoint};
use server_core::sealing_key::SealingKey;

/// Maximum bytes of client capabilities that a session id contains unchanged; larger ones are
/// reduced.
const MAX_CAPABILITIES_BYTES: usize = 1_024;
/// Maximum bytes of a client name that a session id contains.
const MAX_CLIENT_NAME_BYTES: usize = 64;
/// Maximum bytes of a session id.
const MAX_SESSION_ID_BYTES: usize = 8 << 10;
/// Maximum number of sessions whose state is kept in this process.
const MAX_SESSIONS: usize = 4_096;
/// Lifetime of a session id.
const SESSION_LIFETIME: Duration = Duration::from_hours(30 * 24);
/// Maximum number of ended sessions that are remembered.
const MAX_ENDED_SESSIONS: usize = 4_096;

/// The random identity of a session.
pub(crate) type SessionNonce = [u8; 16];

/// The claims that a session id contains in encrypted form.
#[derive(Debug, Serialize, Deserialize)]
struct SessionClaims {
    nonce: SessionNonce,
    revision: String,
    #[serde(rename = "until")]
    expires_at: u64,
    #[serde(rename = "declared")]
    capabilities: Json,
    /// The name in `clientInfo`; absent in ids of older servers.
    #[serde(default, rename = "client")]
    client_name: String,
}

/// A session whose id is valid.
#[derive(Debug)]
pub(crate) struct ClientSession {
    id: Box<str>,
    nonce: SessionNonce,
    expires_at: u64,
    /// The organization, key and endpoint that the session is bound to.
    binding: [Box<str>; 3],
    pub capabilities: ClientCapabilities,
    /// The name in `clientInfo`; empty if the client sent none.
    pub(crate) client_name: Box<str>,
    pub(crate) runtime: Arc<SessionRuntime>,
}

impl ClientSession {
    fn is_valid_for(&self, bound: [&str; 3], now: WallTime) -> bool {
        self.expires_at >= now.0
            && self.binding.iter().zip(bound).all(|(own, asked)| **own == *asked)
    }
}

/// The sessions of this process.
#[derive(Debug)]
pub(crate) struct SessionStore {
    sealing_key: SealingKey,
    table: Mutex<SessionTable>,
    ticks: AtomicU64,
}

#[derive(Debug, Default)]
struct SessionTable {
    /// Opened sessions by their ids, so that an id is decrypted once.
    open: FastMap<Box<str>, Arc<ClientSession>>,
    ended: VecDeque<SessionNonce>,
}

impl SessionStore {
    pub(crate) fn new(secret: &Secret) -> Self {
        let seal = SealingKey::new(secret, "toolkeep mcp session");
        Self { sealing_key: seal, table: Mutex::default(), ticks: AtomicU64::new(0) }
    }

    fn lock_table(&self) -> MutexGuard<'_, SessionTable> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Creates a session and returns its id; `None` if no randomness is available.
    pub(crate) fn create_session(
        &self,
        (principal, endpoint): (&Principal, &Endpoint),
        version: ProtocolVersion,
        (declared, client_info): (Option<Json>, Option<Json>),
        now: WallTime,
    ) -> Option<String> {
        let mut nonce = SessionNonce::default();
        getrandom::fill(&mut nonce).ok()?;
        let until = now.0.saturating_add(duration_millis(SESSION_LIFETIME));
        let declared = shrink_capabilities(declared);
        let fact = SessionClaims {
            nonce,
            revision: version.to_string(),
            expires_at: until,
            capabilities: declared,
            client_name: client_name(client_info),
        };
        let binding = endpoint.owner_binding(principal);
        self.sealing_key.seal_bytes(&binding, Json::encode(&fact).bytes())
    }

    /// Finds the session of an id; `None` if it is not valid for this principal and endpoint.
    pub(crate) fn find_session(
        &self,
        (principal, endpoint): (&Principal, &Endpoint),
        id: &str,
        now: WallTime,
    ) -> Option<Arc<ClientSession>> {
        let tick = self.ticks.fetch_add(1, Ordering::Relaxed);
        let bound = endpoint.owner_binding(principal);
        let known = self.lock_table().open.get(id).map(Arc::clone);
        if let Some(session) = known {
            session.runtime.mark_used(tick);
            return Some(session).filter(|session| session.is_valid_for(bound, now));
        }
        let session = self.open_id(bound, id).filter(|session| session.is_valid_for(bound, now))?;
        session.runtime.mark_used(tick);
        let mut known = self.lock_table();
        if known.ended.contains(&session.nonce) {
            return None;
        }
        if known.open.len() >= MAX_SESSIONS {
            evict_idle(&mut known.open);
        }
        if known.open.len() >= MAX_SESSIONS {
            // All are in use. Its requests still run, but they share no state.
            return Some(Arc::new(session));
        }
        // Two requests may have opened it at once; they share one state.
        Some(Arc::clone(known.open.entry(id.into()).or_insert_with(|| Arc::new(session))))
    }

    fn open_id(&self, bound: [&str; 3], id: &str) -> Option<ClientSession> {
        let id = Some(id).filter(|id| id.len() <= MAX_SESSION_ID_BYTES)?;
        let fact: SessionClaims =
            serde_json::from_slice(&self.sealing_key.open_sealed(&bound, id)?).ok()?;
        let SessionClaims {
            nonce,
            revision,
            expires_at: until,
            capabilities: declared,
            client_name,
        } = fact;
        ProtocolVersion::parse(&revision)?;
        let (client, live) = (client_capabilities::parse_capabilities(declared), Arc::default());
        Some(ClientSession {
            id: id.into(),
            nonce,
            expires_at: until,
            binding: bound.map(Into::into),
            capabilities: client,
            client_name: client_name.into(),
            runtime: live,
        })
    }

    /// The lowest log level that any session requested, of any caller, whose endpoint has sources of
    /// this one.
    pub(crate) fn min_log_level(&self, endpoint: &Endpoint) -> Option<LogLevel> {
        let known = self.lock_table();
        let shares_sources = |session: &&Arc<ClientSession>| {
            let other = &*session.binding[2];
            // No source has the name of a mode, or one with a space, as the binding of a toolset has.
            let is_of_all = other.is_empty() || other.starts_with('?') || other.contains(' ');
            is_of_all || endpoint.source().is_none_or(|source| source == other)
        };
        let here = known.open.values().filter(shares_sources);
        here.filter_map(|session| session.runtime.log_level()).min()
    }

    /// Ends a session: its id is no longer valid in this process.
    pub(crate) fn end_session(&self, session: &ClientSession) {
        let mut known = self.lock_table();
        known.open.remove(&session.id);
        if known.ended.len() >= MAX_ENDED_SESSIONS {
            known.ended.pop_front();
        }
        known.ended.push_back(session.nonce);
        drop(known);
        session.runtime.close();
    }

    /// Closes the streams of all sessions.
    pub(crate) fn close_all(&self) {
        let open: Vec<_> = self.lock_table().open.drain().map(|(_, session)| session).collect();
        for session in open {
            session.runtime.close();
        }
    }
}

/// Evicts the least recently used quarter of the idle sessions.
fn evict_idle(open: &mut FastMap<Box<str>, Arc<ClientSession>>) {
    let mut idle: Vec<_> = open
        .values()
        .filter(|session| !session.runtime.is_busy())
        .map(|session| (session.runtime.last_used(), session.id.clone()))
        .collect();
    idle.sort_unstable();
    for (_, id) in idle.iter().take(MAX_SESSIONS / 4) {
        open.remove(id);
    }
}

/// The name in `clientInfo`; empty if it is absent or longer than [`MAX_CLIENT_NAME_BYTES`].
fn client_name(client_info: Option<Json>) -> String {
    let name = client_info.and_then(|info| info.get("name"));
    let name = name.and_then(|name| Some(name.string_value()?.into_owned()));
    name.filter(|name| name.len() <= MAX_CLIENT_NAME_BYTES).unwrap_or_default()
}

/// Reduces large capabilities to those that client requests need.
fn shrink_capabilities(declared: Option<Json>) -> Json {
    let declared =
        declared.filter(|json| json.kind() == "object").unwrap_or_else(Json::empty_object);
    if declared.bytes().len() <= MAX_CAPABILITIES_BYTES {
        return declared;
    }
    let names = ["elicitation", "sampling", "roots", "extensions"];
    let short = |member: Json| match member.kind() {
        _ if member.bytes().len() > MAX_CAPABILITIES_BYTES / 4 => Json::empty_object(),
        _ => member,
    };
    let kept = declared.pick(names).map(|member| member.map(short));
    let kept = names.into_iter().zip(&kept);
    Json::object_from(kept.filter_map(|(name, member)| Some((name, member.as_ref()?))))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use identity::{KeyRing, Principal};
    use mcp::ProtocolVersion;
    use serde_json::json;
    use tool::{Json, PermissionLevel, Secret, WallTime};

    use super::{
        ClientSession, MAX_CAPABILITIES_BYTES, MAX_SESSIONS, SessionStore, shrink_capabilities,
    };
    use crate::endpoint::Endpoint;
    use crate::event_sink::EventSink;
    use crate::log_level;
    use server_core::tool_lists::NameStyle;

    const NOW: WallTime = WallTime(1_000);
    const SCOPE: Endpoint =
        Endpoint::AllSources { names: NameStyle::Native, mode: None, toolset: None };

    fn anyone() -> Principal {
        KeyRing::default()
            .with_anonymous_access(PermissionLevel::User)
            .verify_key(None, NOW)
            .unwrap()
    }

    fn begun(sessions: &SessionStore, principal: &Principal) -> String {
        let revision = ProtocolVersion::LAST_HANDSHAKE;
        sessions.create_session((principal, &SCOPE), revision, (None, None), NOW).unwrap()
    }

    /// Positive control within: what is idle does go.
    #[test]
    fn there_is_room_for_what_is_in_use() {
        let (sessions, principal) = (SessionStore::new(&Secret::new("s")), anyone());
        let find = |id: &str| -> Arc<ClientSession> {
            sessions.find_session((&principal, &SCOPE), id, NOW).unwrap()
        };
        let error = log_level::LogLevel::from_json(&Json::encode("error"));
        let set = |id: &str| find(id).runtime.set_log_level(error.unwrap());
        let (idle, busy) = (begun(&sessions, &principal), begun(&sessions, &principal));
        set(&idle);
        set(&busy);
        let stream = Arc::new(EventSink::default());
        find(&busy).runtime.set_stream(Arc::clone(&stream));
        for _ in 0..MAX_SESSIONS {
            find(&begun(&sessions, &principal));
        }
        assert!(sessions.lock_table().open.len() <= MAX_SESSIONS);
        assert_eq!(find(&busy).runtime.log_level(), error);
        assert_eq!(find(&idle).runtime.log_level(), None, "it holds, and begins anew");
        assert!(!stream.is_closed());
    }

    #[test]
    fn an_ended_session_is_not_opened_again() {
        let (sessions, principal) = (SessionStore::new(&Secret::new("s")), anyone());
        let id = begun(&sessions, &principal);
        let find = || sessions.find_session((&principal, &SCOPE), &id, NOW);
        sessions.end_session(&find().unwrap());
        assert!(find().is_none());
    }

    #[test]
    fn large_capabilities_keep_what_can_be_asked() {
        let small = Json::encode(&json!({"elicitation": {"url": {}}, "x": 1}));
        assert_eq!(shrink_capabilities(Some(small.clone())), small);
        let long = "x".repeat(MAX_CAPABILITIES_BYTES);
        let large =
            json!({"elicitation": {"url": {}}, "roots": {"x": long}, "x": long, "sampling": true});
        let kept = shrink_capabilities(Some(Json::encode(&large)));
        assert_eq!(
            kept.to_value(),
            json!({"elicitation": {"url": {}}, "roots": {}, "sampling": true})
        );
        assert_eq!(
            (shrink_capabilities(None), shrink_capabilities(Some(Json::encode("x")))),
            (Json::empty_object(), Json::empty_object())
        );
    }
}
