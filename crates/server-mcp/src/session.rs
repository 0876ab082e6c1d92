//! Sessions of the handshake era. A session id is an encrypted token that every server of the
//! installation can open. State that needs a live connection is kept in this process only, and is
//! bounded.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use identity::Principal;
use mcp::Revision;
use serde::{Deserialize, Serialize};
use tool::executor::ClientCan;
use tool::{Json, Map, Secret, Wall};

use super::level::Level;
use super::live::Live;
use super::{client, scope::Scope};
use server_core::seal::Seal;

/// Maximum bytes of client capabilities that a session id contains unchanged; larger ones are
/// reduced.
const DECLARED: usize = 1_024;
/// Maximum bytes of a session id.
const LONGEST: usize = 8 << 10;
/// Maximum number of sessions whose state is kept in this process.
const OPEN: usize = 4_096;
/// Lifetime of a session id.
const HOLDS: Duration = Duration::from_hours(30 * 24);
/// Maximum number of ended sessions that are remembered.
const ENDED: usize = 4_096;

/// The random identity of a session.
pub(crate) type Nonce = [u8; 16];

/// The claims that a session id contains in encrypted form.
#[derive(Debug, Serialize, Deserialize)]
struct Fact {
    nonce: Nonce,
    revision: String,
    until: u64,
    declared: Json,
}

/// A session whose id is valid.
#[derive(Debug)]
pub(crate) struct Session {
    id: Box<str>,
    nonce: Nonce,
    until: u64,
    /// The organization, key and endpoint that the session is bound to.
    bound: [Box<str>; 3],
    pub client: ClientCan,
    pub(crate) live: Arc<Live>,
}

impl Session {
    fn holds(&self, bound: [&str; 3], now: Wall) -> bool {
        self.until >= now.0 && self.bound.iter().zip(bound).all(|(own, asked)| **own == *asked)
    }
}

/// The sessions of this process.
#[derive(Debug)]
pub(crate) struct Sessions {
    seal: Seal,
    known: Mutex<Known>,
    ticks: AtomicU64,
}

#[derive(Debug, Default)]
struct Known {
    /// Opened sessions by their ids, so that an id is decrypted once.
    open: Map<Box<str>, Arc<Session>>,
    ended: VecDeque<Nonce>,
}

