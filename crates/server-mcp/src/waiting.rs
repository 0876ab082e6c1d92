//! The sealed `requestState` of pending calls: bound to caller, endpoint and arguments, usable
//! once.

mod taken;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use catalog::canonical;
use identity::Principal;
use tool::call::Resume;
use tool::store::Expect;
use tool::{CallId, Json, Secret, Store, StoreError, Wall};
use uuid::Uuid;

use super::asked::{Asked, Who, text};
use super::refused::Refused;
use server_core::seal::{Seal, hash};
use taken::{NONCE, TAKEN, Taken};

/// Time within which an input request must be answered.
const HOLDS: Duration = Duration::from_mins(10);
/// Maximum bytes of resumption data of an executor.
const RESUME: usize = 64 << 10;
/// Store prefix of used request states.
const PREFIX: &str = "request_state/";
/// Store rows read per page.
const PAGE: usize = 1_000;

const CALL: usize = 16;
const UNTIL: usize = 8;
const BOUND: usize = 32;

/// The binding of a request state: endpoint, method, target and arguments.
#[derive(Debug)]
pub(crate) struct Bound {
    scope: String,
    method: &'static str,
    target: String,
    args: Json,
}

impl Bound {
    pub(crate) fn new(asked: &Asked<'_>, target: &str, args: &Json) -> Self {
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

    /// Hashes the binding; arguments that differ only in notation hash alike.
    fn hash(&self) -> [u8; BOUND] {
        let args = canonical::digest(&self.args).to_string();
        hash(&[&self.scope, self.method, &self.target, &args])
    }
}

/// Seals and opens request states, and remembers the used ones.
#[derive(Debug)]
pub(crate) struct Waits {
    seal: Seal,
    approvals: Seal,
    taken: Mutex<Taken>,
    /// Whether the states used by earlier processes were loaded.
    knows: AtomicBool,
}

impl Waits {
    pub(crate) fn new(secret: &Secret) -> Self {
        let seal = |label| Seal::new(secret, label);
        Self {
            seal: seal("toolkeep mcp request state"),
            approvals: seal("toolkeep mcp approval state"),
            taken: Mutex::default(),
            knows: AtomicBool::new(false),
        }
    }

    /// Seals a state that references a pending approval. The call's status is in the store, so the
    /// state can be presented any number of times.
    pub(crate) fn point(
        &self,
        principal: &Principal,
        bound: &Bound,
        call: CallId,
    ) -> Option<String> {
        let plain = [&call.0.as_bytes()[..], &bound.hash()].concat();
        self.approvals.close(&whose(principal), &plain)
    }

