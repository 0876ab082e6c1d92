//! Signed messages to webhooks, as Standard Webhooks define them, sent with retries.
//!
//! <https://github.com/standard-webhooks/standard-webhooks/blob/main/spec/standard-webhooks.md>

mod signature;

use std::fmt;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use tokio::time::sleep;
use tool::{BoxFuture, WallTime};
use uuid::Uuid;

pub use signature::WebhookSecret;

/// Delay before each retry. With the time limits of a request, an attempt cycle ends within two minutes.
const RETRY_DELAYS: [Duration; 3] =
    [Duration::from_millis(500), Duration::from_secs(5), Duration::from_secs(20)];
/// Header with the id of a message, which is the same for each attempt.
const ID_HEADER: HeaderName = HeaderName::from_static("webhook-id");
/// Header with the time of an attempt, in seconds since 1970.
const TIMESTAMP_HEADER: HeaderName = HeaderName::from_static("webhook-timestamp");
/// Header with the signatures of an attempt.
const SIGNATURE_HEADER: HeaderName = HeaderName::from_static("webhook-signature");

/// Sends requests to webhooks. The implementation checks each address before it is dialled, and follows
/// no redirect.
pub trait WebhookTransport: Send + Sync + fmt::Debug {
    /// Checks a URL without resolving its host, for an early answer.
    ///
    /// # Errors
    /// Says why the URL may not be called.
    fn check_url(&self, url: &str) -> Result<(), String>;

    /// Sends one POST request and returns the body of a successful response.
    ///
    /// # Errors
    /// [`WebhookFailure`].
    fn post_request<'a>(
        &'a self,
        url: &'a str,
        request: WebhookRequest,
    ) -> BoxFuture<'a, Result<Bytes, WebhookFailure>>;
}

/// One attempt to send a message.
#[derive(Debug, Clone)]
pub struct WebhookRequest {
    /// Headers with the signature.
    pub headers: HeaderMap,
    /// The body that the signature covers.
    pub body: Bytes,
}

/// Reasons why a webhook did not accept a message. None repeats anything that the webhook answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum WebhookFailure {
    /// No connection was opened, or the address may not be reached.
    #[error("it cannot be reached")]
    ConnectionRefused,
    /// A time limit was exceeded.
    #[error("it did not respond in time")]
    Timeout,
    /// The TLS handshake failed.
    #[error("TLS failed")]
    TlsError,
    /// The response is not HTTP, or too large.
    #[error("its response is invalid")]
    InvalidResponse,
    /// The webhook responded with this status, which is no success.
    #[error("it responded with {0}")]
    Status(StatusCode),
}

impl WebhookFailure {
    /// The category for clients, which says nothing of what was answered.
    pub fn category(self) -> &'static str {
        match self {
            Self::ConnectionRefused => "connection_refused",
            Self::Timeout => "timeout",
            Self::TlsError => "tls_error",
            Self::Status(status) if status.is_server_error() => "http_5xx",
            Self::InvalidResponse => "http_5xx",
            Self::Status(_) => "http_4xx",
        }
    }

    /// Returns true if a further attempt is useless: the message is unwanted, or too large.
    pub fn is_final(self) -> bool {
        matches!(self, Self::Status(StatusCode::GONE | StatusCode::PAYLOAD_TOO_LARGE))
    }
}

/// A message to a webhook.
#[derive(Debug, Clone)]
pub struct WebhookMessage {
    /// Id of the message, by which the receiver detects duplicates.
    pub id: String,
    /// The body, JSON.
    pub body: Bytes,
    /// Further headers.
    pub headers: HeaderMap,
}

impl WebhookMessage {
    /// Creates a message with an id of its own, `msg_KIND_RANDOM`.
    pub fn new(kind: &str, body: Bytes) -> Self {
        let id = format!("msg_{kind}_{}", Uuid::new_v4().simple());
        Self { id, body, headers: HeaderMap::new() }
    }

