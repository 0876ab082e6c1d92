//! Runs one call of a tool on its server.

use std::sync::Arc;

use bytes::Bytes;
use rmcp::model::{CallToolRequest, CallToolRequestParams, ClientRequest};
use serde::Deserialize;
use tool::executor::Sent;
use tool::{
    Body, Boxed, Code, Context, ExecuteError, Executor, Granted, Json, Limits, Outcome, Step,
};

use super::inflight::Answer;
use super::link::{Event, Pending, Unanswered, refused};
use super::upstream::Upstream;
use super::wording::shown;

/// Characters of a progress notice's text.
const PROGRESS_TEXT: usize = 500;

/// One tool of one server. The connection is looked up at each call, so that an executor outlives it.
#[derive(Debug)]
pub(super) struct ToolCall {
    upstream: Arc<Upstream>,
    /// The name the server knows it by.
    own: String,
}

impl ToolCall {
    pub(super) fn new(upstream: Arc<Upstream>, own: String) -> Self {
        Self { upstream, own }
    }

    async fn run(&self, call: Granted<'_>, ctx: &Context<'_>) -> Result<Step, ExecuteError> {
        let mut pending = tokio::select! {
            biased;
            () = ctx.cancel.cancelled() => return Err(cancelled(Sent::No)),
            pending = self.send(call) => pending?,
        };
        let answer = loop {
            let event = tokio::select! {
                biased;
                // Dropping what is pending tells the server.
                () = ctx.cancel.cancelled() => return Err(cancelled(Sent::Maybe)),
                event = pending.next() => event,
            };
            match event {
                Event::Answered(answer) => break answer,
                Event::Progressed(step) => {
                    let message = step.message.map(|text| shown(&text, PROGRESS_TEXT));
                    ctx.progress.report(step.progress, step.total, message.as_deref());
                }
            }
        };
        match answer.map_err(|why| self.unanswered(&why, Sent::Maybe))? {
            Answer::Result(bytes) => {
                outcome(bytes).map(Step::Done).map_err(|why| self.failed(&why))
            }
            Answer::Refused(refusal) => Err(self.failed(&refused(&refusal))),
        }
    }

    async fn send(&self, call: Granted<'_>) -> Result<Pending, ExecuteError> {
        let name = &self.upstream.name;
        self.upstream.start();
        let link = self.upstream.link().await.map_err(|fault| {
            let message = format!("the source `{name}` is not up: it {}", fault.message);
            ExecuteError::before(Code::UpstreamLost, message)
        })?;
        let args = &call.call().args;
        let slot = link.slot().map_err(|why| self.unanswered(&why, Sent::No))?;
        let mut params = CallToolRequestParams::new(self.own.clone());
        if link.reads_arguments() {
            params.arguments = args.value().as_object().cloned();
        }
        let request = ClientRequest::CallToolRequest(CallToolRequest::new(params));
        link.call(request, args, slot).await.map_err(|why| self.unanswered(&why, Sent::No))
    }

    fn failed(&self, why: &str) -> ExecuteError {
        let name = &self.upstream.name;
        ExecuteError::during(Code::UpstreamFailed, format!("the source `{name}` answered: {why}"))
    }

    fn unanswered(&self, why: &Unanswered, sent: Sent) -> ExecuteError {
        let name = &self.upstream.name;
        match why {
            Unanswered::Full => {
                let most = self.upstream.options.bounds.calls;
                let message =
                    format!("{most} calls are in flight at the source `{name}`; try again");
                ExecuteError::before(Code::Busy, message)
            }
            Unanswered::Closed => {
                let message = format!("the source `{name}` went away before the call was sent");
                ExecuteError::before(Code::UpstreamLost, message)
            }
            Unanswered::Lost => {
                let message = format!("the source `{name}` went away during the call");
                ExecuteError { code: Code::UpstreamLost, message, sent }
            }
            Unanswered::Undelivered(error) => super::fail::call(name, error),
        }
    }
}

impl Executor for ToolCall {
    fn execute<'a>(
        &'a self,
        call: Granted<'a>,
        ctx: &'a Context<'a>,
    ) -> Boxed<'a, Result<Step, ExecuteError>> {
        Box::pin(self.run(call, ctx))
    }
}

fn cancelled(sent: Sent) -> ExecuteError {
    ExecuteError { code: Code::Cancelled, message: "the call was given up".to_owned(), sent }
}

/// A result as received, with what it says of itself read out of it.
fn outcome(bytes: Bytes) -> Result<Outcome, String> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Head {
        #[serde(default)]
        is_error: bool,
        result_type: Option<String>,
    }
    let body = Json::check(bytes, Limits::DOCUMENT)
        .and_then(Json::object)
        .map_err(|why| format!("with a result that cannot be read: {why}"))?;
    let head: Head =
        body.read().map_err(|why| format!("with a result that cannot be read: {why}"))?;
    match head.result_type.as_deref() {
        None | Some("complete") => Ok(Outcome { body: Body::Mcp(body), is_error: head.is_error }),
        Some("input_required") => {
            Err("with questions to the client, which are not passed on yet".to_owned())
        }
        Some("task") => Err("with a task to follow, which is not done yet".to_owned()),
        Some(other) => {
            Err(format!("with a result of type `{}`, which is not known", shown(other, 40)))
        }
    }
}

/// Prompts and resources are shown beside tools; they are no tools.
#[derive(Debug)]
pub(super) struct NotCalled;

impl Executor for NotCalled {
    fn execute<'a>(
        &'a self,
        call: Granted<'a>,
        _: &'a Context<'a>,
    ) -> Boxed<'a, Result<Step, ExecuteError>> {
        let message =
            format!("`{}` is a prompt or a resource; only tools are called", call.call().key.name);
        Box::pin(std::future::ready(Err(ExecuteError::before(Code::UnknownTool, message))))
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use tool::Body;

    use super::outcome;

    #[test]
    fn a_result_is_kept_as_it_came() {
        let text = r#"{"content":[{"type":"hologram","x":1.0e2}],"isError":true,"_meta":{"k":null}, "new":1}"#;
        let outcome = outcome(Bytes::from(text)).unwrap();
        assert!(outcome.is_error);
        let Body::Mcp(body) = outcome.body else { panic!("not MCP's shape") };
        assert_eq!(body.as_str(), text);
    }

    #[test]
    fn results_of_other_kinds_are_refused_in_words() {
        let refused = |text: &'static str| outcome(Bytes::from(text)).unwrap_err();
        assert!(refused(r#"{"resultType":"input_required"}"#).contains("questions to the client"));
        assert!(refused(r#"{"resultType":"task"}"#).contains("a task"));
        assert!(refused(r#"{"resultType":"odd"}"#).contains("`odd`"));
        assert!(refused("[]").contains("expected object, found array"));
        assert!(refused(r#"{"a":1,"a":2}"#).contains("occurs twice"));
        assert!(outcome(Bytes::from(r#"{"resultType":"complete"}"#)).is_ok());
    }
}
