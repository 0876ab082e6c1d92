//! Requests with an OAuth token. They are sent again if the server did nothing but demand another
//! token.

use std::sync::Arc;

use bytes::Bytes;
use egress::EgressResponse;
use http::{Method, StatusCode};

use super::session::HttpSession;
use super::{StreamableHttpTransport, response_body};
use crate::delivery_errors::HttpRequestError;
use crate::request_headers::HeaderPair;
use oauth_client::{AuthRetries, BearerChallenge, TokenProvider};

impl StreamableHttpTransport {
    /// Sends a request with a token of `token_provider`. `first` is the response to the request
    /// without a token, if it was sent without one.
    pub(super) async fn send_authorized(
        &self,
        (token_provider, mut first): (&Arc<TokenProvider>, Option<EgressResponse>),
        session: &HttpSession,
        (method, extra_headers): (Method, &[HeaderPair]),
        body: Bytes,
    ) -> Result<EgressResponse, HttpRequestError> {
        let mut attempts = AuthRetries::default();
        loop {
            let (token, response) = if let Some(response) = first.take() {
                (None, response)
            } else {
                let token = token_provider
                    .access_token()
                    .await
                    .map_err(HttpRequestError::from_token_error)?;
                let request = (method.clone(), extra_headers);
                let sent =
                    self.send_with_token(session, request, body.clone(), token.as_deref()).await?;
                (token, sent)
            };
            let status = response.status();
            let challenge = match status {
                StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => {
                    BearerChallenge::from_headers(response.headers())
                }
                _ => BearerChallenge::default(),
            };
            if status != StatusCode::UNAUTHORIZED && !challenge.is_insufficient_scope() {
                token.inspect(|token| token.mark_accepted());
                return Ok(response);
            }
            response_body::drain_body(response.into_body()).await;
            token_provider.require_auth();
            let refused = token_provider
                .handle_rejection(token.as_deref(), (status, challenge), &mut attempts)
                .await;
            refused.map_err(HttpRequestError::from_token_error)?;
        }
    }
}
