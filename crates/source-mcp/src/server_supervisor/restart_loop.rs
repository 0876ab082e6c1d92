//! Restart loop of a supervisor: runs an instance, then waits the backoff before the next one.

use std::pin::pin;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use futures_util::FutureExt as _;
use tokio::time::{Instant, sleep};

use super::{ServerConnector, ServerSupervisor, SupervisorState};
use crate::dual_era::StartedServer;
use crate::list_subscription::run_list_subscription;
use crate::pipe_connector::ConnectionError;
use crate::restart_backoff::{EXIT_WINDOW, MAX_DELAY, MAX_EXITS, RestartBackoff, RestartDecision};
use crate::start_monitoring::LastExit;

/// Minimum interval between reports of list changes.
const LIST_CHANGE_INTERVAL: Duration = Duration::from_millis(500);

/// Maximum delay before an endpoint is tried again.
const MAX_HTTP_BACKOFF: Duration = Duration::from_secs(10);

/// Why an instance of a server ended.
enum InstanceEnd {
    /// It failed, or was lost.
    Failed(ConnectionError),
    /// It was stopped because nobody used it.
    Unused,
}

impl ServerSupervisor {
    /// Starts the server and restarts it after each end, until it is closed or given up.
    pub(super) async fn supervise(self: Arc<Self>) {
        let mut backoff = RestartBackoff::default();
        loop {
            self.state.send_replace(SupervisorState::Starting);
            let started = self.start_with_slow_warning().await;
            if self.instance_factory.closing.is_cancelled() {
                if let Ok(server) = started {
                    server.primary.run_until_closed(&self.instance_factory).await;
                }
                break;
            }
            let was_up = started.is_ok();
            let (end, uptime) = match started {
                Ok(server) => Box::pin(self.run_instance(server)).await,
                Err(fault) => (InstanceEnd::Failed(fault), Duration::ZERO),
            };
            let fault = match end {
                InstanceEnd::Failed(fault) => fault,
                InstanceEnd::Unused if self.wait_for_use().await => continue,
                InstanceEnd::Unused => break,
            };
            if self.instance_factory.closing.is_cancelled()
                || !self.back_off(&mut backoff, (fault, uptime), was_up).await
            {
                break;
            }
        }
        self.secondary.close_connection();
        if !self.is_per_caller || self.is_closing() {
            self.state.send_replace(SupervisorState::Closed);
        }
    }

    /// Runs a started server until it ends. Returns the reason and how long it was up.
    async fn run_instance(
        &self,
        StartedServer { primary, secondary, supports_both_eras }: StartedServer,
    ) -> (InstanceEnd, Duration) {
        let since = Instant::now();
        let link = Arc::clone(&primary.connection);
        if let Err(fault) = self.list_at_start(&link).await {
            link.context.close_signal.close();
            primary.run_until_closed(&self.instance_factory).await;
            return (InstanceEnd::Failed(fault), Duration::ZERO);
        }
        let mut maintenance =
            Box::pin(self.maintain_secondary(link.era(), (secondary, supports_both_eras))).fuse();
        // Polled once before any call, so that calls find the secondary connection.
        (&mut maintenance).now_or_never();
        tracing::info!(source = %self.name, era = ?link.era(), "an MCP server is running");
        self.state.send_replace(SupervisorState::Running(Arc::clone(&link)));
        self.bump_revision();
        let publish_end = async {
            link.wait_until_closed().await;
            // Before the process tree is gone, which takes time: no call may wait for this
            // connection.
            self.state.send_if_modified(|state| {
                let is_running = matches!(state, SupervisorState::Running(_));
                if is_running {
                    *state = SupervisorState::Starting;
                }
                is_running
            });
        };
        let list_subscription = run_list_subscription(&link);
        let ended = async {
            tokio::join!(
                primary.run_until_closed(&self.instance_factory),
                publish_end,
                list_subscription
            )
        };
        let mut ended = pin!(ended);
        let background = async { tokio::join!(&mut maintenance, self.clear_last_exit()) };
        let mut background = pin!(background.fuse());
        let mut unused = pin!(self.wait_until_idle(&link).fuse());
        let mut is_unused = false;
        loop {
            tokio::select! {
                (fault, (), ()) = &mut ended => {
                    let end = if is_unused { InstanceEnd::Unused } else { InstanceEnd::Failed(fault) };
                    return (end, since.elapsed());
                }
                _ = &mut background => {}
                () = &mut unused => {
                    is_unused = true;
                    link.context.close_signal.close();
                }
            }
        }
    }

    /// Waits for the backoff delay; returns `false` if the server is closed meanwhile.
    async fn back_off(
        &self,
        backoff: &mut RestartBackoff,
        (mut fault, uptime): (ConnectionError, Duration),
        was_up: bool,
    ) -> bool {
        fault.message = self.redact_text(fault.message);
        if self.is_per_caller {
            self.state.send_replace(SupervisorState::Failed(fault));
            return false;
        }
        let decision = backoff.record_exit(Instant::now(), uptime);
        let exit_count = backoff.exit_count();
        // The listing reports why the source cannot be listed.
        tracing::debug!(source = %self.name, ends = exit_count, fault = %fault.message, "an MCP server failed");
        if !fault.needs_login() {
            *self.last_exit.lock().unwrap_or_else(PoisonError::into_inner) =
                Some(LastExit { error: fault.clone(), count: exit_count });
        }
        let wait = match (decision, &self.connector) {
            (RestartDecision::RetryAfter(wait), ServerConnector::Pipes(_)) => Some(wait),
            (RestartDecision::GiveUp, ServerConnector::Pipes(_)) => None,
            // A retry costs one request and no local resources, so retries never stop.
            (RestartDecision::RetryAfter(wait), ServerConnector::Http(_)) => {
                Some(wait.min(MAX_HTTP_BACKOFF))
            }
            (RestartDecision::GiveUp, ServerConnector::Http(_)) => Some(MAX_HTTP_BACKOFF),
        };
        let give_up = |fault: ConnectionError| ConnectionError {
            message: format!(
                "{}; it ended {MAX_EXITS} times within {} minutes, so it is not restarted",
                fault.message,
                EXIT_WINDOW.as_secs() / 60
            ),
            help: Some(format!(
                "run the command by hand to find the error, then refresh the source `{}`",
                self.name
            )),
            ..fault
        };
        self.state.send_replace(if wait.is_some() {
            SupervisorState::BackingOff(fault)
        } else {
            SupervisorState::Failed(give_up(fault))
        });
        if was_up || wait.is_none() {
            self.bump_revision();
        }
        let waited = async {
            match wait {
                Some(wait) => sleep(wait.min(MAX_DELAY)).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            () = self.instance_factory.closing.cancelled() => false,
            () = waited => true,
            () = self.refresh_requested.notified() => {
                backoff.reset_backoff();
                true
            }
        }
    }

    /// Publishes list changes at a limited rate.
    pub(super) async fn publish_list_changes(self: Arc<Self>) {
        loop {
            tokio::select! {
                () = self.instance_factory.closing.cancelled() => return,
                () = self.instance_factory.list_changed.notified() => self.bump_revision(),
            }
            tokio::select! {
                () = self.instance_factory.closing.cancelled() => return,
                () = sleep(LIST_CHANGE_INTERVAL) => {}
            }
        }
    }
}
