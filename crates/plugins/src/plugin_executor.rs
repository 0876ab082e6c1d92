//! Executor of a plugin's tools.

use std::sync::Arc;
use std::time::Duration;

use tool::{
    BoxFuture, CallContext, ErrorCode, ExecuteError, ExecutionState, Executor, Outcome,
    RecordedCall,
};

use crate::plugin_process::{
    PluginCallResult, PluginProcess, ProcessSupervisor, ProgressUpdate, StartCallError, StartedCall,
};

/// Time that a cancelled call may continue before its process is replaced.
const CANCEL_GRACE: Duration = Duration::from_secs(2);

/// Executes one tool of one plugin version. Holding it keeps the version alive, so that the code
/// that started a call also answers it.
#[derive(Debug)]
pub(crate) struct PluginExecutor {
    pub(crate) supervisor: Arc<ProcessSupervisor>,
    /// Within the plugin.
    pub(crate) tool_name: String,
}

impl PluginExecutor {
    async fn run_call(
        &self,
        call: RecordedCall<'_>,
        ctx: &CallContext<'_>,
    ) -> Result<ExecutionState, ExecuteError> {
        let plugin = self.supervisor.plugin_name();
        let process = self.supervisor.running_process().await?;
        let started = process
            .start_call(&self.tool_name, call.call().arguments.as_json())
            .map_err(|why| match why {
                StartCallError::Busy => {
                    let told = format!("the plugin `{plugin}` has too many concurrent calls");
                    ExecuteError::not_sent(ErrorCode::Busy, told)
                }
                StartCallError::Ended(why) => {
                    let told = format!("the process of the plugin `{plugin}` ended: {why}");
                    ExecuteError::not_sent(ErrorCode::UpstreamLost, told)
                }
            })?;
        let StartedCall { call_number: number, result: mut answer, mut progress } = started;
        let mut running = RunningCallGuard {
            supervisor: Arc::clone(&self.supervisor),
            process,
            call_number: number,
            is_finished: false,
        };
        loop {
            tokio::select! {
                biased;
                answer = &mut answer => {
                    running.is_finished = true;
                    return self.convert_result(answer.ok());
                }
                Some(ProgressUpdate { completed: done, total, message }) = progress.recv() => {
                    ctx.progress.report_progress(done, total, message.as_deref());
                }
                () = ctx.cancel.cancelled() => {
                    let late = self.supervisor.clock().monotonic_now() >= ctx.deadline;
                    return Err(if late {
                        let told = format!("the plugin `{plugin}` did not respond in time");
                        ExecuteError::maybe_sent(ErrorCode::Timeout, told)
                    } else {
                        ExecuteError::maybe_sent(ErrorCode::Cancelled, "the call was cancelled")
                    });
                }
            }
        }
    }

    fn convert_result(
        &self,
        answer: Option<PluginCallResult>,
    ) -> Result<ExecutionState, ExecuteError> {
        match answer {
            Some(PluginCallResult::Value(value)) => {
                self.supervisor.record_success();
                Ok(ExecutionState::Completed(Outcome::from_value(value)))
            }
            Some(PluginCallResult::ToolFailed(words)) => {
                self.supervisor.record_success();
                Ok(ExecutionState::Completed(Outcome::tool_failure(&words)))
            }
            Some(PluginCallResult::ProcessLost(why)) => Err(self.process_lost_error(&why)),
            None => Err(self.process_lost_error("it no longer exists")),
        }
    }

    fn process_lost_error(&self, why: &str) -> ExecuteError {
        let message = format!(
            "the process of the plugin `{}` ended during the call: {why}",
            self.supervisor.plugin_name()
        );
        ExecuteError::maybe_sent(ErrorCode::UpstreamLost, message)
    }
}

/// Guard of a running call. Dropping it before the answer cancels the call, and replaces the
/// process if the call continues.
struct RunningCallGuard {
    supervisor: Arc<ProcessSupervisor>,
    process: Arc<PluginProcess>,
    call_number: u64,
    is_finished: bool,
}

impl Drop for RunningCallGuard {
    fn drop(&mut self) {
        if self.is_finished {
            return;
        }
        self.process.cancel_call(self.call_number);
        let (host, process, number) =
            (Arc::clone(&self.supervisor), Arc::clone(&self.process), self.call_number);
        let host_of = Arc::clone(&host);
        host.spawn_after(async move {
            tokio::time::sleep(CANCEL_GRACE).await;
            if process.is_in_flight(number) {
                tracing::warn!(
                    plugin = host_of.plugin_name(),
                    "a call continues after its cancellation; its process gets no more calls"
                );
                host_of.retire(&process);
            }
        });
    }
}

impl Executor for PluginExecutor {
    fn execute<'a>(
        &'a self,
        call: RecordedCall<'a>,
        ctx: &'a CallContext<'a>,
    ) -> BoxFuture<'a, Result<ExecutionState, ExecuteError>> {
        Box::pin(self.run_call(call, ctx))
    }
}
