//! HTTP client for one module: its three endpoints, its token and its error texts.

use std::time::Duration;

use bytes::Bytes;
use egress::{Class, Egress, EgressError, HttpLimits, Origin, Phase, Received};
use http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderValue};
use http::{Method, Request, StatusCode, Uri};
use tool::source::{Health, SourceFault};
use tool::{Problem, SourceError, SourceName};

use super::{HEALTH_TIMEOUT, MANIFEST_TIMEOUT, MAX_BYTES, ModuleOptions, SHOWN_BYTES};

/// HTTP client for one module.
#[derive(Debug)]
pub(super) struct Line {
    pub(super) options: ModuleOptions,
    egress: Egress,
    class: Class,
    pub(super) manifest: Uri,
    pub(super) execute: Uri,
    health: Uri,
}

/// Error of a manifest request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Missed {
    pub(super) error: SourceError,
    answer: Answer,
}

/// Result of a failed manifest request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Answer {
    None,
    /// A status other than 200.
    Status(u16),
    Malformed,
}

impl From<SourceError> for Missed {
    fn from(error: SourceError) -> Self {
        Self { error, answer: Answer::None }
    }
}

impl Missed {
    /// Logs the failure with spec 0's events; repeated failures at debug level.
    pub(super) fn log(&self, module: &SourceName, is_news: bool) {
        let error = self.error.problem.message.as_str();
        match (self.answer, is_news) {
            (Answer::Status(status), true) => {
                tracing::warn!(%module, status, "module_manifest_error");
            }
            (Answer::Malformed, true) => tracing::warn!(%module, error, "module_manifest_error"),
            (Answer::None, true) => tracing::warn!(%module, error, "module_unreachable"),
            (_, false) => tracing::debug!(%module, error, "module still not discovered"),
        }
    }
}

impl Line {
    pub(super) fn new(options: ModuleOptions, egress: Egress) -> Result<Self, EgressError> {
        if options.url.contains(['?', '#']) {
            let message = format!("the URL of module `{}` has a query or fragment", options.name);
            return Err(EgressError::Settings(message));
        }
        let class = Class::Operator { origin: Origin::parse(&options.url)? };
        let base = options.url.trim_end_matches('/');
        let manifest = egress.check(&class, &format!("{base}/manifest"))?;
        let execute = egress.check(&class, &format!("{base}/execute"))?;
        let health = egress.check(&class, &format!("{base}/health"))?;
        Ok(Self { options, egress, class, manifest, execute, health })
    }

