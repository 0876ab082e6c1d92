//! Execution of one call of a module's tool.
//!
//! Some modules prefer the `user_id` in the arguments over the one in the request, and some
//! advertise it as a parameter. A model could then impersonate users, so both are always set to the
//! caller's.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use egress::{EgressError, Phase};
use http::{Method, StatusCode};
use tool::{
    Boxed, Caller, Code, Context, ExecuteError, Executor, Granted, Json, Limits, Outcome, Step,
};

use super::line::{Line, brief, refusal};

/// Margin of the outer timeout over the limit of a single step. It distinguishes a connection that
/// was never made, which may be retried, from a request without a response.
const SLACK: Duration = Duration::from_millis(100);

/// Argument and request field that identify the caller to a module.
const USER_ID: &str = "user_id";

#[derive(Debug)]
pub(super) struct Execute {
    line: Arc<Line>,
    limit: Duration,
}

impl Execute {
    pub(super) fn new(line: Arc<Line>) -> Self {
        let limit = line.options.limit();
        Self { line, limit }
    }

    async fn run(&self, call: Granted<'_>, ctx: &Context<'_>) -> Result<Step, ExecuteError> {
        let body = request(call, ctx.caller);
        let answer = tokio::time::timeout(self.limit + SLACK, self.ask(body));
        tokio::select! {
            answer = answer => match answer {
                Ok(outcome) => outcome.map(Step::Done),
                Err(_) => Err(ExecuteError::during(Code::Timeout, self.timed_out())),
            },
            () = ctx.cancel.cancelled() => {
                Err(ExecuteError::during(Code::Cancelled, "the call was given up"))
            }
        }
    }

    async fn ask(&self, body: Bytes) -> Result<Outcome, ExecuteError> {
        let sent = self.line.send(Method::POST, &self.line.execute, body, self.limit).await;
        let response = sent.map_err(|error| self.lost(&error))?;
        if response.status() != StatusCode::OK {
            return Err(ExecuteError::during(Code::UpstreamFailed, refusal(response).await));
        }
        let body = response.into_body().bytes().await.map_err(|error| self.lost(&error))?;
        result(body).map_err(|what| ExecuteError::during(Code::UpstreamFailed, told(&what)))
    }

    fn lost(&self, error: &EgressError) -> ExecuteError {
        let message = match error {
            EgressError::TimedOut { phase, .. } if *phase != Phase::Queue => self.timed_out(),
            _ => told(&brief(error)),
        };
        ExecuteError { code: error.code(), message, sent: error.sent(), rpc: None }
    }

    fn timed_out(&self) -> String {
        format!("Tool execution timed out ({:.0}s).", self.limit.as_secs_f64())
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

fn told(what: &str) -> String {
    format!("Tool execution error: {what}")
}

fn request(call: Granted<'_>, caller: &Caller) -> Bytes {
    let user = Json::of(&caller.subject);
    let arguments = own_user(call.call().args.raw(), &user);
    let name = Json::of(call.call().tool.name.as_str());
    Json::fields([("tool_name", &name), ("arguments", &arguments), (USER_ID, &user)])
        .bytes()
        .clone()
}

/// Sets the caller under each name that a module may read as `user_id`.
///
/// Some decoders (Go, .NET, Java) match names without regard to case, and the last match wins
/// there.
fn own_user(given: &Json, user: &Json) -> Json {
    let alike = given.named().map(|(name, _)| name).filter(|name| is_user_id(name));
    alike.fold(given.clone(), |arguments, name| arguments.with(&name, user))
}

/// Compares by upper case first: long `s` and dotless `i` differ only in lower case.
fn is_user_id(name: &str) -> bool {
    let folded = name.chars().flat_map(char::to_uppercase).flat_map(char::to_lowercase);
    folded.filter(|c| *c != '\u{307}').eq(USER_ID.chars())
}

/// Parses spec 0's `ToolResult`; a reported failure is an error of the tool.
fn result(body: Bytes) -> Result<Outcome, String> {
    let answer = Json::check(body, Limits::DOCUMENT).and_then(Json::object);
    let answer = answer.map_err(|error| format!("the module's answer cannot be read: {error}"))?;
    let success = answer.get("success");
    match success.as_ref().map(|success| success.read::<bool>().map_err(|_| success.kind())) {
        None => Err("the module's answer has no `success`".into()),
        Some(Err(kind)) => {
            Err(format!("`success` in the module's answer is {kind}; expected true or false"))
        }
        Some(Ok(true)) => Ok(Outcome::value(answer.get("result").unwrap_or_else(|| Json::of(&())))),
        Some(Ok(false)) => {
            let error = answer.get("error").filter(|error| error.kind() != "null");
            let text = error.map_or_else(
                || "the module reported a failure without an error message".to_owned(),
                |error| error.read().unwrap_or_else(|_| error.as_str().to_owned()),
            );
            Ok(Outcome::failed(&text))
        }
    }
}
