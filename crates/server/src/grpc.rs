//! The gRPC door: spec 4's `CallFunction` and our own service, for the caller's view.
//!
//! Who asks is the key in the metadata, as everywhere; without one nobody is let in, unless the server
//! was told to. It decides nothing.

use std::io;
use std::sync::Arc;

use gateway::Request;
use identity::Principal;
use proto::node::Tool as Listed;
use proto::serve::{Asked, Boxed, Said, Told, Tools, serve};
use proto::{MetadataMap, Status};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use tool::executor::{Progress, Wait};
use tool::outcome::{Answer, Failure};
use tool::{CallerType, Code, Json, Step};

use crate::rest::calls::shown;
use crate::state::Doors;
use crate::{auth, held};

/// Serves calls over gRPC until `stop`, and then until those that run are done.
///
/// # Errors
/// Where the listener breaks.
pub async fn listen_grpc(
    doors: &Doors,
    listener: TcpListener,
    stop: CancellationToken,
) -> io::Result<()> {
    let door = Arc::new(Door { doors: doors.clone(), stop: stop.clone() });
    serve(door, listener, None, stop).await
}

struct Door {
    doors: Doors,
    stop: CancellationToken,
}

impl Tools for Door {
    fn who(&self, headers: MetadataMap) -> Boxed<Result<String, Status>> {
        let doors = self.doors.clone();
        Box::pin(async move {
            let principal = principal(&doors, headers).await?;
            Ok(format!("{}/{}/{}", principal.org(), principal.subject(), principal.key()))
        })
    }

    fn list(&self, headers: MetadataMap) -> Boxed<Result<Vec<Listed>, Status>> {
        let doors = self.doors.clone();
        Box::pin(async move {
            let principal = principal(&doors, headers).await?;
            let view = doors.parts.gateway.view(&principal, CallerType::Direct);
            let listed = view.tools().map(|entry| Listed {
                name: entry.key.name.to_string(),
                description: entry.tool.description.clone(),
                input_spec: entry.tool.input.bytes().clone(),
                metadata: Json::of(&serde_json::json!({ "source": entry.key.source }))
                    .bytes()
                    .clone(),
            });
            Ok(listed.collect())
        })
    }

    fn call(&self, asked: Asked) -> Boxed<Result<Said, Status>> {
        let doors = self.doors.clone();
        Box::pin(async move {
            let Asked { tool_name, input, headers, within, progress, cancelled } = asked;
            let principal = principal(&doors, headers).await?;
            let args = if input.is_empty() { Json::empty().bytes().clone() } else { input };
            let mut request = Request::new(tool_name.clone(), args, "grpc");
            request.timeout = within;
            if progress.wanted() {
                request.progress = Some(Arc::new(Teller(progress)));
            }
            let call = doors.parts.gateway.call(&principal, request);
            let answer = tokio::select! {
                answer = call => answer,
                // As for a caller that goes away.
                () = cancelled.cancelled() => {
                    let error = "the call was cancelled".to_owned();
                    return Ok(Said { error, ..Said::default() });
                }
            };
            doors.metrics.ended("grpc", &answer);
            said(&tool_name, answer)
        })
    }

    fn node_id(&self) -> String {
        String::new()
    }

    fn draining(&self) -> bool {
        self.stop.is_cancelled()
    }
}

/// Who asks, by the credential alone.
async fn principal(doors: &Doors, headers: MetadataMap) -> Result<Principal, Status> {
    let headers = headers.into_headers();
    auth::principal(doors, &headers, None).await.map_err(|error| {
        let told = error.message().to_owned();
        match error.code() {
            Code::Unauthenticated => Status::unauthenticated(told),
            Code::Forbidden => Status::permission_denied(told),
            _ => Status::unavailable(told),
        }
    })
}

struct Teller(Told);

impl Progress for Teller {
    fn report(&self, done: f64, total: Option<f64>, message: Option<&str>) {
        self.0.tell(done, total, message.unwrap_or_default());
    }
}

/// What went wrong with a call is told in its answer, as spec 4 does it; hidden and unknown are one.
fn said(name: &str, answer: Answer) -> Result<Said, Status> {
    let call_id = ("call_id".to_owned(), answer.call.to_string());
    let failed =
        |error: String| Ok(Said { error, metadata: [call_id.clone()].into(), ..Said::default() });
    match answer.result {
        Ok(Step::Done(outcome)) if outcome.is_error => {
            let (told, _) = shown(outcome);
            failed(told.read::<String>().unwrap_or_else(|_| told.as_str().to_owned()))
        }
        Ok(Step::Done(outcome)) => {
            let (output, _) = shown(outcome);
            let (output, error) = (output.bytes().clone(), String::new());
            Ok(Said { success: true, output, error, metadata: [call_id].into() })
        }
        Ok(Step::Wait(Wait::Approval(approval))) => failed(held::sentence(answer.call, &approval)),
        Ok(Step::Wait(_)) => {
            failed("the tool asks for input, which cannot be given through this door".to_owned())
        }
        Err(Failure { code: Code::UnknownTool, .. }) => failed(format!("Tool '{name}' not found.")),
        Err(Failure { code: Code::RateLimited | Code::Busy, message, .. }) => {
            Err(Status::resource_exhausted(message))
        }
        Err(Failure { code: Code::Timeout, message, .. }) => {
            Err(Status::deadline_exceeded(message))
        }
        Err(Failure { code: Code::ShuttingDown | Code::RecordUnavailable, message, .. }) => {
            Err(Status::unavailable(message))
        }
        Err(failure) => failed(failure.message),
    }
}