    pub(super) async fn send(
        &self,
        method: Method,
        uri: &Uri,
        body: Bytes,
        limit: Duration,
    ) -> Result<Received, EgressError> {
        let request = Request::builder()
            .method(method)
            .uri(uri.clone())
            .header(ACCEPT, HeaderValue::from_static("application/json"))
            .header(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        // The health endpoint needs no token.
        let request = match self.options.token.as_ref().filter(|_| *uri != self.health) {
            None => request,
            Some(token) => {
                let mut value = HeaderValue::from_str(&format!("Bearer {}", token.open()))
                    .map_err(|_| self.unfit("its token cannot be sent in a header"))?;
                value.set_sensitive(true);
                request.header(AUTHORIZATION, value)
            }
        };
        let request = request.body(body).map_err(|_| self.unfit("no request can be made to it"))?;
        let limits = HttpLimits { connect: limit, headers: limit, idle: limit, body: MAX_BYTES };
        self.egress.send(&self.class, request, limits).await
    }

    fn unfit(&self, what: &str) -> EgressError {
        EgressError::Settings(format!("module `{}`: {what}", self.options.name))
    }

    pub(super) async fn health(&self) -> Health {
        let limit = HEALTH_TIMEOUT;
        let asked = self.send(Method::GET, &self.health, Bytes::new(), limit);
        match tokio::time::timeout(limit, asked).await {
            Ok(Ok(response)) if response.status() == StatusCode::OK => Health::Healthy,
            Ok(Ok(response)) => Health::Unhealthy(response.status().as_u16()),
            _ => Health::Unreachable,
        }
    }

    pub(super) async fn manifest(&self) -> Result<Bytes, Missed> {
        // The caller applies a shorter timeout and reports it; this one is only a backstop.
        let limit = MANIFEST_TIMEOUT * 2;
        let sent = self.send(Method::GET, &self.manifest, Bytes::new(), limit).await;
        let response = sent.map_err(|error| self.lost(&error))?;
        if response.status() != StatusCode::OK {
            let answer = Answer::Status(response.status().as_u16());
            let error = self.fault(SourceFault::Failed, refusal(response).await);
            return Err(Missed { error, answer });
        }
        Ok(response.into_body().bytes().await.map_err(|error| self.lost(&error))?)
    }

    /// Creates the error of a response that is not a manifest.
    pub(super) fn malformed(&self, what: String) -> Missed {
        Missed { error: self.fault(SourceFault::Malformed, what), answer: Answer::Malformed }
    }

    fn lost(&self, error: &EgressError) -> SourceError {
        let kind = match error {
            EgressError::Blocked { .. } | EgressError::Settings(_) => SourceFault::Blocked,
            EgressError::Unreachable { .. } | EgressError::Tls { .. } => SourceFault::Unreachable,
            EgressError::TimedOut { .. } => SourceFault::TimedOut,
            EgressError::TooLarge { .. } | EgressError::Protocol { .. } => SourceFault::Malformed,
        };
        self.fault(kind, brief(error))
    }

    pub(super) fn fault(&self, kind: SourceFault, message: String) -> SourceError {
        let fix = match kind {
            SourceFault::Unreachable | SourceFault::TimedOut | SourceFault::Crashed => {
                "see that the module runs and that its URL is right"
            }
            SourceFault::Failed => "ask the manifest there directly; a 401 asks for the token",
            SourceFault::Malformed => "mend the manifest; see `GET /manifest` of the module",
            SourceFault::Blocked => "change the URL or the token of the module",
        };
        SourceError { kind, problem: Problem::new(self.manifest.to_string(), message).fix(fix) }
    }
}

/// Returns the error text of a call as spec 0 has it, without advice for the operator.
pub(super) fn brief(error: &EgressError) -> String {
    let said = said(error);
    let said = said.split_once("; is it running").map_or(said.as_str(), |(said, _)| said);
    said.split_once(" (os error").map_or(said, |(said, _)| said).to_owned()
}

/// Describes an error without the address: callers need not know where a module runs.
pub(super) fn said(error: &EgressError) -> String {
    match error {
        EgressError::Blocked { why, .. } => why.clone(),
        EgressError::Unreachable { what, .. }
        | EgressError::Tls { what, .. }
        | EgressError::Protocol { what, .. }
        | EgressError::Settings(what) => what.clone(),
        EgressError::TimedOut { phase: Phase::Queue, .. } => "too many requests are open".into(),
        EgressError::TimedOut { phase, .. } => format!("waited too long for {phase}"),
        EgressError::TooLarge { limit, .. } => format!("the answer is over {limit} bytes"),
    }
}

/// Returns spec 0's text for a status other than 200, with the beginning of the body.
pub(super) async fn refusal(response: Received) -> String {
    let status = response.status().as_u16();
    let mut body = response.into_body();
    let mut shown = Vec::new();
    while shown.len() <= SHOWN_BYTES
        && let Ok(Some(chunk)) = body.chunk().await
    {
        shown.extend_from_slice(&chunk);
    }
    let cut = shown.len() > SHOWN_BYTES;
    shown.truncate(SHOWN_BYTES);
    let text = String::from_utf8_lossy(&shown);
    format!("Module returned status {status}: {text}{}", if cut { "…" } else { "" })
}
