//! The sealed `requestState` of pending calls: bound to caller, endpoint and arguments, usable
//! once.

mod used_nonces;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use catalog::definition_digest;
use identity::Principal;
use tool::call::CallResumption;
use tool::clock::duration_millis;
use tool::store::WritePrecondition;
use tool::{CallId, Json, Secret, Store, StoreError, WallTime};
use uuid::Uuid;

use super::endpoint::Endpoint;
use super::request_context::{EndpointCaller, require_string};
use super::request_error::RequestError;
use server_core::sealing_key::{SealingKey, hash_parts};
use used_nonces::{MAX_USED_NONCES, NONCE_BYTES, UsedNonces};

/// Time within which an input request must be answered.
const STATE_LIFETIME: Duration = Duration::from_mins(10);
/// Maximum bytes of resumption data of an executor.
const MAX_RESUME_BYTES: usize = 64 << 10;
/// Store prefix of used request states.
const STORE_PREFIX: &str = "request_state/";
/// Store rows read per page.
const SCAN_PAGE_ROWS: usize = 1_000;

const CALL_ID_BYTES: usize = 16;
const EXPIRY_BYTES: usize = 8;
const BINDING_BYTES: usize = 32;

/// A method whose call can pause for input and be resumed with a request state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ResumableMethod {
    ToolsCall,
    PromptsGet,
    ResourcesRead,
}

impl ResumableMethod {
    /// Parses the name of a method; `None` for a method that cannot be resumed.
    pub(crate) fn parse(method: &str) -> Option<Self> {
        let all = [Self::ToolsCall, Self::PromptsGet, Self::ResourcesRead];
        all.into_iter().find(|resumable| resumable.as_str() == method)
    }

    /// The name in MCP, which the binding hash of a request state includes.
    fn as_str(self) -> &'static str {
        match self {
            Self::ToolsCall => "tools/call",
            Self::PromptsGet => "prompts/get",
            Self::ResourcesRead => "resources/read",
        }
    }
}

/// The binding of a request state: endpoint, method, target and arguments.
#[derive(Debug)]
pub(crate) struct StateBinding {
    endpoint: String,
    method: ResumableMethod,
    target: String,
    arguments: Json,
}

impl StateBinding {
    pub(crate) fn new(
        endpoint: &Endpoint,
        method: ResumableMethod,
        target: &str,
        args: &Json,
    ) -> Self {
        Self {
            endpoint: endpoint.binding_key().to_owned(),
            method,
            target: target.to_owned(),
            arguments: args.clone(),
        }
    }

    /// Hashes the binding; arguments that differ only in notation hash alike.
    fn binding_hash(&self) -> [u8; BINDING_BYTES] {
        let args = definition_digest::definition_digest(&self.arguments).to_string();
        hash_parts(&[&self.endpoint, self.method.as_str(), &self.target, &args])
    }
}

/// Seals and opens request states, and remembers the used ones.
#[derive(Debug)]
pub(crate) struct RequestStates {
    state_key: SealingKey,
    approval_key: SealingKey,
    used_nonces: Mutex<UsedNonces>,
    /// Whether the states used by earlier processes were loaded.
    is_restored: AtomicBool,
}

impl RequestStates {
    pub(crate) fn new(secret: &Secret) -> Self {
        let seal = |label| SealingKey::new(secret, label);
        Self {
            state_key: seal("toolkeep mcp request state"),
            approval_key: seal("toolkeep mcp approval state"),
            used_nonces: Mutex::default(),
            is_restored: AtomicBool::new(false),
        }
    }

    /// Seals a state that references a pending approval. The call's status is in the store, so the
    /// state can be presented any number of times.
    pub(crate) fn seal_approval_state(
        &self,
        principal: &Principal,
        binding: &StateBinding,
        call: CallId,
    ) -> Option<String> {
        let plain = [&call.0.as_bytes()[..], &binding.binding_hash()].concat();
        self.approval_key.seal_bytes(&owner_binding(principal), &plain)
    }

    /// Opens a state that references a pending approval; `None` if it is another kind of state.
    pub(crate) fn open_approval_state(
        &self,
        principal: &Principal,
        binding: &StateBinding,
        state: Option<&Json>,
    ) -> Result<Option<CallId>, RequestError> {
        let text = state.and_then(Json::string_value);
        let plain =
            text.and_then(|text| self.approval_key.open_sealed(&owner_binding(principal), &text));
        let Some(plain) = plain else { return Ok(None) };
        match plain.split_first_chunk::<CALL_ID_BYTES>() {
            Some((call, hash)) if *hash == binding.binding_hash() => {
                Ok(Some(CallId(Uuid::from_bytes(*call))))
            }
            _ => Err(invalid_state("belongs to another call; call again without it")),
        }
    }

