//! Execution of one encoded request: a request permit, a pooled or new connection, and the response
//! head within its timeouts.

use std::sync::Arc;
use std::time::Duration;

use http::StatusCode;
use http1::ResponseStart;
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::timeout;
use tool::executor::DispatchState;

use crate::connection_pool::PoolKey;
use crate::http_connection::{HttpConnection, StackRequest};
use crate::response_body::ConnectionGuard;
use crate::{
    EgressBody, EgressClient, EgressError, EgressResponse, Origin, RedactedUrl, RequestLimits,
    RequestPhase, UrlTrust,
};

/// Checked destination of a request.
pub(super) struct Destination<'a> {
    pub(super) trust: &'a UrlTrust,
    pub(super) origin: &'a Origin,
    /// Names the destination in errors.
    pub(super) url: &'a RedactedUrl,
}

impl EgressClient {
    /// Sends an encoded request on a pooled or a new connection, and returns when the response head
    /// has arrived.
    pub(super) async fn execute_request(
        &self,
        Destination { trust, origin, url }: Destination<'_>,
        request: StackRequest,
        limits: RequestLimits,
    ) -> Result<EgressResponse, EgressError> {
        // Rarely needed futures are boxed, here and below, to keep the others small.
        let permit = match Arc::clone(&self.0.request_permits).try_acquire_owned() {
            Ok(permit) => permit,
            Err(_) => Box::pin(self.acquire_permit(url, limits.connect_timeout)).await?,
        };
        let key = PoolKey::from_origin(trust, origin);
        loop {
            let pooled = self.0.pool.take_connection(&key);
            let is_reused = pooled.is_some();
            let mut connection = match pooled {
                Some(connection) => connection,
                None => {
                    Box::pin(self.open_connection(trust, origin, limits.connect_timeout)).await?
                }
            };
            let timeout_error = || EgressError::TimedOut {
                url: url.clone(),
                phase: RequestPhase::ResponseHead,
                timeout: limits.header_timeout,
                dispatch: DispatchState::MaybeSent,
            };
            match run_with_timeout(limits.header_timeout, connection.send_request(&request))
                .await
                .ok_or_else(timeout_error)?
            {
                Ok(start) => {
                    let guard = ConnectionGuard {
                        connection,
                        key,
                        pool: Arc::clone(&self.0.pool),
                        _permit: permit,
                    };
                    return into_response(start, guard, url.clone(), limits);
                }
                Err(failed) if failed.is_unsent && is_reused => {}
                Err(failed) => {
                    let sent = if failed.is_unsent {
                        DispatchState::NotSent
                    } else {
                        DispatchState::MaybeSent
                    };
                    let reason = format!("no response: {}", failed.error);
                    return Err(EgressError::Protocol { url: url.clone(), reason, dispatch: sent });
                }
            }
        }
    }

    /// Waits for a free request permit.
    async fn acquire_permit(
        &self,
        url: &RedactedUrl,
        limit: Duration,
    ) -> Result<OwnedSemaphorePermit, EgressError> {
        match timeout(limit, Arc::clone(&self.0.request_permits).acquire_owned()).await {
            Ok(Ok(permit)) => Ok(permit),
            _ => Err(EgressError::TimedOut {
                url: url.clone(),
                phase: RequestPhase::RequestPermit,
                timeout: limit,
                dispatch: DispatchState::NotSent,
            }),
        }
    }

    async fn open_connection(
        &self,
        trust: &UrlTrust,
        origin: &Origin,
        limit: Duration,
    ) -> Result<HttpConnection, EgressError> {
        let stream = self.0.connector.connect_origin(trust, origin, limit).await?;
        HttpConnection::from_stream(stream, self.0.http_stack).await.map_err(|error| {
            EgressError::Unreachable {
                url: RedactedUrl::from_text(&origin.to_string()),
                reason: error.to_string(),
                is_refused: false,
                dispatch: DispatchState::NotSent,
            }
        })
    }
}

/// Runs a future with a timeout. `Duration::MAX` sets no timer.
async fn run_with_timeout<T>(limit: Duration, work: impl Future<Output = T>) -> Option<T> {
    if limit == Duration::MAX {
        return Some(work.await);
    }
    // Boxed, because a timer enlarges the future that contains it.
    Box::pin(timeout(limit, work)).await.ok()
}

fn into_response(
    start: ResponseStart,
    guard: ConnectionGuard,
    url: RedactedUrl,
    limits: RequestLimits,
) -> Result<EgressResponse, EgressError> {
    if start.head.status == StatusCode::SWITCHING_PROTOCOLS {
        let reason = "it switched to another protocol, which nobody asked for".to_owned();
        return Err(EgressError::Protocol { url, reason, dispatch: DispatchState::MaybeSent });
    }
    let declared_length = start.content_length.unwrap_or_default();
    if usize::try_from(declared_length).is_ok_and(|length| length > limits.max_body_bytes) {
        return Err(EgressError::TooLarge { url, limit: limits.max_body_bytes });
    }
    let ResponseStart { head, framing, content_length, .. } = start;
    let body =
        EgressBody::new(framing, guard, url, limits.body_idle_timeout, limits.max_body_bytes);
    Ok(EgressResponse::new(head, content_length, body))
}