impl Sessions {
    pub(crate) fn new(secret: &Secret) -> Self {
        let seal = Seal::new(secret, "toolkeep mcp session");
        Self { seal, known: Mutex::default(), ticks: AtomicU64::new(0) }
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Creates a session and returns its id; `None` if no randomness is available.
    pub(crate) fn begin(
        &self,
        of: (&Principal, &Scope),
        revision: Revision,
        declared: Option<Json>,
        now: Wall,
    ) -> Option<String> {
        let mut nonce = Nonce::default();
        getrandom::fill(&mut nonce).ok()?;
        let until = now.0.saturating_add(millis(HOLDS));
        let declared = bounded(declared);
        let fact = Fact { nonce, revision: revision.to_string(), until, declared };
        self.seal.close(&bound(of), Json::of(&fact).bytes())
    }

    /// Finds the session of an id; `None` if it is not valid for this principal and endpoint.
    pub(crate) fn find(
        &self,
        of: (&Principal, &Scope),
        id: &str,
        now: Wall,
    ) -> Option<Arc<Session>> {
        let tick = self.ticks.fetch_add(1, Ordering::Relaxed);
        let bound = bound(of);
        let known = self.known().open.get(id).map(Arc::clone);
        if let Some(session) = known {
            session.live.touch(tick);
            return Some(session).filter(|session| session.holds(bound, now));
        }
        let session = self.opened(bound, id).filter(|session| session.holds(bound, now))?;
        session.live.touch(tick);
        let mut known = self.known();
        if known.ended.contains(&session.nonce) {
            return None;
        }
        if known.open.len() >= OPEN {
            make_room(&mut known.open);
        }
        if known.open.len() >= OPEN {
            // All are in use. Its requests still run, but they share no state.
            return Some(Arc::new(session));
        }
        // Two requests may have opened it at once; they share one state.
        Some(Arc::clone(known.open.entry(id.into()).or_insert_with(|| Arc::new(session))))
    }

    fn opened(&self, bound: [&str; 3], id: &str) -> Option<Session> {
        let id = Some(id).filter(|id| id.len() <= LONGEST)?;
        let fact: Fact = serde_json::from_slice(&self.seal.open(&bound, id)?).ok()?;
        let Fact { nonce, revision, until, declared } = fact;
        Revision::read(&revision)?;
        let (client, live) = (client::can(declared), Arc::default());
        Some(Session { id: id.into(), nonce, until, bound: bound.map(Into::into), client, live })
    }

    /// The lowest log level that any session at this endpoint requested, of any caller.
    pub(crate) fn least_level(&self, scope: &Scope) -> Option<Level> {
        let known = self.known();
        let here = known.open.values().filter(|session| *session.bound[2] == *scope.word());
        here.filter_map(|session| session.live.level()).min()
    }

    /// Ends a session: its id is no longer valid in this process.
    pub(crate) fn end(&self, session: &Session) {
        let mut known = self.known();
        known.open.remove(&session.id);
        if known.ended.len() >= ENDED {
            known.ended.pop_front();
        }
        known.ended.push_back(session.nonce);
        drop(known);
        session.live.end();
    }

    /// Closes the streams of all sessions.
    pub(crate) fn close(&self) {
        let open: Vec<_> = self.known().open.drain().map(|(_, session)| session).collect();
        for session in open {
            session.live.end();
        }
    }
}

/// Evicts the least recently used quarter of the idle sessions.
fn make_room(open: &mut Map<Box<str>, Arc<Session>>) {
    let mut idle: Vec<_> = open
        .values()
        .filter(|session| !session.live.busy())
        .map(|session| (session.live.used(), session.id.clone()))
        .collect();
    idle.sort_unstable();
    for (_, id) in idle.iter().take(OPEN / 4) {
        open.remove(id);
    }
}

fn bound<'a>((principal, scope): (&'a Principal, &'a Scope)) -> [&'a str; 3] {
    [principal.org().as_str(), principal.key(), scope.word()]
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

/// Reduces large capabilities to those that client requests need.
fn bounded(declared: Option<Json>) -> Json {
    let declared = declared.filter(|json| json.kind() == "object").unwrap_or_else(Json::empty);
    if declared.bytes().len() <= DECLARED {
        return declared;
    }
    let names = ["elicitation", "sampling", "roots"];
    let short = |member: Json| match member.kind() {
        _ if member.bytes().len() > DECLARED / 4 => Json::empty(),
        _ => member,
    };
    let kept = declared.pick(names).map(|member| member.map(short));
    let kept = names.into_iter().zip(&kept);
    Json::fields(kept.filter_map(|(name, member)| Some((name, member.as_ref()?))))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use identity::{KeyRing, Principal};
    use mcp::Revision;
    use serde_json::json;
    use tool::{Json, Level, Secret, Wall};

    use super::{DECLARED, OPEN, Session, Sessions, bounded};
    use crate::level;
    use crate::outlet::Outlet;
    use crate::scope::Scope;
    use server_core::lists::Names;

    const NOW: Wall = Wall(1_000);
    const SCOPE: Scope = Scope::All(Names::Native);

    fn anyone() -> Principal {
        KeyRing::default().open(Level::User).verify(None, NOW).unwrap()
    }

    fn begun(sessions: &Sessions, principal: &Principal) -> String {
        let revision = Revision::LAST_HANDSHAKE;
        sessions.begin((principal, &SCOPE), revision, None, NOW).unwrap()
    }

    /// Positive control within: what is idle does go.
    #[test]
    fn there_is_room_for_what_is_in_use() {
        let (sessions, principal) = (Sessions::new(&Secret::new("s")), anyone());
        let find =
            |id: &str| -> Arc<Session> { sessions.find((&principal, &SCOPE), id, NOW).unwrap() };
        let error = level::Level::read(&Json::of("error"));
        let set = |id: &str| find(id).live.set_level(error.unwrap());
        let (idle, busy) = (begun(&sessions, &principal), begun(&sessions, &principal));
        set(&idle);
        set(&busy);
        let stream = Arc::new(Outlet::default());
        find(&busy).live.listen(Arc::clone(&stream));
        for _ in 0..OPEN {
            find(&begun(&sessions, &principal));
        }
        assert!(sessions.known().open.len() <= OPEN);
        assert_eq!(find(&busy).live.level(), error);
        assert_eq!(find(&idle).live.level(), None, "it holds, and begins anew");
        assert!(!stream.is_closed());
    }

    #[test]
    fn an_ended_session_is_not_opened_again() {
        let (sessions, principal) = (Sessions::new(&Secret::new("s")), anyone());
        let id = begun(&sessions, &principal);
        let find = || sessions.find((&principal, &SCOPE), &id, NOW);
        sessions.end(&find().unwrap());
        assert!(find().is_none());
    }

    #[test]
    fn large_capabilities_keep_what_can_be_asked() {
        let small = Json::of(&json!({"elicitation": {"url": {}}, "x": 1}));
        assert_eq!(bounded(Some(small.clone())), small);
        let long = "x".repeat(DECLARED);
        let large =
            json!({"elicitation": {"url": {}}, "roots": {"x": long}, "x": long, "sampling": true});
        let kept = bounded(Some(Json::of(&large)));
        assert_eq!(
            kept.value(),
            json!({"elicitation": {"url": {}}, "roots": {}, "sampling": true})
        );
        assert_eq!((bounded(None), bounded(Some(Json::of("x")))), (Json::empty(), Json::empty()));
    }
}
