//! The event stream of one call: progress, then the result. Dropping the stream drops the call.

use std::pin::Pin;

use futures_util::{Stream, StreamExt as _, stream};
use tokio::sync::mpsc::Receiver;
use tonic::Status;

use super::running_calls::CallRegistration;
use super::{FunctionResult, ServiceFuture};
use crate::node::call_event::Event;
use crate::node::{CallEvent, Progress, Result as Outcome};

pub(super) type CallEventStream = Pin<Box<dyn Stream<Item = Result<CallEvent, Status>> + Send>>;

struct RunningStream {
    call: ServiceFuture<Result<FunctionResult, Status>>,
    progress: Receiver<Progress>,
    _registration: CallRegistration,
}

pub(super) fn call_event_stream(
    call: ServiceFuture<Result<FunctionResult, Status>>,
    progress: Receiver<Progress>,
    registration: CallRegistration,
) -> CallEventStream {
    let running = RunningStream { call, progress, _registration: registration };
    stream::unfold(Some(running), |running| async {
        let mut running = running?;
        tokio::select! {
            biased;
            Some(progress) = running.progress.recv() => {
                Some((Ok(to_call_event(Event::Progress(progress))), Some(running)))
            }
            result = &mut running.call => Some((result.map(|result| to_call_event(Event::Result(to_call_result(result)))), None)),
        }
    })
    .boxed()
}

fn to_call_event(event: Event) -> CallEvent {
    CallEvent { event: Some(event) }
}

fn to_call_result(FunctionResult { success, output, error, metadata }: FunctionResult) -> Outcome {
    Outcome { success, output, error, metadata }
}
