//! One run of a server, from start to end: a child process or an HTTP session.

use std::sync::Arc;

use ::mcp::ProtocolEra;
use ::mcp::extensions::AllowedExtensions;
use tokio::sync::Notify;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tool::source::SourceErrorKind;

use super::call_attribution::{ConnectionCallers, UnattributedRequests};
use super::connection::{ConnectionContext, DeliveryError, McpConnection, Transport};
use super::delivery_errors::describe_rpc_error;
use super::http_transport::{HttpEndpoint, StreamableHttpTransport};
use super::mcp_options::{EraSelection, ServerLimits};
use super::negotiation::{NegotiationError, describe_unsupported, negotiation_method};
use super::notifications::NotificationRouter;
use super::pipe_connector::{ConnectionError, PipeConnection, PipeConnector, ServerProcess};
use super::pipe_transport::{CloseReason, CloseSignal, PipeTransport, WRITE_STALL_TIMEOUT};
use super::stray_output::StrayOutput;
use tool::display_text::first_and_last_lines;

/// Last lines of standard error that are shown after an exit, beside the first line.
const STDERR_TAIL_LINES: usize = 4;
/// Maximum characters of each line.
const STDERR_LINE_CHARS: usize = 800;

/// Help text when a start takes too long.
const SLOW_START_HELP: &str = "raise `startup_timeout` of the source, or run the command by hand \
    and send it an `initialize` request";

/// Options and shared state for starting instances.
#[derive(Debug)]
pub(super) struct InstanceFactory {
    pub(super) limits: ServerLimits,
    pub(super) extensions: AllowedExtensions,
    pub(super) era_selection: EraSelection,
    pub(super) unattributed_requests: UnattributedRequests,
    pub(super) list_changed: Arc<Notify>,
    pub(super) closing: CancellationToken,
    pub(super) tasks: TaskTracker,
}

/// Running instance of a server.
#[derive(Debug)]
pub(crate) struct ServerInstance {
    pub(super) connection: Arc<McpConnection>,
    process: Option<Box<dyn ServerProcess>>,
}

/// Reason why a start failed.
#[derive(Debug)]
pub(super) struct InstanceStartError {
    pub(super) error: ConnectionError,
    /// Whether the server rejected the era, so that the other may work.
    pub(super) is_era_rejected: bool,
}

impl From<ConnectionError> for InstanceStartError {
    fn from(fault: ConnectionError) -> Self {
        Self { error: fault, is_era_rejected: false }
    }
}

impl InstanceFactory {
    fn new_context(&self, noise: StrayOutput) -> ConnectionContext {
        ConnectionContext {
            notifications: Arc::new(NotificationRouter::new(Arc::clone(&self.list_changed))),
            stray_output: Arc::new(noise),
            close_signal: Arc::default(),
            callers: Arc::new(ConnectionCallers::new(self.unattributed_requests.clone())),
            tasks: self.tasks.clone(),
        }
    }

    /// Starts a child process and negotiates with it. After a failure no process is left.
    pub(super) async fn open_pipes(
        &self,
        connector: &Arc<dyn PipeConnector>,
        era: ProtocolEra,
    ) -> Result<ServerInstance, InstanceStartError> {
        let start = self.limits.start_timeout;
        let connection = timeout(start, connector.connect_pipes()).await.map_err(|_| {
            let message = format!("did not start within {start:?}");
            ConnectionError::new(SourceErrorKind::TimedOut, message).with_help(SLOW_START_HELP)
        })??;
        let PipeConnection { reader, writer, mut process } = connection;
        let shared = self.new_context(StrayOutput::from_connector(connector));
        let pipe = PipeTransport::spawn_tasks(
            (reader, writer),
            self.limits.max_message_bytes,
            shared.clone(),
        );
        let link = McpConnection::new(
            Transport::Pipe(pipe),
            era,
            shared.clone(),
            (&self.limits, &self.extensions),
        );
        let Err(error) = self.negotiate_in_time(&link).await else {
            return Ok(ServerInstance { connection: link, process: Some(process) });
        };
        shared.close_signal.close();
        close_transport(&link).await;
        let is_lost = matches!(
            error,
            Some(NegotiationError::NoResponse(
                DeliveryError::ConnectionLost | DeliveryError::ConnectionClosed
            ))
        );
        let is_era_rejected = error.as_ref().is_some_and(NegotiationError::is_era_rejection);
        let fault = match (error, shared.close_signal.close_reason()) {
            (_, Some(why)) => close_error(why),
            (Some(_), None) if is_lost && !self.closing.is_cancelled() => {
                let how = timeout(self.limits.shutdown_grace, process.wait_for_exit()).await;
                let how = how.unwrap_or_else(|_| "its output closed".to_owned());
                ConnectionError::new(
                    SourceErrorKind::Crashed,
                    format!("ended before it was ready: {how}"),
                )
            }
            (error, None) => self.negotiation_failure(era, error),
        };
        let fault = append_stray_output(fault, &shared.stray_output);
        Err(InstanceStartError {
            error: self.terminate_and_describe(fault, process).await,
            is_era_rejected,
        })
    }

