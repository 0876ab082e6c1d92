//! Who asks on a connection again: a key is not verified for each call.

use std::sync::{Arc, Mutex, PoisonError};

use http::header::AUTHORIZATION;
use http::{HeaderMap, HeaderValue};
use identity::Principal;
use proto::Status;

use super::{narrowed, refused};
use server_core::auth::{self, Holder};
use server_core::state::Doors;

/// Whose credential a connection's last call had.
#[derive(Debug, Default)]
pub(super) struct Known(Mutex<Option<(HeaderValue, Arc<Holder>)>>);

impl Known {
    /// Who holds this credential: the same as for the last call, where that had it too.
    fn holder(&self, said: &HeaderValue) -> Arc<Holder> {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match &*kept {
            Some((known, holder)) if known == said => Arc::clone(holder),
            _ => Arc::clone(&kept.insert((said.clone(), Arc::default())).1),
        }
    }
}

/// Who asks. A key that was verified with the ring of now, on the same connection, is not verified again.
pub(super) async fn principal(
    doors: &Doors,
    headers: HeaderMap,
    known: Option<&Known>,
) -> Result<Principal, Status> {
    let mut said = headers.get_all(AUTHORIZATION).iter();
    let (Some(known), Some(said), None) = (known, said.next(), said.next()) else {
        return super::principal(doors, headers).await;
    };
    let (holder, now) = (known.holder(said), doors.parts.clock.wall());
    let found = auth::principal(doors, (&headers, None), Some(&holder), now).await;
    narrowed(doors, found.map_err(|error| refused(&error))?, &headers)
}
