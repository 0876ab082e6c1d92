//! The execution of one call through the gateway, with a plain response, or a stream as soon as an
//! event precedes the response.

use std::pin::Pin;
use std::sync::Arc;

use gateway::{Request, Target};
use http::StatusCode;
use identity::Principal;
use mcp::{Era, Id, RpcError, code, meta};
use serde_json::json;
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;
use tool::call::Resume;
use tool::executor::{Approval, ClientCan};
use tool::outcome::{Answer, Failure, Status};
use tool::{CallId, Code, Interface, Json, Step, Wait};

use super::approval::{self, Held};
use super::ask::Questions;
use super::asked::Asked;
use super::body::{self, Events, Reply};
use super::client;
use super::outlet::Outlet;
use super::refused::Refused;
use super::result::{Words, Written};
use super::running::Entered;
use super::task::Task;
use super::told::Told;
use super::waiting::Bound;
use crate::McpDoors;
use server_core::held::sentence;

/// The data needed to run a call and encode its response.
#[derive(Debug)]
pub(crate) struct Finish {
    pub(crate) doors: McpDoors,
    principal: Principal,
    era: Era,
    pub(crate) id: Id,
    called: Option<String>,
    method: bool,
    own: bool,
    dated: bool,
    client: ClientCan,
    /// The binding of a request state, if the client can resume the call.
    bound: Option<Bound>,
    /// The approval data of a tool call.
    held: Option<Held>,
    /// The task that the call can become, for a client that supports tasks.
    task: Option<Arc<Task>>,
}

impl Finish {
    /// Creates the completion of a tool call from its native name and the client's name.
    pub(crate) fn tool(asked: &Asked<'_>, (native, name): (&str, String), args: &Json) -> Self {
        let bound = (asked.era == Era::Stateless).then(|| Bound::new(asked, native, args));
        let called = asked.who.scope.source().map(|_| name);
        let held = Some(Held::of(asked, native));
        let finish = Self { called, bound, held, ..Self::new(asked) };
        let follows = finish.client.tasks && asked.era == Era::Stateless;
        let task = follows.then(|| asked.who.doors.mcp.kept.offer(asked));
        Self { task, ..finish }
    }

    /// Creates the completion of a method call, which may request input only where MCP allows it.
    pub(crate) fn method(asked: &Asked<'_>, args: &Json) -> Self {
        let may = matches!(asked.method, "prompts/get" | "resources/read");
        let bound = (may && asked.era == Era::Stateless).then(|| Bound::new(asked, "", args));
        let dated = asked.method == "resources/read" && asked.era == Era::Stateless;
        Self { method: true, dated, bound, ..Self::new(asked) }
    }

    fn new(asked: &Asked<'_>) -> Self {
        Self {
            doors: asked.who.doors.clone(),
            principal: asked.who.principal.clone(),
            era: asked.era,
            id: asked.id.clone(),
            called: None,
            method: false,
            own: asked.who.scope.source().is_some(),
            dated: false,
            client: asked.client(),
            bound: None,
            held: None,
            task: None,
        }
    }

    /// Opens the request state that this request resumes, if it has one. A pending approval is only
    /// referenced.
    pub(crate) async fn continues(&mut self, asked: &Asked<'_>) -> Result<Option<Resume>, Refused> {
        let Some(bound) = &self.bound else { return Ok(None) };
        let waits = &asked.who.doors.mcp.waits;
        let pointed = waits.pointed(&self.principal, bound, asked.named.state.as_ref())?;
        if let (Some(call), Some(held)) = (pointed, &mut self.held) {
            held.again = Some((call, asked.named.answers.clone()));
            return Ok(None);
        }
        let (state, answers) = (asked.named.state.clone(), asked.named.answers.clone());
        asked.who.doors.mcp.waits.resume(asked.who, bound, (state, answers)).await
    }

    async fn run(mut self, request: Box<Request>) -> Written {
        if let Some(task) = self.task.take() {
            return Box::pin(super::task::run(self, task, request)).await;
        }
        let answer = self.call(request).await;
        self.written(answer)
    }

