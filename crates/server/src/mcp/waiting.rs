//! Calls that wait for answers of a stateless client: our `requestState`, sealed, bound and taken once.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use catalog::canonical;
use identity::Principal;
use tool::call::Resume;
use tool::{CallId, Json, Secret, Wall};
use uuid::Uuid;

use super::asked::{Asked, Who, text};
use super::refused::Refused;
use crate::seal::{Seal, hash};

/// How long a question may be answered.
const HOLDS: Duration = Duration::from_mins(10);
/// Bytes that an executor may want back. More is no state but a store.
const RESUME: usize = 64 << 10;
/// States that were taken and are remembered until they would expire anyway. Past that, new ones are
/// refused rather than old ones forgotten.
const TAKEN: usize = 100_000;
/// Those of one root key among them.
const TAKEN_OF_KEY: usize = TAKEN / 10;

const CALL: usize = 16;
const UNTIL: usize = 8;
const NONCE: usize = 16;
const BOUND: usize = 32;

/// What a question belongs to: endpoint, method, target and arguments.
#[derive(Debug)]
pub(super) struct Bound {
    scope: String,
    method: &'static str,
    target: String,
    args: Json,
}

impl Bound {
    pub(super) fn new(asked: &Asked<'_>, target: &str, args: &Json) -> Self {
        Self {
            scope: asked.who.scope.word().to_owned(),
            method: match asked.method {
                "prompts/get" => "prompts/get",
                "resources/read" => "resources/read",
                _ => "tools/call",
            },
            target: target.to_owned(),
            args: args.clone(),
        }
    }

    /// The same for arguments that are written in another way.
    fn hash(&self) -> [u8; BOUND] {
        let args = canonical::digest(&self.args).to_string();
        hash(&[&self.scope, self.method, &self.target, &args])
    }
}

/// Seals and opens states, and remembers those that were taken.
#[derive(Debug)]
pub(super) struct Waits {
    seal: Seal,
    approvals: Seal,
    taken: Mutex<Taken>,
}

#[derive(Debug, Default)]
struct Taken {
    nonces: HashSet<[u8; NONCE]>,
    /// With the root keys that they count for.
    order: VecDeque<(u64, [u8; NONCE], Arc<str>)>,
    keys: HashMap<Arc<str>, usize>,
}

impl Taken {
    /// Those that would have expired by now need not be remembered.
    fn sweep(&mut self, now: u64) {
        while let Some((_, nonce, key)) = self.order.pop_front_if(|(until, ..)| *until < now) {
            self.nonces.remove(&nonce);
            if let Some(count) = self.keys.get_mut(&key) {
                *count -= 1;
                if *count == 0 {
                    self.keys.remove(&key);
                }
            }
        }
    }
}

impl Waits {
    pub(super) fn new(secret: &Secret) -> Self {
        let seal = |label| Seal::new(secret, label);
        Self {
            seal: seal("toolkeep mcp request state"),
            approvals: seal("toolkeep mcp approval state"),
            taken: Mutex::default(),
        }
    }

    /// The state of a call that is held for a person. It only points: what is true of the call stands in
    /// the store, so it may be shown as often as it likes.
    pub(super) fn point(
        &self,
        principal: &Principal,
        bound: &Bound,
        call: CallId,
    ) -> Option<String> {
        let plain = [&call.0.as_bytes()[..], &bound.hash()].concat();
        self.approvals.close(&whose(principal), &plain)
    }

    /// The held call that a state points to; nothing where it is another kind of state.
    pub(super) fn pointed(
        &self,
        principal: &Principal,
        bound: &Bound,
        state: Option<&Json>,
    ) -> Result<Option<CallId>, Refused> {
        let text = state.and_then(Json::text);
        let plain = text.and_then(|text| self.approvals.open(&whose(principal), &text));
        let Some(plain) = plain else { return Ok(None) };
        match plain.split_first_chunk::<CALL>() {
            Some((call, hash)) if *hash == bound.hash() => {
                Ok(Some(CallId(Uuid::from_bytes(*call))))
            }
            _ => Err(wrong("belongs to another call; call again without it")),
        }
    }

    /// The state of a call that waits; nothing where it is too large or there is no randomness.
    pub(super) fn seal(
        &self,
        principal: &Principal,
        bound: &Bound,
        (call, resume): (CallId, &[u8]),
        now: Wall,
    ) -> Option<String> {
        let until = now.0.saturating_add(u64::try_from(HOLDS.as_millis()).ok()?);
        if resume.len() > RESUME {
            tracing::warn!(%call, bytes = resume.len(), "a source wants too much back");
            return None;
        }
        let mut nonce = [0; NONCE];
        getrandom::fill(&mut nonce).ok()?;
        let mut plain = Vec::with_capacity(CALL + UNTIL + NONCE + BOUND + resume.len());
        plain.extend_from_slice(call.0.as_bytes());
        plain.extend_from_slice(&until.to_be_bytes());
        plain.extend_from_slice(&nonce);
        plain.extend_from_slice(&bound.hash());
        plain.extend_from_slice(resume);
        self.seal.close(&whose(principal), &plain)
    }

