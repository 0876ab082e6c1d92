//! Memory budget for bodies beyond the usual size: a total number of bytes, reserved while any part
//! of the body is alive. Nobody waits for it.

use std::sync::Arc;

use axum::body::{Body, Bytes};
use http_body::Body as _;
use http_body_util::BodyExt as _;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tool::ErrorCode;

use crate::error::ApiError;

/// Total size of such bodies in bytes: two of the largest.
const BUDGET_BYTES: usize =
    2 * (tool::JsonLimits::MAX_ARGUMENT_BYTES + crate::server_state::ENVELOPE_BYTES);
/// Bytes per semaphore permit.
const BYTES_PER_PERMIT: usize = 1 << 10;

/// Memory budget for large request bodies.
#[derive(Debug)]
pub struct BodyBudget(Arc<Semaphore>);

impl Default for BodyBudget {
    fn default() -> Self {
        Self(Arc::new(Semaphore::new(BUDGET_BYTES / BYTES_PER_PERMIT)))
    }
}

/// A body with its reserved bytes.
struct BudgetedBytes {
    bytes: Vec<u8>,
    _permit: OwnedSemaphorePermit,
}

impl AsRef<[u8]> for BudgetedBytes {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl BodyBudget {
    fn reserve_bytes(&self, bytes: usize) -> Result<OwnedSemaphorePermit, ApiError> {
        let units = u32::try_from(bytes.div_ceil(BYTES_PER_PERMIT)).unwrap_or(u32::MAX);
        Arc::clone(&self.0).try_acquire_many_owned(units).map_err(|_| {
            let message = "too many large bodies are being received";
            ApiError::new(ErrorCode::Busy, message).with_help(
                "try again soon, or send a smaller \
                body",
            )
        })
    }

    /// Reads a body of at most `max_bytes` bytes. A body beyond `unbudgeted_bytes` reserves bytes
    /// from then until its last byte is dropped.
    ///
    /// # Errors
    /// Returns an error if it is too large or incomplete, or the budget is exhausted.
    pub async fn read_body(
        &self,
        mut body: Body,
        unbudgeted_bytes: usize,
        max_bytes: usize,
    ) -> Result<Bytes, ApiError> {
        let large = || {
            ApiError::new(ErrorCode::TooLarge, format!("the body is larger than {max_bytes} bytes"))
        };
        let message = usize::try_from(body.size_hint().lower()).unwrap_or(usize::MAX);
        if message > max_bytes {
            return Err(large());
        }
        let mut room =
            if message > unbudgeted_bytes { Some(self.reserve_bytes(message)?) } else { None };
        let mut bytes = Vec::with_capacity(message);
        while let Some(frame) = body.frame().await {
            let broke = "the body ended early";
            let frame = frame.map_err(|_| ApiError::new(ErrorCode::InvalidRequest, broke))?;
            let Ok(data) = frame.into_data() else { continue };
            let size = bytes.len() + data.len();
            if size > max_bytes {
                return Err(large());
            }
            if size > unbudgeted_bytes && room.is_none() {
                // The final size is unknown.
                room = Some(self.reserve_bytes(max_bytes)?);
            }
            bytes.extend_from_slice(&data);
        }
        Ok(match room {
            Some(room) => Bytes::from_owner(BudgetedBytes { bytes, _permit: room }),
            None => bytes.into(),
        })
    }
}

#[cfg(test)]
mod tests {
    use axum::body::Body;
    use tool::ErrorCode;

    use super::{BUDGET_BYTES, BYTES_PER_PERMIT, BodyBudget};

    #[tokio::test]
    async fn what_is_more_than_usual_takes_room_for_as_long_as_it_is_held() {
        let room = BodyBudget::default();
        let all = BUDGET_BYTES / BYTES_PER_PERMIT;
        let small = room.read_body(Body::from(vec![1; 10]), 10, 5_000).await.unwrap();
        assert_eq!((small.len(), room.0.available_permits()), (10, all));
        let large = room.read_body(Body::from(vec![1; 3_000]), 10, 5_000).await.unwrap();
        assert_eq!((large.len(), room.0.available_permits()), (3_000, all - 3));
        let part = large.slice(7..9);
        drop(large);
        assert_eq!(room.0.available_permits(), all - 3);
        drop(part);
        assert_eq!(room.0.available_permits(), all);
        let error = room.read_body(Body::from(vec![1; 5_001]), 10, 5_000).await.unwrap_err();
        assert_eq!(error.code(), ErrorCode::TooLarge);
    }

    #[tokio::test]
    async fn without_room_it_is_told_at_once_also_where_the_length_is_not() {
        let room = BodyBudget::default();
        let _all = room.reserve_bytes(BUDGET_BYTES).unwrap();
        let error = room.read_body(Body::from(vec![1; 3_000]), 10, 5_000).await.unwrap_err();
        assert_eq!(error.code(), ErrorCode::Busy);
        let parts = || {
            let parts = (0..3).map(|_| Ok::<_, std::io::Error>(vec![1_u8; 8]));
            Body::from_stream(futures_util::stream::iter(parts))
        };
        let error = room.read_body(parts(), 10, 5_000).await.unwrap_err();
        assert_eq!(error.code(), ErrorCode::Busy);
        assert_eq!(room.read_body(parts(), 24, 5_000).await.unwrap().len(), 24);
        let error = room.read_body(parts(), 10, 20).await.unwrap_err();
        assert_eq!(error.code(), ErrorCode::Busy);
    }
}