    /// The request of one attempt at this time, with one signature for each secret.
    fn to_request(&self, secrets: &[WebhookSecret], now: WallTime) -> WebhookRequest {
        let time = (now.0 / 1_000).to_string();
        let signatures: Vec<String> =
            secrets.iter().map(|secret| secret.sign_message(&self.id, &time, &self.body)).collect();
        let mut headers = self.headers.clone();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
        let signed = [
            (ID_HEADER, self.id.as_str()),
            (TIMESTAMP_HEADER, time.as_str()),
            (SIGNATURE_HEADER, &signatures.join(" ")),
        ];
        for (name, value) in signed {
            // All values are printable ASCII: ids are made here, signatures are base64.
            if let Ok(value) = HeaderValue::from_str(value) {
                headers.insert(name, value);
            }
        }
        WebhookRequest { headers, body: self.body.clone() }
    }
}

/// One webhook: where messages go, and with what they are signed.
#[derive(Debug, Clone, Copy)]
pub struct WebhookTarget<'a> {
    /// Sends the requests.
    pub transport: &'a dyn WebhookTransport,
    /// The clock of timestamps.
    pub clock: &'a dyn tool::Clock,
    /// The URL.
    pub url: &'a str,
    /// The current secret, and the former one for a while after it was replaced.
    pub secrets: &'a [WebhookSecret],
}

impl WebhookTarget<'_> {
    /// Sends a message once and returns the body of the response.
    ///
    /// # Errors
    /// [`WebhookFailure`].
    pub async fn send_once(&self, message: &WebhookMessage) -> Result<Bytes, WebhookFailure> {
        // Each attempt has its own time and signature, so that the receiver can reject old requests.
        let request = message.to_request(self.secrets, self.clock.wall_now());
        self.transport.post_request(self.url, request).await
    }

    /// Sends a message, up to four times, and returns the failure of the last attempt.
    ///
    /// # Errors
    /// [`WebhookFailure`].
    pub async fn deliver_message(&self, message: &WebhookMessage) -> Result<(), WebhookFailure> {
        let mut delays = RETRY_DELAYS.iter();
        loop {
            let Err(failure) = self.send_once(message).await else { return Ok(()) };
            let wait = delays.next().filter(|_| !failure.is_final());
            sleep(*wait.ok_or(failure)?).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;

    /// Answers with these statuses, in order.
    #[derive(Debug)]
    struct ScriptedHook(Mutex<Vec<WebhookRequest>>, &'static [u16]);

    impl WebhookTransport for ScriptedHook {
        fn check_url(&self, _: &str) -> Result<(), String> {
            Ok(())
        }

        fn post_request<'a>(
            &'a self,
            _: &'a str,
            request: WebhookRequest,
        ) -> BoxFuture<'a, Result<Bytes, WebhookFailure>> {
            let mut requests = self.0.lock().unwrap();
            let status = self.1[requests.len()];
            requests.push(request);
            let status = StatusCode::from_u16(status).unwrap();
            let result = if status.is_success() {
                Ok(Bytes::new())
            } else {
                Err(WebhookFailure::Status(status))
            };
            Box::pin(std::future::ready(result))
        }
    }

    async fn deliver(
        statuses: &'static [u16],
    ) -> (Result<(), WebhookFailure>, Vec<WebhookRequest>) {
        let hook = ScriptedHook(Mutex::default(), statuses);
        let secrets = [WebhookSecret::parse(&format!("whsec_{}", "A".repeat(32))).unwrap()];
        let clock = testkit::clock::FakeClock::default();
        let target = WebhookTarget {
            transport: &hook,
            clock: &clock,
            url: "https://h.example",
            secrets: &secrets,
        };
        let message = WebhookMessage::new("test", Bytes::from_static(b"{}"));
        let result = target.deliver_message(&message).await;
        let requests = std::mem::take(&mut *hook.0.lock().unwrap());
        (result, requests)
    }

    #[tokio::test(start_paused = true)]
    async fn a_message_is_sent_again_under_its_id_until_it_is_accepted_or_refused_for_good() {
        let (result, requests) = deliver(&[502, 302, 204]).await;
        assert!(result.is_ok());
        let id = |request: &WebhookRequest| request.headers[ID_HEADER].clone();
        assert!(requests.len() == 3 && requests.iter().all(|it| id(it) == id(&requests[0])));
        for (statuses, sent) in [(&[410_u16][..], 1), (&[413], 1), (&[500, 500, 500, 500], 4)] {
            let (result, requests) = deliver(statuses).await;
            assert_eq!((result.is_err(), requests.len()), (true, sent), "{statuses:?}");
        }
    }
}