    /// Opens a session with an HTTP endpoint.
    pub(super) async fn open_http(
        &self,
        http: &Arc<HttpEndpoint>,
        era: ProtocolEra,
    ) -> Result<ServerInstance, InstanceStartError> {
        let shared = self.new_context(StrayOutput::default());
        let endpoint =
            StreamableHttpTransport::new(Arc::clone(http), era, self.limits.max_message_bytes);
        let link = McpConnection::new(
            Transport::Http(endpoint),
            era,
            shared.clone(),
            (&self.limits, &self.extensions),
        );
        let Err(error) = self.negotiate_in_time(&link).await else {
            if era == ProtocolEra::Handshake {
                drop(self.tasks.spawn(super::http_transport::run_server_stream(Arc::clone(&link))));
            }
            return Ok(ServerInstance { connection: link, process: None });
        };
        shared.close_signal.close();
        let is_era_rejected = error.as_ref().is_some_and(NegotiationError::is_era_rejection);
        Err(InstanceStartError { is_era_rejected, error: self.negotiation_failure(era, error) })
    }

    /// Negotiates within the time limit. `Err(None)` means a timeout or shutdown.
    async fn negotiate_in_time(
        &self,
        link: &Arc<McpConnection>,
    ) -> Result<(), Option<NegotiationError>> {
        tokio::select! {
            greeted = timeout(self.limits.start_timeout, link.negotiate_version()) => match greeted {
                Ok(greeted) => greeted.map_err(Some),
                Err(_) => Err(None),
            },
            () = self.closing.cancelled() => {
                Err(Some(NegotiationError::NoResponse(DeliveryError::ConnectionClosed)))
            }
        }
    }

    /// Describes a failed negotiation.
    fn negotiation_failure(
        &self,
        era: ProtocolEra,
        error: Option<NegotiationError>,
    ) -> ConnectionError {
        let failed = |message: String| ConnectionError::new(SourceErrorKind::ErrorReply, message);
        match error {
            None => {
                let start = self.limits.start_timeout;
                let message = format!("did not answer the handshake within {start:?}");
                ConnectionError::new(SourceErrorKind::TimedOut, message).with_help(SLOW_START_HELP)
            }
            Some(NegotiationError::Refused(error)) => {
                failed(format!("rejected the handshake: {}", describe_rpc_error(&error)))
            }
            Some(NegotiationError::UnsupportedVersions(theirs)) => {
                failed(describe_unsupported(&theirs))
            }
            Some(NegotiationError::Malformed(why)) => {
                let text = tool::display_text::escape_and_truncate(&why, 300);
                let message = format!("returned an invalid handshake response: {text}");
                ConnectionError::new(SourceErrorKind::MalformedReply, message)
            }
            Some(NegotiationError::NoResponse(_)) if self.closing.is_cancelled() => {
                failed("was closed".to_owned())
            }
            Some(NegotiationError::NoResponse(why)) => {
                super::delivery_errors::to_connection_error(negotiation_method(era), why)
            }
        }
    }

