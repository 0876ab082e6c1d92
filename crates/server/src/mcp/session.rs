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
const LIVES: usize = 4_096;
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
#[derive(Debug, Clone)]
pub(super) struct Session {
    nonce: Nonce,
    pub(super) client: ClientCan,
    pub(super) live: Arc<Live>,
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
    lives: HashMap<Nonce, Arc<Live>>,
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
    pub(super) fn find(&self, of: (&Principal, &Scope), id: &str, now: Wall) -> Option<Session> {
        let id = Some(id).filter(|id| id.len() <= LONGEST)?;
        let fact: Fact = serde_json::from_slice(&self.seal.open(&bound(of), id)?).ok()?;
        if fact.until < now.0 || Revision::read(&fact.revision).is_none() {
            return None;
        }
        let live = self.live(fact.nonce)?;
        Some(Session { nonce: fact.nonce, client: client::can(fact.declared), live })
    }

    /// Its state in this process; nothing where it was ended.
    fn live(&self, nonce: Nonce) -> Option<Arc<Live>> {
        let tick = self.ticks.fetch_add(1, Ordering::Relaxed);
        let mut known = self.known();
        if known.ended.contains(&nonce) {
            return None;
        }
        if let Some(live) = known.lives.get(&nonce) {
            live.touch(tick);
            return Some(Arc::clone(live));
        }
        if known.lives.len() >= LIVES {
            make_room(&mut known.lives);
        }
        let live = Arc::new(Live::default());
        live.touch(tick);
        // Where all are in use, this one's requests run all the same; only none of them finds another.
        if known.lives.len() < LIVES {
            known.lives.insert(nonce, Arc::clone(&live));
        }
        Some(live)
    }

    /// Ends one: its id does not hold in this process any more.
    pub(super) fn end(&self, session: &Session) {
        let mut known = self.known();
        known.lives.remove(&session.nonce);
        if known.ended.len() >= ENDED {
            known.ended.pop_front();
        }
        known.ended.push_back(session.nonce);
        drop(known);
        session.live.end();
    }

    /// Ends the streams of all.
    pub(super) fn close(&self) {
        let lives: Vec<_> = self.known().lives.drain().map(|(_, live)| live).collect();
        for live in lives {
            live.end();
        }
    }
}

/// The least lately used quarter of what nothing needs goes.
fn make_room(lives: &mut HashMap<Nonce, Arc<Live>>) {
    let mut idle: Vec<_> = lives
        .iter()
        .filter(|(_, live)| !live.busy())
        .map(|(nonce, live)| (live.used(), *nonce))
        .collect();
    idle.sort_unstable();
    for (_, nonce) in idle.iter().take((LIVES / 4).max(1)) {
        lives.remove(nonce);
    }
}

fn bound<'a>((principal, scope): (&'a Principal, &'a Scope)) -> [&'a str; 3] {
    [principal.org().as_str(), principal.key(), scope.word()]
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

/// Large ones in short: what can be asked stays, details do not.
fn bounded(declared: Option<Json>) -> Json {
    let declared = declared.filter(|json| json.kind() == "object").unwrap_or_else(Json::empty);
    if declared.bytes().len() <= DECLARED {
        return declared;
    }
    let can = client::can(declared);
    let empty = Json::empty();
    let short = [("elicitation", can.elicit), ("sampling", can.sample), ("roots", can.roots)];
    Json::fields(short.iter().filter(|(_, can)| *can).map(|(name, _)| (*name, &empty)))
}
