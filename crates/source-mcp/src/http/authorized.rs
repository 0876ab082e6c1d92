//! Requests that carry a token: sent again where the server surely did nothing but want another one.

use std::sync::Arc;

use bytes::Bytes;
use egress::Received;
use http::{Method, StatusCode};

use super::endpoint::Seat;
use super::{Endpoint, reply};
use crate::fail::HttpFault;
use crate::mirror::Header;
use oauth_client::{Account, Challenge, Tries};

impl Endpoint {
    /// Sends a request with a token of `account`, once a token was ever wanted. `first` is what the
    /// request was answered with when it went out without one.
    pub(super) async fn authorized(
        &self,
        (account, mut first): (&Arc<Account>, Option<Received>),
        seat: &Seat,
        (method, more): (Method, &[Header]),
        body: Bytes,
    ) -> Result<Received, HttpFault> {
        let mut tries = Tries::default();
        loop {
            let (token, response) = if let Some(response) = first.take() {
                (None, response)
            } else {
                let token = account.bearer().await.map_err(HttpFault::untokened)?;
                let request = (method.clone(), more);
                let sent = self.send_as(seat, request, body.clone(), token.as_deref()).await?;
                (token, sent)
            };
            let status = response.status();
            let challenge = match status {
                StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => {
                    Challenge::of(response.headers())
                }
                _ => Challenge::default(),
            };
            if status != StatusCode::UNAUTHORIZED && !challenge.wants_more() {
                token.inspect(|token| token.prove());
                return Ok(response);
            }
            reply::rest(response.into_body()).await;
            account.wake();
            let refused = account.refused(token.as_deref(), (status, challenge), &mut tries).await;
            refused.map_err(HttpFault::untokened)?;
        }
    }
}