    /// Runs the call. Code for pending calls is boxed, so that other calls do not carry its future.
    async fn call(&self, request: Box<Request>) -> Answer {
        let (doors, principal) = (&self.doors, &self.principal);
        if let Some(Held { again: Some(again), .. }) = &self.held {
            return Box::pin(approval::again(doors, principal, again.clone())).await;
        }
        // A client of the older era can only call again. A call that equals a pending one, or one
        // whose result was not fetched yet, resumes that one.
        let patient = self.held.as_ref().filter(|_| self.era == Era::Handshake);
        let gateway = &doors.parts.gateway;
        let ask = patient.and_then(|_| request.ask.clone());
        let answer = if let Some(call) = patient.and_then(|_| gateway.earlier(principal, &request))
        {
            let now = std::time::Duration::ZERO;
            Box::pin(approval::settled(doors, principal, (call, now))).await
        } else {
            let answer = gateway.call(principal, request).await;
            doors.metrics.ended(Interface::Mcp, &answer);
            answer
        };
        match patient {
            Some(held) if matches!(&answer.result, Ok(Step::Wait(Wait::Approval(_)))) => {
                let client = (held, &self.client, ask);
                Box::pin(approval::patiently((doors, principal), client, answer)).await
            }
            _ => answer,
        }
    }

    /// Runs the call for a task and returns its recorded status too. Separate, to keep the future
    /// of other calls small.
    pub(crate) async fn answered(self, request: Box<Request>) -> (Written, Status) {
        let answer = self.call(request).await;
        let status = answer.status;
        (self.written(answer), status)
    }

    fn written(self, answer: Answer) -> Written {
        let words = Words {
            era: self.era,
            id: &self.id,
            called: self.called.as_deref(),
            own: self.own,
            dated: self.dated,
        };
        let call = answer.call;
        let wait = match if self.method { words.method(answer) } else { words.tool(answer) } {
            Ok(written) => return written,
            Err(wait) => wait,
        };
        let told = "the tool asks for input, which this client cannot give";
        match (wait, &self.bound) {
            (Step::Wait(Wait::Input { requests, resume }), Some(bound)) => {
                if let Some((status, error)) = undeclared(&self.client, &requests) {
                    return Written::error(&self.id, status, &error);
                }
                let waits = &self.doors.mcp.waits;
                let now = self.doors.parts.clock.wall();
                let state = waits.seal(&self.principal, bound, (call, &resume), now);
                match state {
                    Some(state) => {
                        let (kind, state) = (Json::of("input_required"), Json::of(&state));
                        words.result(&Json::fields([
                            ("resultType", &kind),
                            ("inputRequests", &requests),
                            ("requestState", &state),
                        ]))
                    }
                    None => words.failure(
                        &Failure::new(Code::Internal, "the tool's question cannot be held"),
                        self.method,
                    ),
                }
            }
            (Step::Wait(Wait::Approval(approval)), bound) => {
                self.held_back(words, bound.as_ref(), (call, &approval))
            }
            _ => words.failure(&Failure::new(Code::UpstreamFailed, told), self.method),
        }
    }
}

impl Finish {
    /// Encodes a pending approval: as a request state to resume with, or as text.
    fn held_back(
        &self,
        words: Words<'_>,
        bound: Option<&Bound>,
        (call, approval): (CallId, &Approval),
    ) -> Written {
        let waits = &self.doors.mcp.waits;
        let state = bound.and_then(|bound| waits.point(&self.principal, bound, call));
        let Some(state) = state else {
            let who = (&self.doors, &self.principal);
            let typed = self.held.as_ref().is_some_and(|held| held.typed(who));
            let text = json!({"type": "text", "text": sentence(call, approval)});
            return words.result(&Json::of(&json!({"content": [text], "isError": typed})));
        };
        let (kind, state) = (Json::of("input_required"), Json::of(&state));
        let confirms = self.doors.parts.gateway.client_confirms(&self.principal);
        let client = (&self.doors, &self.client, confirms);
        let requests = self.held.as_ref().and_then(|held| held.requests(client, (call, approval)));
        let result = Json::fields([("resultType", &kind), ("requestState", &state)]);
        words.result(&match requests {
            Some(requests) => result.with("inputRequests", &requests),
            None => result,
        })
    }
}

/// Returns the error for the first input request that the client did not declare support for.
fn undeclared(can: &ClientCan, requests: &Json) -> Option<(StatusCode, RpcError)> {
    let unanswerable = requests.members().into_iter().find_map(|(_, question)| {
        let [method, params] = question.pick(["method", "params"]);
        let method: String = method.and_then(|method| method.read().ok()).unwrap_or_default();
        let params = params.unwrap_or_else(Json::empty);
        (!client::answers(can, &method, &params)).then_some(method)
    });
    let method = unanswerable?;
    let Some(needed) = client::needs(&method) else {
        let told = "the tool asks for something that no client can be asked";
        return Some((StatusCode::OK, RpcError::new(code::INTERNAL_ERROR, told)));
    };
    let told = format!("the tool asks through `{method}`; declare the capability `{needed}`");
    let empty = Json::empty();
    let data = Json::fields([("requiredCapabilities", &Json::fields([(needed, &empty)]))]);
    let error = RpcError { data: Some(data), ..RpcError::new(code::MISSING_CAPABILITY, told) };
    Some((StatusCode::BAD_REQUEST, error))
}

