//! The running calls that a caller can cancel by id.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use tokio_util::sync::CancellationToken;
use tonic::Status;

/// Maximum length of a call id, in bytes.
const MAX_CALL_ID_BYTES: usize = 128;

/// Call id, unique for its caller.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct CallKey {
    caller_id: String,
    call_id: String,
}

#[derive(Debug, Clone, Default)]
pub(super) struct RunningCalls(Arc<Mutex<HashMap<CallKey, CancellationToken>>>);

/// A registered call, unregistered when this is dropped.
#[derive(Debug)]
pub(super) struct CallRegistration {
    calls: RunningCalls,
    key: Option<CallKey>,
    cancel_token: CancellationToken,
}

impl RunningCalls {
    /// Registers a call. A call without an id is not registered.
    pub(super) fn register_call(
        &self,
        caller_id: String,
        id: &str,
    ) -> Result<CallRegistration, Status> {
        let token = CancellationToken::new();
        if id.is_empty() {
            return Ok(CallRegistration { calls: self.clone(), key: None, cancel_token: token });
        }
        if id.len() > MAX_CALL_ID_BYTES {
            return Err(Status::invalid_argument(format!(
                "`call_id` is longer than {MAX_CALL_ID_BYTES} bytes"
            )));
        }
        let key = CallKey { caller_id, call_id: id.to_owned() };
        let mut calls = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if calls.contains_key(&key) {
            return Err(Status::already_exists("a call with this `call_id` is already running"));
        }
        calls.insert(key.clone(), token.clone());
        drop(calls);
        Ok(CallRegistration { calls: self.clone(), key: Some(key), cancel_token: token })
    }

    /// Cancels a call. Returns whether it was running.
    pub(super) fn cancel_call(&self, caller_id: String, call_id: String) -> bool {
        let calls = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let found = calls.get(&CallKey { caller_id, call_id });
        if let Some(token) = found {
            token.cancel();
        }
        found.is_some()
    }
}

impl CallRegistration {
    pub(super) fn cancel_token(&self) -> CancellationToken {
        self.cancel_token.clone()
    }
}

impl Drop for CallRegistration {
    fn drop(&mut self) {
        if let Some(key) = &self.key {
            self.calls.0.lock().unwrap_or_else(PoisonError::into_inner).remove(key);
        }
    }
}
