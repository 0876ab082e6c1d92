//! Execution of one call of a module's tool.
//!
//! Some modules prefer the `user_id` in the arguments over the one in the request, and some
//! advertise it as a parameter. A model could then impersonate users, so both are always set to the
//! caller's.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use egress::{EgressError, RequestPhase};
use http::{Method, StatusCode};
use tool::{
    BoxFuture, CallContext, Caller, ErrorCode, ExecuteError, ExecutionState, Executor, Json,
    JsonLimits, Outcome, RecordedCall,
};

use super::module_client::{ModuleClient, call_error_text, status_error_text};

/// Margin of the outer timeout over the limit of a single step. It distinguishes a connection that
/// was never made, which may be retried, from a request without a response.
const TIMEOUT_MARGIN: Duration = Duration::from_millis(100);

/// Argument and request field that identify the caller to a module.
const USER_ID_FIELD: &str = "user_id";

#[derive(Debug)]
pub(super) struct HttpModuleExecutor {
    client: Arc<ModuleClient>,
    call_timeout: Duration,
}

impl HttpModuleExecutor {
    pub(super) fn new(client: Arc<ModuleClient>) -> Self {
        let limit = client.options.call_timeout();
        Self { client, call_timeout: limit }
    }

    async fn run_call(
        &self,
        call: RecordedCall<'_>,
        ctx: &CallContext<'_>,
    ) -> Result<ExecutionState, ExecuteError> {
        let body = encode_request(call, ctx.caller);
        let answer =
            tokio::time::timeout(self.call_timeout + TIMEOUT_MARGIN, self.send_request(body));
        tokio::select! {
            answer = answer => match answer {
                Ok(outcome) => outcome.map(ExecutionState::Completed),
                Err(_) => Err(ExecuteError::maybe_sent(ErrorCode::Timeout, self.timeout_message())),
            },
            () = ctx.cancel.cancelled() => {
                Err(ExecuteError::maybe_sent(ErrorCode::Cancelled, "the call was cancelled"))
            }
        }
    }

    async fn send_request(&self, body: Bytes) -> Result<Outcome, ExecuteError> {
        let sent = self
            .client
            .send_request(Method::POST, &self.client.execute_uri, body, self.call_timeout)
            .await;
        let response = sent.map_err(|error| self.to_execute_error(&error))?;
        if response.status() != StatusCode::OK {
            return Err(ExecuteError::maybe_sent(
                ErrorCode::UpstreamFailed,
                status_error_text(response).await,
            ));
        }
        let body = response
            .into_body()
            .collect_bytes()
            .await
            .map_err(|error| self.to_execute_error(&error))?;
        parse_result(body).map_err(|what| {
            ExecuteError::maybe_sent(ErrorCode::UpstreamFailed, error_message(&what))
        })
    }

    fn to_execute_error(&self, error: &EgressError) -> ExecuteError {
        let message = match error {
            EgressError::TimedOut { phase, .. } if *phase != RequestPhase::RequestPermit => {
                self.timeout_message()
            }
            _ => error_message(&call_error_text(error)),
        };
        ExecuteError {
            code: error.error_code(),
            message,
            dispatch: error.dispatch(),
            rpc_error: None,
        }
    }

    fn timeout_message(&self) -> String {
        format!("Tool execution timed out ({:.0}s).", self.call_timeout.as_secs_f64())
    }
}

impl Executor for HttpModuleExecutor {
    fn execute<'a>(
        &'a self,
        call: RecordedCall<'a>,
        ctx: &'a CallContext<'a>,
    ) -> BoxFuture<'a, Result<ExecutionState, ExecuteError>> {
        Box::pin(self.run_call(call, ctx))
    }
}

fn error_message(reason: &str) -> String {
    format!("Tool execution error: {reason}")
}

fn encode_request(call: RecordedCall<'_>, caller: &Caller) -> Bytes {
    let user = Json::encode(&caller.subject);
    let arguments = with_caller_user_id(call.call().arguments.as_json(), &user);
    let name = Json::encode(call.call().tool.name.as_str());
    Json::object_from([("tool_name", &name), ("arguments", &arguments), (USER_ID_FIELD, &user)])
        .bytes()
        .clone()
}

/// Sets the caller under each name that a module may read as `user_id`.
///
/// Some decoders (Go, .NET, Java) match names without regard to case, and the last match wins
/// there.
fn with_caller_user_id(given: &Json, user: &Json) -> Json {
    let user_keys = given.iter_members().map(|(name, _)| name).filter(|name| is_user_id(name));
    user_keys.fold(given.clone(), |arguments, name| arguments.with_member(&name, user))
}

/// Compares by upper case first: long `s` and dotless `i` differ only in lower case.
fn is_user_id(name: &str) -> bool {
    let folded = name.chars().flat_map(char::to_uppercase).flat_map(char::to_lowercase);
    folded.filter(|c| *c != '\u{307}').eq(USER_ID_FIELD.chars())
}

/// Parses the module API's `ToolResult`; a reported failure is an error of the tool.
fn parse_result(body: Bytes) -> Result<Outcome, String> {
    let answer = Json::parse(body, JsonLimits::DOCUMENT).and_then(Json::require_object);
    let answer = answer.map_err(|error| format!("cannot parse the module's response: {error}"))?;
    let success = answer.get("success");
    match success.as_ref().map(|success| success.decode::<bool>().map_err(|_| success.kind())) {
        None => Err("the module's response has no `success`".into()),
        Some(Err(kind)) => {
            Err(format!("`success` in the module's response is {kind}; expected true or false"))
        }
        Some(Ok(true)) => {
            Ok(Outcome::from_value(answer.get("result").unwrap_or_else(|| Json::encode(&()))))
        }
        Some(Ok(false)) => {
            let error = answer.get("error").filter(|error| error.kind() != "null");
            let text = error.map_or_else(
                || "the module reported a failure without an error message".to_owned(),
                |error| error.decode().unwrap_or_else(|_| error.as_str().to_owned()),
            );
            Ok(Outcome::tool_failure(&text))
        }
    }
}