    /// Seals the state of a call that requests input; `None` if it is too large or no randomness is
    /// available.
    pub(crate) fn seal_state(
        &self,
        principal: &Principal,
        binding: &StateBinding,
        (call, resume): (CallId, &[u8]),
        now: WallTime,
    ) -> Option<String> {
        let until = now.0.saturating_add(duration_millis(STATE_LIFETIME));
        if resume.len() > MAX_RESUME_BYTES {
            tracing::warn!(
                %call,
                bytes = resume.len(),
                "the request state of a source is too large"
            );
            return None;
        }
        let mut nonce = [0; NONCE_BYTES];
        getrandom::fill(&mut nonce).ok()?;
        let mut plain = Vec::with_capacity(
            CALL_ID_BYTES + EXPIRY_BYTES + NONCE_BYTES + BINDING_BYTES + resume.len(),
        );
        plain.extend_from_slice(call.0.as_bytes());
        plain.extend_from_slice(&until.to_be_bytes());
        plain.extend_from_slice(&nonce);
        plain.extend_from_slice(&binding.binding_hash());
        plain.extend_from_slice(resume);
        self.state_key.seal_bytes(&owner_binding(principal), &plain)
    }

    /// Opens the request state of a request, if it has one, and marks it as used.
    pub(crate) async fn open_state(
        &self,
        caller: EndpointCaller<'_>,
        binding: &StateBinding,
        (state, answers): (Option<Json>, Option<Json>),
    ) -> Result<Option<CallResumption>, RequestError> {
        let given = |json: &Json| json.kind() != "null";
        let (state, answers) = (state.filter(given), answers.filter(given));
        if let Some(answers) = answers.as_ref().filter(|answers| answers.kind() != "object") {
            let message =
                format!("`params.inputResponses` is {}; expected an object", answers.kind());
            return Err(RequestError::invalid_params(message));
        }
        // Responses without a state are unsolicited; the source receives them as such.
        let Some(state) = state else { return Ok(None) };
        let state = require_string("requestState", Some(&state))?;
        let plain = self.state_key.open_sealed(&owner_binding(caller.principal), &state);
        let opened = plain.as_deref().and_then(OpenedState::from_bytes).ok_or_else(|| {
            invalid_state(
                "is invalid: it was modified or belongs to another caller; call again \
                without it",
            )
        })?;
        if opened.binding_hash != binding.binding_hash() {
            return Err(invalid_state("belongs to another call; repeat the original call"));
        }
        let now = caller.state.components.clock.wall_now().0;
        if opened.expires_at < now {
            return Err(invalid_state("has expired; call again without it"));
        }
        let store = caller.state.components.keys.store();
        let (org, key) = (caller.principal.org().as_str(), caller.principal.limit_key_id());
        self.mark_used(
            store,
            (opened.nonce, opened.expires_at),
            format!("{org}/{key}").into(),
            now,
        )
        .await?;
        let answers = answers.unwrap_or_else(Json::empty_object);
        Ok(Some(CallResumption {
            pending_call_id: opened.call,
            state: opened.resume.to_vec().into(),
            input_responses: answers,
        }))
    }

    /// Marks a state as used by this root key. A row of the store records it, so that it stays used
    /// after a restart.
    async fn mark_used(
        &self,
        store: &dyn Store,
        (nonce, until): ([u8; NONCE_BYTES], u64),
        key: Arc<str>,
        now: u64,
    ) -> Result<(), RequestError> {
        let unkept = |error: &StoreError| {
            tracing::warn!(%error, "cannot accept a `requestState`");
            invalid_state("cannot be accepted, because the store is unavailable; try again")
        };
        if !self.is_restored.load(Ordering::Acquire) {
            self.restore_used(store).await.map_err(|error| unkept(&error))?;
        }
        for over in self.insert_nonce((nonce, until), Arc::clone(&key), now)? {
            // If it cannot be removed now, the next process removes it.
            if let Ok(Some(row)) = store.get_value(&nonce_row_key(&over)).await {
                drop(
                    store.put_value(&row.key, WritePrecondition::Version(row.version), None).await,
                );
            }
        }
        let bytes = Bytes::from([&until.to_be_bytes()[..], key.as_bytes()].concat());
        match store.put_value(&nonce_row_key(&nonce), WritePrecondition::Absent, Some(bytes)).await
        {
            Ok(_) => Ok(()),
            Err(StoreError::Conflict { .. }) => Err(already_used()),
            Err(error) => {
                self.lock_nonces().remove_nonce(&nonce);
                Err(unkept(&error))
            }
        }
    }

    /// Marks a nonce as used and returns expired nonces whose rows can be removed.
    fn insert_nonce(
        &self,
        (nonce, until): ([u8; NONCE_BYTES], u64),
        key: Arc<str>,
        now: u64,
    ) -> Result<Vec<[u8; NONCE_BYTES]>, RequestError> {
        self.lock_nonces().insert_nonce((nonce, until), key, now)
    }

