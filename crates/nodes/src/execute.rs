//! One call of a node's tool.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use proto::node::CallRequest;
use proto::node::call_event::Event;
use proto::toolrpc::CallFunctionRequest;
use tonic::{Request, Status};
use tool::node::{Beat, WHOLE_INPUT};
use tool::{Args, Boxed, Code, Context, ExecuteError, Executor, Granted, Outcome, Step};

use crate::answer::{lost, outcome};
use crate::placed::{Placed, not_there, pinned};
use crate::registry::Shared;

/// Runs the tools of one node.
#[derive(Debug)]
pub(crate) struct Execute {
    pub(crate) node: String,
    pub(crate) shared: Arc<Shared>,
}

impl Execute {
    pub(crate) async fn run(
        &self,
        call: Granted<'_>,
        ctx: &Context<'_>,
    ) -> Result<Step, ExecuteError> {
        let before = |message: String| ExecuteError::before(Code::UpstreamLost, message);
        if self.shared.beat_of(&self.node) == Some(Beat::Draining) {
            return Err(before(format!("the node `{}` is ending and takes no calls", self.node)));
        }
        let line = self.shared.lines.to(&self.node).map_err(|error| before(error.to_string()))?;
        let left = ctx.deadline.since(self.shared.clock.mono());
        tokio::select! {
            answer = self.ask(&line, call, ctx, left) => match answer {
                Ok(outcome) => {
                    ctx.ran_on(&self.node);
                    Ok(Step::Done(outcome))
                }
                Err(status) => Err(lost(&self.node, &status)),
            },
            // Dropping the request resets its stream: the node hears of it.
            () = ctx.cancel.cancelled() => {
                Err(ExecuteError::during(Code::Cancelled, "the call was given up"))
            }
        }
    }

    /// With progress where somebody listens and the node can tell; else as spec 4 has it.
    async fn ask(
        &self,
        line: &proto::connect::Line,
        call: Granted<'_>,
        ctx: &Context<'_>,
        left: Duration,
    ) -> Result<Outcome, Status> {
        let call = call.call();
        let (tool_name, input) = (call.tool.name.to_string(), input(&call.args));
        if ctx.progress.wanted() && self.shared.may_tell(&self.node) {
            let call_id = call.id.to_string();
            let (tool_name, input) = (tool_name.clone(), input.clone());
            // Apart, for it is rare and large: no other call carries its room about.
            let told =
                Box::pin(self.told(line, CallRequest { call_id, tool_name, input }, ctx, left));
            if let Some(outcome) = told.await? {
                return Ok(outcome);
            }
        }
        let said = line.call(CallFunctionRequest { tool_name, input }, left).await?;
        Ok(outcome(said.success, &said.output, &said.error))
    }

    /// With its progress; nothing where the node cannot tell it, and then nothing has run.
    async fn told(
        &self,
        line: &proto::connect::Line,
        message: CallRequest,
        ctx: &Context<'_>,
        left: Duration,
    ) -> Result<Option<Outcome>, Status> {
        let mut request = Request::new(message);
        request.set_timeout(left);
        match line.node().call(request).await {
            Ok(events) => followed(events.into_inner(), ctx).await.map(Some),
            // An older node.
            Err(status) if status.code() == tonic::Code::Unimplemented => {
                self.shared.tells_nothing(&self.node);
                Ok(None)
            }
            Err(status) => Err(status),
        }
    }
}

/// What a node gets: the arguments, or the one value that stands for all of them.
fn input(args: &Args) -> Bytes {
    let raw = args.raw();
    // Most calls have no such argument, and their arguments are not walked.
    let first = raw.bytes().trim_ascii_start().strip_prefix(b"{").map(<[u8]>::trim_ascii_start);
    let first = first.and_then(|rest| rest.strip_prefix(b"\""));
    if first.is_some_and(|rest| rest.starts_with(WHOLE_INPUT.as_bytes())) {
        let mut members = raw.named();
        if let (Some((name, value)), None) = (members.next(), members.next())
            && name == WHOLE_INPUT
        {
            return value.bytes().clone();
        }
    }
    raw.bytes().clone()
}

async fn followed(
    mut events: tonic::Streaming<proto::node::CallEvent>,
    ctx: &Context<'_>,
) -> Result<Outcome, Status> {
    while let Some(event) = events.message().await? {
        match event.event {
            Some(Event::Progress(told)) => {
                let message = Some(told.message.as_str()).filter(|message| !message.is_empty());
                ctx.progress.report(told.done, told.total, message);
            }
            Some(Event::Result(said)) => {
                return Ok(outcome(said.success, &said.output, &said.error));
            }
            None => {}
        }
    }
    Err(Status::unavailable("its answer broke off before the result"))
}

impl Executor for Execute {
    fn execute<'a>(
        &'a self,
        call: Granted<'a>,
        ctx: &'a Context<'a>,
    ) -> Boxed<'a, Result<Step, ExecuteError>> {
        Box::pin(async move {
            match pinned(ctx) {
                Some(node) if node != self.node => Err(not_there(&node)),
                _ => self.run(call, ctx).await,
            }
        })
    }

    fn places(&self) -> Vec<String> {
        vec![self.node.clone()]
    }

    fn beside(&self, others: &[Arc<dyn Executor>]) -> Option<Arc<dyn Executor>> {
        let mut nodes = self.places();
        nodes.extend(others.iter().flat_map(|other| other.places()));
        Some(Arc::new(Placed::new(nodes, &self.shared)))
    }
}
