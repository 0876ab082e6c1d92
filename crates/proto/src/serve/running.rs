//! Calls that run and can be cancelled by their id.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use tokio_util::sync::CancellationToken;
use tonic::Status;

/// The longest id of a call, in bytes.
const ID: usize = 128;

/// By whose they are and the id that the caller gave.
type Calls = HashMap<(String, String), CancellationToken>;

#[derive(Debug, Clone, Default)]
pub(super) struct Running(Arc<Mutex<Calls>>);

/// A call that runs; forgotten when this is dropped.
#[derive(Debug)]
pub(super) struct Entered {
    calls: Running,
    key: Option<(String, String)>,
    token: CancellationToken,
}

impl Running {
    /// Remembers a call, unless it has no id.
    pub(super) fn enter(&self, who: String, id: &str) -> Result<Entered, Status> {
        let token = CancellationToken::new();
        if id.is_empty() {
            return Ok(Entered { calls: self.clone(), key: None, token });
        }
        if id.len() > ID {
            return Err(Status::invalid_argument(format!("`call_id` has over {ID} bytes")));
        }
        let key = (who, id.to_owned());
        let mut calls = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if calls.contains_key(&key) {
            return Err(Status::already_exists("a call with this `call_id` runs already"));
        }
        calls.insert(key.clone(), token.clone());
        drop(calls);
        Ok(Entered { calls: self.clone(), key: Some(key), token })
    }

    /// Whether there was one.
    pub(super) fn cancel(&self, who: String, id: String) -> bool {
        let calls = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let found = calls.get(&(who, id));
        if let Some(token) = found {
            token.cancel();
        }
        found.is_some()
    }
}

impl Entered {
    pub(super) fn cancelled(&self) -> CancellationToken {
        self.token.clone()
    }
}

impl Drop for Entered {
    fn drop(&mut self) {
        if let Some(key) = &self.key {
            self.calls.0.lock().unwrap_or_else(PoisonError::into_inner).remove(key);
        }
    }
}
