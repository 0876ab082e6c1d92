//! From a start to an end: one child or one HTTP session, with what was learned when it ended.

use std::sync::Arc;
use std::time::Duration;

use rmcp::RoleClient;
use rmcp::service::{ClientInitializeError, RunningService};
use rmcp::transport::StreamableHttpClientTransport;
use rmcp::transport::common::client_side_sse::ExponentialBackoff;
use rmcp::transport::streamable_http_client::StreamableHttpClientTransportConfig;
use tokio::sync::Notify;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tool::source::SourceFault;

use super::dial::{Dial, Dialed, Fault, Process};
use super::http::{Client, Http};
use super::inflight::Inflight;
use super::link::{Ears, Era, Link, Wire, refused, shake};
use super::noise::Noise;
use super::options::{Bounds, Dialect};
use super::pipe::{Broken, End, Pipe, STALL, Shared};
use super::watched::Watched;
use super::wording::{last_lines, shown};

/// Lines of standard error shown when a child ended.
const LAST_LINES: usize = 5;
/// Characters of each.
const WIDTH: usize = 200;

/// What a session is begun with.
#[derive(Debug)]
pub(super) struct Setting {
    pub(super) bounds: Bounds,
    pub(super) dialect: Dialect,
    pub(super) changed: Arc<Notify>,
    pub(super) closing: CancellationToken,
    pub(super) tasks: TaskTracker,
}

/// A session that is up.
#[derive(Debug)]
pub(super) struct Session {
    running: RunningService<RoleClient, Ears>,
    pub(super) link: Arc<Link>,
    process: Option<Box<dyn Process>>,
    end: Arc<End>,
}

/// Why a handshake came to nothing.
#[derive(Debug)]
pub(super) struct Failed {
    pub(super) fault: Fault,
    /// Whether the server refused the dialect, so that the other may be worth a try.
    pub(super) dialect: bool,
}

impl From<Fault> for Failed {
    fn from(fault: Fault) -> Self {
        Self { fault, dialect: false }
    }
}

impl Setting {
    fn wire(&self, end: &End, noise: Arc<Noise>, inflight: Arc<Inflight>, headers: bool) -> Wire {
        Wire { inflight, noise, over: end.over.clone(), tasks: self.tasks.clone(), headers }
    }

    fn ears(&self) -> Ears {
        Ears { changed: Arc::clone(&self.changed) }
    }

    /// Starts a child and shakes hands with it. Where that fails, nothing of it is left.
    pub(super) async fn pipes(&self, dial: &dyn Dial, era: Era) -> Result<Session, Failed> {
        let start = self.bounds.start;
        let dialed = timeout(start, dial.dial()).await.map_err(|_| {
            Fault::new(SourceFault::TimedOut, format!("did not start within {start:?}"))
        })??;
        let Dialed { reader, writer, mut process } = dialed;
        let end = Arc::new(End::default());
        let shared =
            Shared { inflight: Arc::default(), noise: Arc::default(), end: Arc::clone(&end) };
        let wire = self.wire(&end, Arc::clone(&shared.noise), Arc::clone(&shared.inflight), false);
        let noise = Arc::clone(&shared.noise);
        let pipe = Pipe::open((reader, writer), self.bounds.message, shared, &self.tasks);
        let shaking = shake(pipe, era, (self.ears(), wire, self.bounds.calls));
        let shaken = tokio::select! {
            shaken = timeout(start, shaking) => shaken,
            () = self.closing.cancelled() => Ok(Err(ClientInitializeError::Cancelled)),
        };
        let error = match shaken {
            Ok(Ok((running, link))) => {
                return Ok(Session { running, link: Arc::new(link), process: Some(process), end });
            }
            Ok(Err(error)) => Some(error),
            Err(_) => None,
        };
        end.over.cancel();
        let refused = error.as_ref().is_some_and(refuses_dialect);
        let fault = match (error, end.why()) {
            (_, Some(why)) => broken(why),
            (Some(error), None) if refused => unshaken(&error),
            (Some(ClientInitializeError::ConnectionClosed(_)), None) => {
                let how = timeout(self.bounds.grace, process.ended()).await;
                let how = how.unwrap_or_else(|_| "its output closed".to_owned());
                Fault::new(SourceFault::Crashed, format!("ended before it was ready: {how}"))
            }
            (Some(error), None) => unshaken(&error),
            (None, None) => Fault::new(
                SourceFault::TimedOut,
                format!("did not answer the handshake within {start:?}"),
            ),
        };
        let fault = with_noise(fault, &noise);
        Err(Failed { fault: self.ended(fault, process).await, dialect: refused })
    }

    /// Opens a session with an endpoint.
    pub(super) async fn endpoint(&self, http: &Arc<Http>, era: Era) -> Result<Session, Failed> {
        let start = self.bounds.start;
        let end = Arc::<End>::default();
        let wire = self.wire(&end, Arc::default(), Arc::default(), true);
        let client =
            Client::new(Arc::clone(http), &wire, Arc::clone(&self.changed), self.bounds.message);
        let mut config = StreamableHttpClientTransportConfig::with_uri(http.uri())
            .max_concurrent_requests(self.bounds.calls);
        config.retry_config = resuming();
        let inner = StreamableHttpClientTransport::with_client(client, config);
        let inflight = Arc::clone(&wire.inflight);
        let watched = Watched { inner, inflight, end: Arc::clone(&end) };
        let shaking = shake(watched, era, (self.ears(), wire, self.bounds.calls));
        let shaken = tokio::select! {
            shaken = timeout(start, shaking) => shaken,
            () = self.closing.cancelled() => Ok(Err(ClientInitializeError::Cancelled)),
        };
        let error = match shaken {
            Ok(Ok((running, link))) => {
                return Ok(Session { running, link: Arc::new(link), process: None, end });
            }
            Ok(Err(error)) => error,
            Err(_) => {
                let message = format!("did not answer the handshake within {start:?}");
                return Err(Fault::new(SourceFault::TimedOut, message).into());
            }
        };
        end.over.cancel();
        Err(Failed { dialect: refuses_dialect(&error), fault: unshaken(&error) })
    }

