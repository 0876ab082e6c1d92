//! The gRPC door: spec 4's `CallFunction` and our own service, for the caller's view.
//!
//! Who asks is the key in the metadata, as everywhere; without one nobody is let in, unless the server
//! was told to. It decides nothing.

mod known;

use std::io;
use std::sync::Arc;

use bytes::Bytes;
use gateway::Request;
use http::header::{AUTHORIZATION, InvalidHeaderValue};
use http::{HeaderMap, HeaderValue, Uri};
use identity::Principal;
use proto::node::Tool as Listed;
use proto::serve::{
    Asked, Boxed, Connection, Said, Seat, Told, Tools, serve_seated, unless_cancelled,
};
use proto::{MetadataMap, Status};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use tool::executor::{Progress, Wait};
use tool::node::arguments;
use tool::outcome::{Answer, Failure};
use tool::{CallerType, Code, Interface, Json, Limits, Secret, Step};

use crate::Workers;
use known::Known;
use server_core::call_result::shown;
use server_core::error::ApiError;
use server_core::state::Doors;
use server_core::{auth, context, held};

/// Serves calls over gRPC on `workers` until `stop`, and then until those that run are done. Where it is
/// bound to a key, whoever reaches it is its owner, and nothing that a caller sends says otherwise.
///
/// # Errors
/// Where the listener breaks, or the key cannot be sent in a header.
pub async fn listen_grpc(
    doors: &Doors,
    listener: TcpListener,
    bound: Option<&Secret>,
    (workers, stop): (&Workers, CancellationToken),
) -> io::Result<()> {
    let bound = bound.map(headers_of).transpose().map_err(io::Error::other)?;
    let door = Arc::new(Door { doors: doors.clone(), bound, stop: stop.clone() });
    let seat = || {
        let seat = workers.seat();
        Seat { on: seat.on.clone(), held: Box::new(seat) }
    };
    serve_seated(door, listener, &seat, stop).await
}

/// What the owner of a key may call, for a door that has seen to who comes through: such as a node's,
/// which lets only its server call. What a caller sends beside a call counts for nothing.
///
/// # Errors
/// Where the key cannot be sent in a header.
pub fn tools_of(
    doors: &Doors,
    key: &Secret,
    stop: CancellationToken,
) -> Result<Arc<dyn Tools>, InvalidHeaderValue> {
    let bound = Some(headers_of(key)?);
    Ok(Arc::new(Door { doors: doors.clone(), bound, stop }))
}

/// As a caller with the key would send them.
fn headers_of(key: &Secret) -> Result<HeaderMap, InvalidHeaderValue> {
    let mut value = HeaderValue::from_str(&format!("Bearer {}", key.open()))?;
    value.set_sensitive(true);
    Ok([(AUTHORIZATION, value)].into_iter().collect())
}

struct Door {
    doors: Doors,
    /// What counts in the place of what a caller sends.
    bound: Option<HeaderMap>,
    stop: CancellationToken,
}

impl Door {
    fn headers(&self, sent: MetadataMap) -> HeaderMap {
        self.bound.clone().unwrap_or_else(|| sent.into_headers())
    }
}

impl Tools for Door {
    fn connected(&self) -> Option<Connection> {
        Some(Arc::<Known>::default())
    }

    fn admit(
        &self,
        headers: MetadataMap,
        connection: Option<Connection>,
    ) -> Boxed<Result<(), Status>> {
        let (doors, headers) = (self.doors.clone(), self.headers(headers));
        Box::pin(async move {
            let known = connection.as_ref().and_then(|kept| kept.downcast_ref::<Known>());
            known::principal(&doors, headers, known).await.map(drop)
        })
    }

    fn who(&self, headers: MetadataMap) -> Boxed<Result<String, Status>> {
        let (doors, headers) = (self.doors.clone(), self.headers(headers));
        Box::pin(async move {
            let principal = principal(&doors, headers).await?;
            Ok(format!("{}/{}/{}", principal.org(), principal.subject(), principal.key()))
        })
    }

    fn list(&self, headers: MetadataMap) -> Boxed<Result<Vec<Listed>, Status>> {
        let (doors, headers) = (self.doors.clone(), self.headers(headers));
        Box::pin(async move {
            let principal = principal(&doors, headers).await?;
            let view = doors.parts.gateway.view(&principal, CallerType::Direct);
            let listed = view.tools().map(|entry| Listed {
                name: entry.name.to_string(),
                description: entry.tool.description.clone(),
                input_spec: entry.tool.input.bytes().clone(),
                metadata: Json::of(&serde_json::json!({
                    "source": entry.key.source,
                    "effects": entry.tool.traits.effects.words(),
                }))
                .bytes()
                .clone(),
            });
            Ok(listed.collect())
        })
    }

    fn call(&self, asked: Asked) -> Boxed<Result<Said, Status>> {
        let doors = self.doors.clone();
        let Asked { tool_name, input, headers, within, progress, cancelled, connection } = asked;
        let headers = self.headers(headers);
        Box::pin(async move {
            let known = connection.as_ref().and_then(|kept| kept.downcast_ref::<Known>());
            let principal = known::principal(&doors, headers, known).await?;
            let args = if input.is_empty() { Json::empty().bytes().clone() } else { whole(input) };
            let view = doors.parts.gateway.view(&principal, CallerType::Direct);
            let native = doors.lists.native(&view, &tool_name);
            let mut request = Request::new(native, args, Interface::Grpc);
            request.timeout = within;
            if progress.wanted() {
                request.progress = Some(Arc::new(Teller(progress)));
            }
            let call = doors.parts.gateway.call(&principal, request);
            let Some(answer) = unless_cancelled(cancelled, call).await else {
                let error = "the call was cancelled".to_owned();
                return Ok(Said { error, ..Said::default() });
            };
            doors.metrics.ended(Interface::Grpc, &answer);
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

/// Spec 4's input is any JSON; what is none is refused with the arguments.
fn whole(input: Bytes) -> Bytes {
    if input.trim_ascii_start().starts_with(b"{") {
        return input;
    }
    let checked = Json::check(input.clone(), Limits::DOCUMENT);
    checked.map_or(input, |input| arguments(&input).bytes().clone())
}

fn narrowed(doors: &Doors, whose: Principal, headers: &HeaderMap) -> Result<Principal, Status> {
    context::narrowed(doors, whose, (headers, &Uri::default())).map_err(|error| refused(&error))
}

/// Who asks, by the credential alone, without what the metadata give up.
async fn principal(doors: &Doors, headers: HeaderMap) -> Result<Principal, Status> {
    let found = auth::principal(doors, (&headers, None), None, doors.parts.clock.wall()).await;
    narrowed(doors, found.map_err(|error| refused(&error))?, &headers)
}

fn refused(error: &ApiError) -> Status {
    let told = error.message().to_owned();
    match error.code() {
        Code::Unauthenticated => Status::unauthenticated(told),
        Code::Forbidden => Status::permission_denied(told),
        Code::InvalidRequest => Status::invalid_argument(told),
        _ => Status::unavailable(told),
    }
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