    /// Terminates the process and adds its last output to the error.
    async fn terminate_and_describe(
        &self,
        mut fault: ConnectionError,
        process: Box<dyn ServerProcess>,
    ) -> ConnectionError {
        let words = process.stderr_tail();
        process.terminate_process(self.limits.shutdown_grace).await;
        let last = first_and_last_lines(&words, STDERR_TAIL_LINES, STDERR_LINE_CHARS);
        if last.is_empty() {
            fault.message.push_str("; it wrote nothing to standard error");
        } else {
            fault.message.push_str("; its standard error: ");
            fault.message.push_str(&last);
        }
        fault.help.get_or_insert_with(|| {
            "run the command by hand and send it an `initialize` request; its last lines often say \
             what is missing"
                .to_owned()
        });
        fault
    }
}

impl ServerInstance {
    /// Resolves with the reason when the instance is closed and nothing of it is left.
    pub(super) async fn run_until_closed(self, factory: &InstanceFactory) -> ConnectionError {
        let Self { connection: link, mut process } = self;
        let end = Arc::clone(&link.context.close_signal);
        let exit_status = wait_for_close(&factory.closing, process.as_mut(), &end).await;
        // Output that the child wrote before it exited is still in the pipe and may hold answers.
        if exit_status.is_some() {
            drop(timeout(factory.limits.shutdown_grace, end.closed.cancelled()).await);
        }
        end.close();
        drop(timeout(factory.limits.shutdown_grace, close_transport(&link)).await);
        let Some(mut process) = process else {
            return match end.close_reason() {
                Some(why) => close_error(why),
                None => ConnectionError::new(SourceErrorKind::Crashed, "closed the session"),
            };
        };
        let how = match exit_status {
            Some(how) => Some(how),
            None => timeout(factory.limits.shutdown_grace, process.wait_for_exit()).await.ok(),
        };
        let fault =
            append_stray_output(exit_error(end.close_reason(), how), &link.context.stray_output);
        factory.terminate_and_describe(fault, process).await
    }
}

/// Closes the transport, so that the server knows that no more requests follow.
async fn close_transport(link: &McpConnection) {
    match &link.transport {
        Transport::Pipe(pipe) => pipe.close_input(),
        Transport::Http(endpoint) => endpoint.close_session().await,
    }
}

/// Resolves when the instance must end. Returns the child's exit status if it exited first.
async fn wait_for_close(
    closing: &CancellationToken,
    process: Option<&mut Box<dyn ServerProcess>>,
    end: &CloseSignal,
) -> Option<String> {
    tokio::select! {
        biased;
        () = closing.cancelled() => None,
        how = process_exit(process) => Some(how),
        () = end.closed.cancelled() => None,
    }
}

fn exit_error(why: Option<&CloseReason>, how: Option<String>) -> ConnectionError {
    match (why, how) {
        (Some(why), _) => close_error(why),
        (None, Some(how)) => {
            ConnectionError::new(SourceErrorKind::Crashed, format!("ended: {how}"))
        }
        (None, None) => {
            ConnectionError::new(SourceErrorKind::Crashed, "closed its output but did not exit")
        }
    }
}

async fn process_exit(process: Option<&mut Box<dyn ServerProcess>>) -> String {
    match process {
        Some(process) => process.wait_for_exit().await,
        None => std::future::pending().await,
    }
}

fn close_error(why: &CloseReason) -> ConnectionError {
    match why {
        CloseReason::StrayOutput(heard) => {
            ConnectionError::new(SourceErrorKind::MalformedReply, heard.clone())
                .with_help("check that the command starts an MCP server in its stdio mode")
        }
        CloseReason::WriteStalled => ConnectionError::new(
            SourceErrorKind::TimedOut,
            format!("did not read its input for {WRITE_STALL_TIMEOUT:?}"),
        ),
        CloseReason::Io(error) => {
            ConnectionError::new(SourceErrorKind::Crashed, format!("its pipes failed: {error}"))
        }
        CloseReason::SessionLost(why) => {
            ConnectionError::new(SourceErrorKind::ErrorReply, why.clone())
        }
    }
}

fn append_stray_output(mut fault: ConnectionError, noise: &StrayOutput) -> ConnectionError {
    if fault.kind != SourceErrorKind::MalformedReply
        && let Some(problem) = noise.to_problem("")
    {
        fault.message = format!("{}; it {}", fault.message, problem.message);
    }
    fault
}