    /// Ends what is left and adds what it last said.
    async fn ended(&self, mut fault: Fault, process: Box<dyn Process>) -> Fault {
        let words = process.last_words();
        process.kill(self.bounds.grace).await;
        let last = last_lines(&words, LAST_LINES, WIDTH);
        if last.is_empty() {
            fault.message.push_str("; it wrote nothing to standard error");
        } else {
            fault.message.push_str("; the last lines of its standard error: ");
            fault.message.push_str(&last);
        }
        fault
    }
}

/// A stream that broke is resumed six times, over about a minute; then its calls fail.
fn resuming() -> Arc<ExponentialBackoff> {
    let mut resuming = ExponentialBackoff::default();
    resuming.max_times = Some(6);
    resuming.max_delay = Some(Duration::from_secs(30));
    Arc::new(resuming)
}

impl Session {
    /// Resolves when the session is over and nothing of it is left, with why.
    pub(super) async fn last(self, setting: &Setting) -> Fault {
        let Self { mut running, link, mut process, end } = self;
        let how = first_sign(&setting.closing, process.as_mut(), &end).await;
        // What a child wrote before it ended is still in the pipe, and may be answers.
        if how.is_some() {
            drop(timeout(setting.bounds.grace, end.over.cancelled()).await);
        }
        end.over.cancel();
        // Closes the child's input, which most servers take for the sign to end.
        if let Err(error) = running.close().await {
            tracing::warn!(%error, "a connection did not end cleanly");
        }
        let Some(mut process) = process else {
            return Fault::new(SourceFault::Crashed, "closed the session");
        };
        let how = match how {
            Some(how) => Some(how),
            None => timeout(setting.bounds.grace, process.ended()).await.ok(),
        };
        let fault = with_noise(over(end.why(), how), link.noise());
        setting.ended(fault, process).await
    }
}

/// Resolves when a session is to end, with how its child did where that came first.
async fn first_sign(
    closing: &CancellationToken,
    process: Option<&mut Box<dyn Process>>,
    end: &End,
) -> Option<String> {
    tokio::select! {
        biased;
        () = closing.cancelled() => None,
        how = ended(process) => Some(how),
        () = end.over.cancelled() => None,
    }
}

fn over(why: Option<&Broken>, how: Option<String>) -> Fault {
    match (why, how) {
        (Some(why), _) => broken(why),
        (None, Some(how)) => Fault::new(SourceFault::Crashed, format!("ended: {how}")),
        (None, None) => Fault::new(SourceFault::Crashed, "closed its output without ending"),
    }
}

async fn ended(process: Option<&mut Box<dyn Process>>) -> String {
    match process {
        Some(process) => process.ended().await,
        None => std::future::pending().await,
    }
}

fn broken(why: &Broken) -> Fault {
    match why {
        Broken::Noise(heard) => Fault::new(SourceFault::Malformed, heard.clone())
            .fix("check that the command starts an MCP server in its stdio mode"),
        Broken::Stalled => {
            Fault::new(SourceFault::TimedOut, format!("did not read its input for {STALL:?}"))
        }
        Broken::Io(error) => Fault::new(SourceFault::Crashed, format!("its pipes failed: {error}")),
    }
}

fn with_noise(mut fault: Fault, noise: &Noise) -> Fault {
    if fault.kind != SourceFault::Malformed
        && let Some(problem) = noise.problem("")
    {
        fault.message = format!("{}; it {}", fault.message, problem.message);
    }
    fault
}

/// Whether the server answered and would not have this dialect.
pub(super) fn refuses_dialect(error: &ClientInitializeError) -> bool {
    matches!(
        error,
        ClientInitializeError::JsonRpcError(_)
            | ClientInitializeError::NoCompatibleProtocolVersion { .. }
    )
}

/// A failed handshake in words.
pub(super) fn unshaken(error: &ClientInitializeError) -> Fault {
    let failed = |message: String| Fault::new(SourceFault::Failed, message);
    match error {
        ClientInitializeError::JsonRpcError(error) => {
            let refusal = super::inflight::Refusal {
                code: error.code.0.into(),
                message: error.message.to_string(),
            };
            failed(format!("refused the handshake: {}", refused(&refusal)))
        }
        ClientInitializeError::NoCompatibleProtocolVersion { server_supported, .. } => {
            let theirs: Vec<_> =
                server_supported.iter().take(10).map(|v| shown(v.as_str(), 20)).collect();
            failed(format!(
                "speaks no revision of MCP that is known here, only: {}",
                theirs.join(", ")
            ))
        }
        ClientInitializeError::TransportError { error, .. } => super::fail::transport(error),
        ClientInitializeError::Cancelled => Fault::new(SourceFault::Failed, "was closed"),
        ClientInitializeError::ConnectionClosed(_) => {
            Fault::new(SourceFault::Crashed, "closed the connection during the handshake")
        }
        other => {
            let text = shown(&other.to_string(), 300);
            Fault::new(
                SourceFault::Malformed,
                format!("answered the handshake with something else: {text}"),
            )
        }
    }
}
