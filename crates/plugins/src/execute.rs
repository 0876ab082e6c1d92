//! One call of a plugin's tool.

use std::sync::Arc;
use std::time::Duration;

use tool::{Boxed, Code, Context, ExecuteError, Executor, Granted, Outcome, Step};

use crate::process::{Answer, Begun, Far, Host, Process, Unbegun};

/// How long a call that was given up may go on before its process is ended.
const GRACE: Duration = Duration::from_secs(2);

/// Runs one tool of one version. Whoever holds it holds the version: a call that runs is answered by the
/// code it began with.
#[derive(Debug)]
pub(crate) struct Execute {
    pub(crate) host: Arc<Host>,
    /// Within the plugin.
    pub(crate) tool: String,
}

impl Execute {
    async fn run(&self, call: Granted<'_>, ctx: &Context<'_>) -> Result<Step, ExecuteError> {
        let plugin = self.host.plugin();
        let process = self.host.process().await?;
        let begun = process.begin(&self.tool, call.call().args.raw()).map_err(|why| match why {
            Unbegun::Busy => {
                let told = format!("the plugin `{plugin}` has too many calls at once");
                ExecuteError::before(Code::Busy, told)
            }
            Unbegun::Over(why) => {
                let told = format!("the plugin `{plugin}` ended: {why}");
                ExecuteError::before(Code::UpstreamLost, told)
            }
        })?;
        let Begun { number, mut answer, mut progress } = begun;
        let mut running = Running { host: Arc::clone(&self.host), process, number, over: false };
        loop {
            tokio::select! {
                biased;
                answer = &mut answer => {
                    running.over = true;
                    return self.answered(answer.ok());
                }
                Some(Far { done, total, message }) = progress.recv() => {
                    ctx.progress.report(done, total, message.as_deref());
                }
                () = ctx.cancel.cancelled() => {
                    let late = self.host.clock().mono() >= ctx.deadline;
                    return Err(if late {
                        let told = format!("the plugin `{plugin}` did not answer in time");
                        ExecuteError::during(Code::Timeout, told)
                    } else {
                        ExecuteError::during(Code::Cancelled, "the call was given up")
                    });
                }
            }
        }
    }

    fn answered(&self, answer: Option<Answer>) -> Result<Step, ExecuteError> {
        match answer {
            Some(Answer::Value(value)) => {
                self.host.well();
                Ok(Step::Done(Outcome::value(value)))
            }
            Some(Answer::Failed(words)) => {
                self.host.well();
                Ok(Step::Done(Outcome::failed(&words)))
            }
            Some(Answer::Lost(why)) => Err(self.lost(&why)),
            None => Err(self.lost("it is gone")),
        }
    }

    fn lost(&self, why: &str) -> ExecuteError {
        let told = format!("the plugin `{}` ended during the call: {why}", self.host.plugin());
        ExecuteError::during(Code::UpstreamLost, told)
    }
}

/// A call on its way; dropped before its answer, the process is told, and ended where it goes on.
struct Running {
    host: Arc<Host>,
    process: Arc<Process>,
    number: u64,
    over: bool,
}

impl Drop for Running {
    fn drop(&mut self) {
        if self.over {
            return;
        }
        self.process.cancel(self.number);
        let (host, process, number) =
            (Arc::clone(&self.host), Arc::clone(&self.process), self.number);
        let host_of = Arc::clone(&host);
        host.later(async move {
            tokio::time::sleep(GRACE).await;
            if process.works_on(number) {
                tracing::warn!(
                    plugin = host_of.plugin(),
                    "a call goes on after it was given up: its process gets no more calls"
                );
                host_of.retire(&process);
            }
        });
    }
}

impl Executor for Execute {
    fn execute<'a>(
        &'a self,
        call: Granted<'a>,
        ctx: &'a Context<'a>,
    ) -> Boxed<'a, Result<Step, ExecuteError>> {
        Box::pin(self.run(call, ctx))
    }
}