    /// Opens a state that references a pending approval; `None` if it is another kind of state.
    pub(crate) fn pointed(
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

    /// Seals the state of a call that requests input; `None` if it is too large or no randomness is
    /// available.
    pub(crate) fn seal(
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

    /// Opens the request state of a request, if it has one, and marks it as used.
    pub(crate) async fn resume(
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
        // Responses without a state are unsolicited; the source receives them as such.
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
        let store = who.doors.parts.keys.store();
        let (org, key) = (who.principal.org().as_str(), who.principal.root_key());
        self.take(store, (opened.nonce, opened.until), format!("{org}/{key}").into(), now).await?;
        let answers = answers.unwrap_or_else(Json::empty);
        Ok(Some(Resume { call: opened.call, state: opened.resume.to_vec().into(), answers }))
    }

    /// Marks a state as used by this root key. A row of the store records it, so that it stays used
    /// after a restart.
    async fn take(
        &self,
        store: &dyn Store,
        (nonce, until): ([u8; NONCE], u64),
        key: Arc<str>,
        now: u64,
    ) -> Result<(), Refused> {
        let unkept = |error: &StoreError| {
            tracing::warn!(%error, "a `requestState` cannot be taken");
            wrong("cannot be taken, because the store does not answer; try again")
        };
        if !self.knows.load(Ordering::Acquire) {
            self.recall(store).await.map_err(|error| unkept(&error))?;
        }
        for over in self.mark((nonce, until), Arc::clone(&key), now)? {
            // If it cannot be removed now, the next process removes it.
            if let Ok(Some(row)) = store.get(&row(&over)).await {
                drop(store.put(&row.key, Expect::Version(row.version), None).await);
            }
        }
        let bytes = Bytes::from([&until.to_be_bytes()[..], key.as_bytes()].concat());
        match store.put(&row(&nonce), Expect::Absent, Some(bytes)).await {
            Ok(_) => Ok(()),
            Err(StoreError::Conflict { .. }) => Err(used()),
            Err(error) => {
                self.lock().forget(&nonce);
                Err(unkept(&error))
            }
        }
    }

    /// Marks a nonce as used and returns expired nonces whose rows can be removed.
    fn mark(
        &self,
        (nonce, until): ([u8; NONCE], u64),
        key: Arc<str>,
        now: u64,
    ) -> Result<Vec<[u8; NONCE]>, Refused> {
        self.lock().insert((nonce, until), key, now)
    }

    /// Loads the nonces that earlier processes marked as used.
    async fn recall(&self, store: &dyn Store) -> Result<(), StoreError> {
        let (mut all, mut after) = (Vec::new(), None::<String>);
        while all.len() < TAKEN {
            let page = store.scan(PREFIX, after.as_deref(), PAGE).await?;
            let Some(last) = page.last() else { break };
            after = Some(last.key.clone());
            for row in &page {
                let nonce = row.key.strip_prefix(PREFIX).map(|hex| u128::from_str_radix(hex, 16));
                let Some((until, key)) = row.bytes.split_first_chunk::<UNTIL>() else { continue };
                if let Some(Ok(nonce)) = nonce {
                    let key = Arc::from(String::from_utf8_lossy(key));
                    all.push((u64::from_be_bytes(*until), nonce.to_be_bytes(), key));
                }
            }
        }
        all.sort_unstable();
        let mut taken = self.lock();
        if !self.knows.swap(true, Ordering::AcqRel) {
            taken.restore(all);
        }
        Ok(())
    }

    fn lock(&self) -> MutexGuard<'_, Taken> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn row(nonce: &[u8; NONCE]) -> String {
    format!("{PREFIX}{:032x}", u128::from_be_bytes(*nonce))
}

fn used() -> Refused {
    wrong("was used before; call again without it")
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

    use store::MemoryStore;
    use tool::{Secret, Store as _};

    use super::taken::TAKEN_OF_KEY;
    use super::{PREFIX, Waits};

    fn process() -> Waits {
        Waits::new(&Secret::new("s"))
    }

    async fn takes(waits: &Waits, store: &MemoryStore, nonce: u8, now: u64) -> bool {
        waits.take(store, ([nonce; 16], 1_000), Arc::from("a"), now).await.is_ok()
    }

    #[tokio::test]
    async fn no_root_key_takes_the_room_of_all() {
        let waits = process();
        let take = |number: usize, key: &'static str, now| {
            let nonce = u128::try_from(number).unwrap().to_be_bytes();
            waits.mark((nonce, 1_000), Arc::from(key), now).is_ok()
        };
        assert!((0..TAKEN_OF_KEY).all(|number| take(number, "a", 0)));
        assert!(!take(TAKEN_OF_KEY, "a", 0));
        // The controls: another key has room, once, and what has expired is not remembered.
        assert!(take(TAKEN_OF_KEY, "b", 0) && !take(TAKEN_OF_KEY, "b", 0));
        assert!(take(TAKEN_OF_KEY + 1, "a", 1_001));
    }

    #[tokio::test]
    async fn a_state_is_taken_once_also_by_the_process_after_and_by_one_beside() {
        let store = MemoryStore::new();
        let (first, beside) = (process(), process());
        assert!(takes(&first, &store, 1, 1).await && takes(&beside, &store, 2, 1).await);
        for again in [&first, &beside, &process()] {
            assert!(!takes(again, &store, 1, 2).await && !takes(again, &store, 2, 2).await);
        }
        // The control: one that nobody took, and what a process alone would remember.
        assert!(takes(&process(), &store, 3, 2).await);
        assert!(takes(&process(), &MemoryStore::new(), 1, 2).await);
    }

    #[tokio::test]
    async fn rows_of_expired_states_are_removed_by_whoever_comes_later() {
        let store = MemoryStore::new();
        let first = process();
        for nonce in 0..8 {
            assert!(takes(&first, &store, nonce, 1).await);
        }
        let later = process();
        for nonce in [100, 101] {
            later.take(&store, ([nonce; 16], 9_000), Arc::from("a"), 2_000).await.unwrap();
        }
        let rows = store.scan(PREFIX, None, 100).await.unwrap();
        assert_eq!(rows.len(), 2, "{rows:?}");
    }
}