    /// What a request goes on with, where it brings a state.
    pub(super) fn resume(
        &self,
        who: Who<'_>,
        bound: &Bound,
        (state, answers): (Option<Json>, Option<Json>),
    ) -> Result<Option<Resume>, Refused> {
        let given = |json: &Json| json.kind() != "null";
        let (state, answers) = (state.filter(given), answers.filter(given));
        if let Some(answers) = answers.as_ref().filter(|answers| answers.kind() != "object") {
            let told = format!("`params.inputResponses` is {}; expected an object", answers.kind());
            return Err(Refused::params(told));
        }
        // Answers to what was not asked, or not of this client: the source sees them as such.
        let Some(state) = state else { return Ok(None) };
        let state = text("requestState", Some(&state))?;
        let plain = self.seal.open(&whose(who.principal), &state);
        let opened = plain.as_deref().and_then(Opened::read).ok_or_else(|| {
            wrong("does not hold: it was changed, or is another's; call again without it")
        })?;
        if opened.bound != bound.hash() {
            return Err(wrong("belongs to another call; repeat the call as it was"));
        }
        let now = who.doors.parts.clock.wall().0;
        if opened.until < now {
            return Err(wrong("has expired; call again without it"));
        }
        let (org, key) = (who.principal.org().as_str(), who.principal.root_key());
        self.take((opened.nonce, opened.until), format!("{org}/{key}").into(), now)?;
        let answers = answers.unwrap_or_else(Json::empty);
        Ok(Some(Resume { call: opened.call, state: opened.resume.to_vec().into(), answers }))
    }

    /// A state may be taken once; `key` is the root key that it counts for.
    fn take(
        &self,
        (nonce, until): ([u8; NONCE], u64),
        key: Arc<str>,
        now: u64,
    ) -> Result<(), Refused> {
        let mut taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        taken.sweep(now);
        if taken.nonces.contains(&nonce) {
            return Err(wrong("was used before; call again without it"));
        }
        let own = taken.keys.get(&key).copied().unwrap_or_default();
        if taken.order.len() >= TAKEN || own >= TAKEN_OF_KEY {
            return Err(wrong(
                "cannot be taken: too many questions were answered lately; try later",
            ));
        }
        taken.nonces.insert(nonce);
        *taken.keys.entry(Arc::clone(&key)).or_default() += 1;
        taken.order.push_back((until, nonce, key));
        Ok(())
    }
}

struct Opened<'a> {
    call: CallId,
    until: u64,
    nonce: [u8; NONCE],
    bound: [u8; BOUND],
    resume: &'a [u8],
}

impl<'a> Opened<'a> {
    fn read(plain: &'a [u8]) -> Option<Self> {
        let (call, rest) = plain.split_first_chunk::<CALL>()?;
        let (until, rest) = rest.split_first_chunk::<UNTIL>()?;
        let (nonce, rest) = rest.split_first_chunk::<NONCE>()?;
        let (bound, resume) = rest.split_first_chunk::<BOUND>()?;
        Some(Self {
            call: CallId(Uuid::from_bytes(*call)),
            until: u64::from_be_bytes(*until),
            nonce: *nonce,
            bound: *bound,
            resume,
        })
    }
}

fn whose(principal: &Principal) -> [&str; 2] {
    [principal.org().as_str(), principal.key()]
}

fn wrong(what: &str) -> Refused {
    Refused::params(format!("the `requestState` {what}"))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use tool::Secret;

    use super::{TAKEN_OF_KEY, Waits};

    #[test]
    fn a_state_is_taken_once_and_no_key_takes_the_room_of_all() {
        let waits = Waits::new(&Secret::new("s"));
        let take = |number: usize, key: &str, now| {
            let nonce = u128::try_from(number).unwrap().to_be_bytes();
            waits.take((nonce, 1_000), Arc::from(key), now).is_ok()
        };
        assert!((0..TAKEN_OF_KEY).all(|number| take(number, "a", 0)));
        assert!(!take(TAKEN_OF_KEY, "a", 0));
        // The controls: another key has room, once, and what has expired is not remembered.
        assert!(take(TAKEN_OF_KEY, "b", 0) && !take(TAKEN_OF_KEY, "b", 0));
        assert!(take(TAKEN_OF_KEY + 1, "a", 1_001));
    }
}
