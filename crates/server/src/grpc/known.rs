//! Who asks on a connection again: a key is not verified for each call.

use std::sync::{Arc, Mutex, PoisonError};

use http::header::AUTHORIZATION;
use http::{HeaderMap, HeaderValue};
use identity::Principal;
use proto::Status;

use super::{narrowed, refused};
use crate::auth;
use crate::listen::Holder;
use crate::state::{Doors, Parts};

/// Whose credential a connection's last call had.
#[derive(Debug, Default)]
pub(super) struct Known(Mutex<Option<(HeaderValue, Arc<Holder>)>>);

impl Known {
    fn of(&self, said: &HeaderValue) -> Option<Arc<Holder>> {
        let kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        kept.as_ref().filter(|(known, _)| known == said).map(|(_, holder)| Arc::clone(holder))
    }

    fn keep(&self, said: HeaderValue, holder: Holder) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some((said, Arc::new(holder)));
    }
}

/// Who asks. A key that was verified with the ring of now, on the same connection, is not verified again.
pub(super) async fn principal(
    doors: &Doors,
    headers: HeaderMap,
    known: Option<&Known>,
) -> Result<Principal, Status> {
    let mut said = headers.get_all(AUTHORIZATION).iter();
    let (Some(known), Some(said), None) = (known, said.next().cloned(), said.next()) else {
        return super::principal(doors, headers).await;
    };
    let (Parts { keys, clock, .. }, ring) = (&doors.parts, doors.parts.keys.ring());
    let found = known.of(&said).and_then(|holder| holder.of(&ring, clock.wall()));
    if let Some(found) = found {
        keys.fresh(clock.as_ref()).map_err(|error| refused(&error))?;
        return narrowed(doors, found, &headers);
    }
    let found = auth::principal(doors, &headers, None).await;
    let found = found.map_err(|error| refused(&error))?;
    let holder = Holder::default();
    holder.keep(&ring, &found);
    known.keep(said, holder);
    narrowed(doors, found, &headers)
}