/// Runs a call. A client that accepts notifications gets a stream as soon as there is one.
pub(crate) fn run<'a>(
    asked: &'a Asked<'_>,
    finish: Finish,
    mut request: Box<Request>,
) -> impl Future<Output = Reply> + Send + 'a {
    request.meta = beside(asked);
    request.client = finish.client.clone();
    let entered = asked.session.as_ref().map(|session| session.live.running.enter(asked.id));
    let outlet = outlet(asked, &mut request);
    // Boxed here: futures carry what they capture through every layer above them, and this is most
    // of a call.
    answered(asked, (outlet, entered), Box::pin(finish.run(request)))
}

async fn answered(
    asked: &Asked<'_>,
    (outlet, entered): (Option<Arc<Outlet>>, Option<Entered>),
    mut work: Pin<Box<impl Future<Output = Written> + Send + 'static>>,
) -> Reply {
    let Some(outlet) = outlet else {
        return tokio::select! {
            biased;
            written = work => written.reply(),
            () = cancelled(entered.as_ref().map(Entered::token)) => silence(),
        };
    };
    let written = tokio::select! {
        biased;
        written = &mut work => written,
        () = outlet.waiting() => {
            let given_up = entered.as_ref().map(Entered::token).cloned();
            return streamed(asked, (outlet, entered), async move {
                tokio::select! {
                    biased;
                    written = work => Some(written.event()),
                    () = cancelled(given_up.as_ref()) => None,
                }
            });
        }
        () = cancelled(entered.as_ref().map(Entered::token)) => return silence(),
    };
    let mut events: Vec<_> = std::iter::from_fn(|| outlet.take()).collect();
    if events.is_empty() {
        return written.reply();
    }
    events.push(written.event());
    body::told(events.concat().into())
}

/// The `_meta` sent upstream. Sources of 2026-07-28 expect the minimum log level in each request;
/// the session's level is added.
fn beside(asked: &Asked<'_>) -> Option<Json> {
    let level = asked.level().filter(|_| asked.session.is_some());
    match (&asked.beside, level) {
        (beside, None) => beside.clone(),
        (Some(beside), Some(level)) => Some(beside.with(meta::LOG_LEVEL, &level.word())),
        (None, Some(level)) => Some(level.alone()),
    }
}

/// Attaches an event sink to the request, if this client accepts notifications or requests.
fn outlet(asked: &Asked<'_>, request: &mut Request) -> Option<Arc<Outlet>> {
    let level = asked.level();
    let asks = asked.session.as_ref().filter(|session| client::answers_any(&session.client));
    if asked.meta.token.is_none() && level.is_none() && asks.is_none() {
        return None;
    }
    let outlet = Arc::new(Outlet::default());
    let told = Told::new(Arc::clone(&outlet), asked.meta.token.clone(), level);
    request.progress = Some(Arc::new(told));
    if let Some(session) = asks {
        request.ask = Some(Arc::new(Questions {
            live: Arc::clone(&session.live),
            outlet: Arc::clone(&outlet),
            client: session.client.clone(),
        }));
    }
    Some(outlet)
}

/// Streams the response of a call that runs in its own task: a slow client does not delay it, and a
/// disconnect aborts it.
fn streamed(
    asked: &Asked<'_>,
    (outlet, entered): (Arc<Outlet>, Option<Entered>),
    work: impl Future<Output = Option<bytes::Bytes>> + Send + 'static,
) -> Reply {
    let task = asked.who.doors.mcp.tasks.spawn(work);
    body::events(Events::new(outlet, Some(AbortOnDropHandle::new(task)), entered))
}

/// Resolves when the request is cancelled; never for a request that cannot be cancelled.
async fn cancelled(token: Option<&CancellationToken>) {
    match token {
        Some(token) => token.cancelled().await,
        None => std::future::pending().await,
    }
}

/// An empty stream: MCP sends no response to a cancelled request.
fn silence() -> Reply {
    body::told(bytes::Bytes::new())
}

/// Returns a method of the endpoint's source, or an error if the caller cannot use it.
pub(crate) fn of_source(asked: &Asked<'_>, name: &'static str) -> Result<Target, Refused> {
    let source = asked.who.scope.source().ok_or_else(|| asked.unknown())?;
    if asked.who.view().method(source, name).is_none() {
        return Err(asked.unknown());
    }
    Ok(Target::Method { source: source.to_owned(), name })
}