    /// Loads the nonces that earlier processes marked as used.
    async fn restore_used(&self, store: &dyn Store) -> Result<(), StoreError> {
        let (mut all, mut after) = (Vec::new(), None::<String>);
        while all.len() < MAX_USED_NONCES {
            let page = store.scan_prefix(STORE_PREFIX, after.as_deref(), SCAN_PAGE_ROWS).await?;
            let Some(last) = page.last() else { break };
            after = Some(last.key.clone());
            for row in &page {
                let nonce =
                    row.key.strip_prefix(STORE_PREFIX).map(|hex| u128::from_str_radix(hex, 16));
                let Some((until, key)) = row.bytes.split_first_chunk::<EXPIRY_BYTES>() else {
                    continue;
                };
                if let Some(Ok(nonce)) = nonce {
                    let key = Arc::from(String::from_utf8_lossy(key));
                    all.push((u64::from_be_bytes(*until), nonce.to_be_bytes(), key));
                }
            }
        }
        all.sort_unstable();
        let mut taken = self.lock_nonces();
        if !self.is_restored.swap(true, Ordering::AcqRel) {
            taken.restore_nonces(all);
        }
        Ok(())
    }

    fn lock_nonces(&self) -> MutexGuard<'_, UsedNonces> {
        self.used_nonces.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn nonce_row_key(nonce: &[u8; NONCE_BYTES]) -> String {
    format!("{STORE_PREFIX}{:032x}", u128::from_be_bytes(*nonce))
}

fn already_used() -> RequestError {
    invalid_state("was already used; call again without it")
}

struct OpenedState<'a> {
    call: CallId,
    expires_at: u64,
    nonce: [u8; NONCE_BYTES],
    binding_hash: [u8; BINDING_BYTES],
    resume: &'a [u8],
}

impl<'a> OpenedState<'a> {
    fn from_bytes(plain: &'a [u8]) -> Option<Self> {
        let (call, rest) = plain.split_first_chunk::<CALL_ID_BYTES>()?;
        let (until, rest) = rest.split_first_chunk::<EXPIRY_BYTES>()?;
        let (nonce, rest) = rest.split_first_chunk::<NONCE_BYTES>()?;
        let (bound, resume) = rest.split_first_chunk::<BINDING_BYTES>()?;
        Some(Self {
            call: CallId(Uuid::from_bytes(*call)),
            expires_at: u64::from_be_bytes(*until),
            nonce: *nonce,
            binding_hash: *bound,
            resume,
        })
    }
}

fn owner_binding(principal: &Principal) -> [&str; 2] {
    [principal.org().as_str(), principal.key_id()]
}

fn invalid_state(what: &str) -> RequestError {
    RequestError::invalid_params(format!("the `requestState` {what}"))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use store::MemoryStore;
    use tool::{Secret, Store as _};

    use super::used_nonces::MAX_USED_NONCES_PER_KEY;
    use super::{RequestStates, ResumableMethod, STORE_PREFIX};

    fn process() -> RequestStates {
        RequestStates::new(&Secret::new("s"))
    }

    async fn takes(waits: &RequestStates, store: &MemoryStore, nonce: u8, now: u64) -> bool {
        waits.mark_used(store, ([nonce; 16], 1_000), Arc::from("a"), now).await.is_ok()
    }

    #[tokio::test]
    async fn no_root_key_takes_the_room_of_all() {
        let waits = process();
        let take = |number: usize, key: &'static str, now| {
            let nonce = u128::try_from(number).unwrap().to_be_bytes();
            waits.insert_nonce((nonce, 1_000), Arc::from(key), now).is_ok()
        };
        assert!((0..MAX_USED_NONCES_PER_KEY).all(|number| take(number, "a", 0)));
        assert!(!take(MAX_USED_NONCES_PER_KEY, "a", 0));
        // The controls: another key has room, once, and what has expired is not remembered.
        assert!(take(MAX_USED_NONCES_PER_KEY, "b", 0) && !take(MAX_USED_NONCES_PER_KEY, "b", 0));
        assert!(take(MAX_USED_NONCES_PER_KEY + 1, "a", 1_001));
    }

    #[test]
    fn only_three_methods_can_be_resumed() {
        for method in ["tools/call", "prompts/get", "resources/read"] {
            assert_eq!(ResumableMethod::parse(method).unwrap().as_str(), method);
        }
        assert_eq!(ResumableMethod::parse("resources/list"), None);
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
            later.mark_used(&store, ([nonce; 16], 9_000), Arc::from("a"), 2_000).await.unwrap();
        }
        let rows = store.scan_prefix(STORE_PREFIX, None, 100).await.unwrap();
        assert_eq!(rows.len(), 2, "{rows:?}");
    }
}
