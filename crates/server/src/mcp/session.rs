//! Sessions of the handshake era. A session id is a sealed fact that any server of the installation
//! opens; what needs a live connection is state of this process, bounded, and gone with it.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use identity::Principal;
use mcp::Revision;
use serde::{Deserialize, Serialize};
use tool::executor::ClientCan;
use tool::{Json, Secret, Wall};

use super::live::Live;
use super::{client, scope::Scope};
use crate::seal::Seal;

/// Bytes of a client's capabilities that a session carries as they came; of more, only their names.
const DECLARED: usize = 1_024;
/// The longest session id that is opened.
const LONGEST: usize = 8 << 10;
/// Sessions whose state this process keeps at once.
const OPEN: usize = 4_096;
/// How long a session id holds.
const HOLDS: Duration = Duration::from_hours(30 * 24);
/// Sessions that were ended and are remembered as such.
const ENDED: usize = 4_096;

/// Names a session.
pub(super) type Nonce = [u8; 16];

/// What a session's id says.
#[derive(Debug, Serialize, Deserialize)]
struct Fact {
    nonce: Nonce,
    revision: String,
    until: u64,
    declared: Json,
}

/// A session that holds.
#[derive(Debug)]
pub(super) struct Session {
    id: Box<str>,
    nonce: Nonce,
    until: u64,
    /// Organisation, key and endpoint.
    bound: [Box<str>; 3],
    pub(super) client: ClientCan,
    pub(super) live: Arc<Live>,
}

impl Session {
    fn holds(&self, bound: [&str; 3], now: Wall) -> bool {
        self.until >= now.0 && self.bound.iter().zip(bound).all(|(own, asked)| **own == *asked)
    }
}

/// All sessions.
#[derive(Debug)]
pub(super) struct Sessions {
    seal: Seal,
    known: Mutex<Known>,
    ticks: AtomicU64,
}

#[derive(Debug, Default)]
struct Known {
    /// By their ids: what was opened once need not be opened again.
    open: HashMap<Box<str>, Arc<Session>>,
    ended: VecDeque<Nonce>,
}

impl Sessions {
    pub(super) fn new(secret: &Secret) -> Self {
        let seal = Seal::new(secret, "toolkeep mcp session");
        Self { seal, known: Mutex::default(), ticks: AtomicU64::new(0) }
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A new session's id; nothing where there is no randomness to be had.
    pub(super) fn begin(
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

    /// The session of this id; nothing where it does not hold, for this principal and endpoint.
    pub(super) fn find(
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
            // All are in use. Its requests run all the same; only none of them finds another.
            return Some(Arc::new(session));
        }
        // Two requests may have opened it at once; its state is one.
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

    /// Ends one: its id does not hold in this process any more.
    pub(super) fn end(&self, session: &Session) {
        let mut known = self.known();
        known.open.remove(&session.id);
        if known.ended.len() >= ENDED {
            known.ended.pop_front();
        }
        known.ended.push_back(session.nonce);
        drop(known);
        session.live.end();
    }

    /// Ends the streams of all.
    pub(super) fn close(&self) {
        let open: Vec<_> = self.known().open.drain().map(|(_, session)| session).collect();
        for session in open {
            session.live.end();
        }
    }
}

/// The least lately used quarter of what nothing needs goes.
fn make_room(open: &mut HashMap<Box<str>, Arc<Session>>) {
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

/// Large ones in short: what can be asked stays.
fn bounded(declared: Option<Json>) -> Json {
    let declared = declared.filter(|json| json.kind() == "object").unwrap_or_else(Json::empty);
    if declared.bytes().len() <= DECLARED {
        return declared;
    }
    let names = ["elicitation", "sampling", "roots"];
    let short = |member: Json| match member.kind() {
        "object" if member.bytes().len() > DECLARED / 4 => Json::empty(),
        _ => member,
    };
    let kept = declared.pick(names).map(|member| member.map(short));
    let kept = names.into_iter().zip(&kept);
    Json::fields(kept.filter_map(|(name, member)| Some((name, member.as_ref()?))))
}
