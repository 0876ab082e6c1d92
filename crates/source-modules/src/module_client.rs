//! HTTP client for one module: its three endpoints, its token and its error texts.

use std::time::Duration;

use bytes::Bytes;
use egress::{
    EgressClient, EgressError, EgressResponse, Origin, RequestLimits, RequestPhase, UrlTrust,
};
use http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderValue};
use http::{Method, Request, StatusCode, Uri};
use tool::source::{SourceErrorKind, SourceHealth};
use tool::{Problem, SourceError, SourceName};

use super::{
    HEALTH_TIMEOUT, HttpModuleOptions, MANIFEST_TIMEOUT, MAX_ERROR_BODY_BYTES, MAX_RESPONSE_BYTES,
};

/// HTTP client for one module.
#[derive(Debug)]
pub(super) struct ModuleClient {
    pub(super) options: HttpModuleOptions,
    egress: EgressClient,
    class: UrlTrust,
    pub(super) manifest_uri: Uri,
    pub(super) execute_uri: Uri,
    health_uri: Uri,
}

/// Error of a manifest request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ManifestFetchError {
    pub(super) error: SourceError,
    response: ManifestResponse,
}

/// Result of a failed manifest request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ManifestResponse {
    Missing,
    /// A status other than 200.
    Status(u16),
    Malformed,
}

impl From<SourceError> for ManifestFetchError {
    fn from(error: SourceError) -> Self {
        Self { error, response: ManifestResponse::Missing }
    }
}

impl ManifestFetchError {
    /// Logs the failure with the module API's events; repeated failures at debug level.
    pub(super) fn log_failure(&self, module: &SourceName, is_news: bool) {
        let error = self.error.problem.message.as_str();
        match (self.response, is_news) {
            (ManifestResponse::Status(status), true) => {
                tracing::warn!(%module, status, "module_manifest_error");
            }
            (ManifestResponse::Malformed, true) => {
                tracing::warn!(%module, error, "module_manifest_error");
            }
            (ManifestResponse::Missing, true) => {
                tracing::warn!(%module, error, "module_unreachable");
            }
            (_, false) => tracing::debug!(%module, error, "the module is still not discovered"),
        }
    }
}

impl ModuleClient {
    pub(super) fn new(
        options: HttpModuleOptions,
        egress: EgressClient,
    ) -> Result<Self, EgressError> {
        if options.url.contains(['?', '#']) {
            let message = format!("the URL of module `{}` has a query or fragment", options.name);
            return Err(EgressError::InvalidOptions(message));
        }
        let class = UrlTrust::Configured { origin: Origin::parse(&options.url)? };
        let base = options.url.trim_end_matches('/');
        let manifest = egress.validate_url(&class, &format!("{base}/manifest"))?;
        let execute = egress.validate_url(&class, &format!("{base}/execute"))?;
        let health = egress.validate_url(&class, &format!("{base}/health"))?;
        Ok(Self {
            options,
            egress,
            class,
            manifest_uri: manifest,
            execute_uri: execute,
            health_uri: health,
        })
    }

