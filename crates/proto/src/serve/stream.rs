//! A call as a stream: what it tells on its way, then what came of it. Dropping the stream drops the
//! call.

use std::pin::Pin;

use futures_util::{Stream, StreamExt as _, stream};
use tokio::sync::mpsc::Receiver;
use tonic::Status;

use super::running::Entered;
use super::{Boxed, Said};
use crate::node::call_event::Event;
use crate::node::{CallEvent, Progress, Result as Outcome};

pub(super) type Events = Pin<Box<dyn Stream<Item = Result<CallEvent, Status>> + Send>>;

struct Going {
    call: Boxed<Result<Said, Status>>,
    told: Receiver<Progress>,
    _entered: Entered,
}

pub(super) fn events(
    call: Boxed<Result<Said, Status>>,
    told: Receiver<Progress>,
    entered: Entered,
) -> Events {
    let going = Going { call, told, _entered: entered };
    stream::unfold(Some(going), |going| async {
        let mut going = going?;
        tokio::select! {
            biased;
            Some(progress) = going.told.recv() => {
                Some((Ok(event(Event::Progress(progress))), Some(going)))
            }
            said = &mut going.call => Some((said.map(|said| event(Event::Result(outcome(said)))), None)),
        }
    })
    .boxed()
}

fn event(event: Event) -> CallEvent {
    CallEvent { event: Some(event) }
}

fn outcome(Said { success, output, error, metadata }: Said) -> Outcome {
    Outcome { success, output, error, metadata }
}