    pub(super) async fn send_request(
        &self,
        method: Method,
        uri: &Uri,
        body: Bytes,
        limit: Duration,
    ) -> Result<EgressResponse, EgressError> {
        let request = Request::builder()
            .method(method)
            .uri(uri.clone())
            .header(ACCEPT, HeaderValue::from_static("application/json"))
            .header(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        // The health endpoint needs no token.
        let request = match self.options.bearer_token.as_ref().filter(|_| *uri != self.health_uri) {
            None => request,
            Some(token) => {
                let mut value = HeaderValue::from_str(&format!("Bearer {}", token.expose()))
                    .map_err(|_| self.settings_error("its token is not a valid header value"))?;
                value.set_sensitive(true);
                request.header(AUTHORIZATION, value)
            }
        };
        let request =
            request.body(body).map_err(|_| self.settings_error("cannot build a request to it"))?;
        let limits = RequestLimits {
            connect_timeout: limit,
            header_timeout: limit,
            body_idle_timeout: limit,
            max_body_bytes: MAX_RESPONSE_BYTES,
        };
        self.egress.send_request(&self.class, request, limits).await
    }

    fn settings_error(&self, what: &str) -> EgressError {
        EgressError::InvalidOptions(format!("module `{}`: {what}", self.options.name))
    }

    pub(super) async fn check_health(&self) -> SourceHealth {
        let limit = HEALTH_TIMEOUT;
        let asked = self.send_request(Method::GET, &self.health_uri, Bytes::new(), limit);
        match tokio::time::timeout(limit, asked).await {
            Ok(Ok(response)) if response.status() == StatusCode::OK => SourceHealth::Healthy,
            Ok(Ok(response)) => SourceHealth::Unhealthy(response.status().as_u16()),
            _ => SourceHealth::Unreachable,
        }
    }

    pub(super) async fn fetch_manifest(&self) -> Result<Bytes, ManifestFetchError> {
        // The caller applies a shorter timeout and reports it; this one is only a backstop.
        let limit = MANIFEST_TIMEOUT * 2;
        let sent = self.send_request(Method::GET, &self.manifest_uri, Bytes::new(), limit).await;
        let response = sent.map_err(|error| self.to_source_error(&error))?;
        if response.status() != StatusCode::OK {
            let answer = ManifestResponse::Status(response.status().as_u16());
            let error =
                self.source_error(SourceErrorKind::ErrorReply, status_error_text(response).await);
            return Err(ManifestFetchError { error, response: answer });
        }
        Ok(response
            .into_body()
            .collect_bytes()
            .await
            .map_err(|error| self.to_source_error(&error))?)
    }

    /// Creates the error of a response that is not a manifest.
    pub(super) fn malformed_manifest(&self, problem: String) -> ManifestFetchError {
        ManifestFetchError {
            error: self.source_error(SourceErrorKind::MalformedReply, problem),
            response: ManifestResponse::Malformed,
        }
    }

    fn to_source_error(&self, error: &EgressError) -> SourceError {
        let kind = match error {
            EgressError::Blocked { .. } | EgressError::InvalidOptions(_) => {
                SourceErrorKind::Blocked
            }
            EgressError::Unreachable { .. } | EgressError::Tls { .. } => {
                SourceErrorKind::Unreachable
            }
            EgressError::TimedOut { .. } => SourceErrorKind::TimedOut,
            EgressError::TooLarge { .. } | EgressError::Protocol { .. } => {
                SourceErrorKind::MalformedReply
            }
        };
        self.source_error(kind, call_error_text(error))
    }

    pub(super) fn source_error(&self, kind: SourceErrorKind, message: String) -> SourceError {
        let help = match kind {
            SourceErrorKind::Unreachable | SourceErrorKind::TimedOut | SourceErrorKind::Crashed => {
                "check that the module runs and that its URL is correct"
            }
            SourceErrorKind::ErrorReply => {
                "request the manifest directly; a 401 means that the token is required"
            }
            SourceErrorKind::MalformedReply => {
                "correct the manifest; see `GET /manifest` of the module"
            }
            SourceErrorKind::Blocked => "change the URL or the token of the module",
        };
        SourceError {
            kind,
            problem: Problem::new(self.manifest_uri.to_string(), message).with_help(help),
        }
    }
}

/// Returns the error text of a call as the module API has it, without advice for the operator.
pub(super) fn call_error_text(error: &EgressError) -> String {
    let message = match error {
        EgressError::Unreachable { reason, .. } => reason.clone(),
        other => describe_egress_error(other),
    };
    // The number that std puts after the text of a system error.
    message.split_once(" (os error").map_or(message.as_str(), |(text, _)| text).to_owned()
}

/// Describes an error without the address: callers need not know where a module runs.
pub(super) fn describe_egress_error(error: &EgressError) -> String {
    match error {
        EgressError::Blocked { reason: why, .. } => why.clone(),
        EgressError::Unreachable { reason, is_refused, .. } => {
            format!("{reason}{}", egress::running_question(*is_refused))
        }
        EgressError::Tls { reason: what, .. }
        | EgressError::Protocol { reason: what, .. }
        | EgressError::InvalidOptions(what) => what.clone(),
        EgressError::TimedOut { phase: RequestPhase::RequestPermit, .. } => {
            "too many concurrent requests".into()
        }
        EgressError::TimedOut { phase, .. } => format!("timed out waiting for {phase}"),
        EgressError::TooLarge { limit, .. } => format!("the response is larger than {limit} bytes"),
    }
}

/// Returns the module API's text for a status other than 200, with the beginning of the body.
pub(super) async fn status_error_text(response: EgressResponse) -> String {
    let status = response.status().as_u16();
    let mut body = response.into_body();
    let mut body_start = Vec::new();
    while body_start.len() <= MAX_ERROR_BODY_BYTES
        && let Ok(Some(chunk)) = body.next_chunk().await
    {
        body_start.extend_from_slice(&chunk);
    }
    let is_truncated = body_start.len() > MAX_ERROR_BODY_BYTES;
    body_start.truncate(MAX_ERROR_BODY_BYTES);
    let text = String::from_utf8_lossy(&body_start);
    format!("Module returned status {status}: {text}{}", if is_truncated { "…" } else { "" })
}
