//! Results of MCP 2026-07-28 that require input, and the rounds that repeat the call with it.

use std::time::Duration;

use ::mcp::ProtocolEra;
use bytes::Bytes;
use serde_json::json;
use tokio::time::sleep;
use tool::executor::ClientRequester;
use tool::{ExecuteError, ExecutionState, Json, JsonLimits, Outcome, OutcomeBody, PendingReason};

use super::UpstreamCall;
use crate::input_requests::{client_supports, is_forwarded, request_input};
use tool::display_text::escape_and_truncate;

/// Maximum rounds of one call.
const MAX_ROUNDS: u32 = 8;
/// First delay before a round without input; it doubles with each further one.
const RETRY_DELAY: Duration = Duration::from_millis(100);
/// Maximum bytes of the state that a server asks to return.
const MAX_STATE_BYTES: usize = 256 << 10;
/// Maximum input requests of one result.
const MAX_INPUT_REQUESTS: usize = 64;

/// Request of a server for input.
#[derive(Debug)]
pub(super) struct InputRequest {
    /// Name under which the server expects the answer.
    pub(super) key: String,
    pub(super) method: String,
    pub(super) params: Option<Json>,
}

/// State with which a pending call resumes.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum ResumeState<'a> {
    /// A request in flight is stored under this name.
    InFlight(&'a [u8]),
    /// State that the server asked to return.
    RequestState(Option<Json>),
    /// The server's task with this id continues.
    Task(Json),
}

impl<'a> ResumeState<'a> {
    pub(super) fn encode_state(&self) -> Bytes {
        match self {
            Self::InFlight(name) => [b"p", *name].concat().into(),
            Self::RequestState(Some(state)) => [b"s", &state.bytes()[..]].concat().into(),
            Self::RequestState(None) => Bytes::from_static(b"n"),
            Self::Task(id) => [b"t", &id.bytes()[..]].concat().into(),
        }
    }

    pub(super) fn decode_state(state: &'a Bytes) -> Option<Self> {
        let (kind, rest) = state.split_first()?;
        match kind {
            b'p' => Some(Self::InFlight(rest)),
            b's' => Json::parse(state.slice(1..), JsonLimits::DOCUMENT)
                .ok()
                .map(Some)
                .map(Self::RequestState),
            b'n' => Some(Self::RequestState(None)),
            b't' => Json::parse(state.slice(1..), JsonLimits::DOCUMENT).ok().map(Self::Task),
            _ => None,
        }
    }
}

/// Counter of the rounds of a call.
#[derive(Debug, Default)]
pub(super) struct RoundCounter(u32);

impl RoundCounter {
    pub(super) fn is_first(&self) -> bool {
        self.0 == 0
    }
}

/// Next step after a round's result.
pub(super) enum RoundOutcome {
    Finish(ExecutionState),
    /// The server continues the call as this task, as received.
    Task(Json),
    Retry {
        input_responses: Option<Json>,
        request_state: Option<Json>,
    },
}

impl UpstreamCall<'_> {
    /// Interprets the result type of an answer.
    pub(super) async fn interpret_result(
        &self,
        result: Json,
        era: ProtocolEra,
        rounds: &mut RoundCounter,
    ) -> Result<RoundOutcome, ExecuteError> {
        if result.kind() != "object" {
            let why = format!("an invalid result: expected object, found {}", result.kind());
            return Err(self.invalid_answer_error(&why));
        }
        let [is_error, kind, requests, state] =
            result.pick(["isError", "resultType", "inputRequests", "requestState"]);
        let kind = kind.as_ref().and_then(Json::string_value);
        match (kind.as_deref(), era) {
            (None | Some("complete"), _) => {
                let is_error = is_error.is_some_and(|said| said.as_str() == "true");
                Ok(RoundOutcome::Finish(ExecutionState::Completed(Outcome {
                    body: OutcomeBody::Mcp(result),
                    is_error,
                })))
            }
            (Some("input_required"), ProtocolEra::Stateless) => {
                let requests = requests.filter(|asked| !asked.members().is_empty());
                Box::pin(self.handle_input_required(requests, state, rounds)).await
            }
            (Some("input_required"), ProtocolEra::Handshake) => Err(self.invalid_answer_error(
                "input requests, which only protocol version 2026-07-28 allows",
            )),
            (Some("task"), _) => Ok(RoundOutcome::Task(result)),
            (Some(other), _) => {
                let other = escape_and_truncate(other, 40);
                Err(self.invalid_answer_error(&format!("a result of the unknown type `{other}`")))
            }
        }
    }

    /// Handles a result that requires input, or only another request.
    async fn handle_input_required(
        &self,
        requests: Option<Json>,
        state: Option<Json>,
        rounds: &mut RoundCounter,
    ) -> Result<RoundOutcome, ExecuteError> {
        rounds.0 += 1;
        if rounds.0 > MAX_ROUNDS {
            return Err(
                self.invalid_answer_error(&format!("`input_required` {MAX_ROUNDS} times in a row"))
            );
        }
        if state.as_ref().is_some_and(|state| state.bytes().len() > MAX_STATE_BYTES) {
            return Err(self.invalid_answer_error(&format!(
                "a request state of more than {MAX_STATE_BYTES} bytes"
            )));
        }
        let Some(requests) = requests else {
            if state.is_none() {
                return Err(self.invalid_answer_error(
                    "`input_required` without input requests or a \
                        request state",
                ));
            }
            sleep(RETRY_DELAY.saturating_mul(1 << rounds.0.min(MAX_ROUNDS))).await;
            return Ok(RoundOutcome::Retry { input_responses: None, request_state: state });
        };
        let questions = self.parse_input_requests(&requests)?;
        if let Some(client) = self.input_channel() {
            let answers = Some(self.request_all_inputs(client, questions).await?);
            return Ok(RoundOutcome::Retry { input_responses: answers, request_state: state });
        }
        if let Some(unsupported) =
            questions.iter().find(|it| !client_supports(self.ctx.client_capabilities, &it.method))
        {
            return Err(self.missing_capability(&unsupported.method));
        }
        let resume = ResumeState::RequestState(state).encode_state();
        Ok(RoundOutcome::Finish(ExecutionState::Pending(PendingReason::Input {
            input_requests: requests,
            state: resume,
        })))
    }

    /// Parses the requests for input that a server returned.
    pub(super) fn parse_input_requests(
        &self,
        requests: &Json,
    ) -> Result<Vec<InputRequest>, ExecuteError> {
        let members = requests.members();
        if members.len() > MAX_INPUT_REQUESTS {
            return Err(self
                .invalid_answer_error(&format!("more than {MAX_INPUT_REQUESTS} input requests")));
        }
        let read = members.into_iter().map(|(key, request)| {
            let [method, params] = request.pick(["method", "params"]);
            let method = method.and_then(|method| method.decode::<String>().ok());
            if let Some(method) = method.filter(|method| is_forwarded(method)) {
                return Ok(InputRequest { key, method, params });
            }
            let key = escape_and_truncate(&key, 60);
            Err(self.invalid_answer_error(&format!(
                "the input request `{key}`, whose method is not \
                    supported"
            )))
        });
        read.collect()
    }

    async fn request_all_inputs(
        &self,
        client: &dyn ClientRequester,
        questions: Vec<InputRequest>,
    ) -> Result<Json, ExecuteError> {
        let mut answers = Json::empty_object();
        for InputRequest { key, method, params } in questions {
            let answer = self.request_one_input(client, &method, params.as_ref()).await?;
            answers = answers.with_member(&key, &answer);
        }
        Ok(answers)
    }

    pub(super) async fn request_one_input(
        &self,
        client: &dyn ClientRequester,
        method: &str,
        params: Option<&Json>,
    ) -> Result<Json, ExecuteError> {
        match request_input(client, method, params).await {
            Ok(answer) => Ok(answer),
            // MCP defines `cancel` only for elicitation.
            Err(_) if method == "elicitation/create" => {
                Ok(Json::encode(&json!({"action": "cancel"})))
            }
            Err(error) => {
                let why = crate::delivery_errors::describe_rpc_error(&error);
                Err(self.invalid_answer_error(&format!(
                    "the input request `{method}`, which the \
                    client rejected: {why}"
                )))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use tool::{Json, JsonLimits};

    use super::ResumeState;

    #[test]
    fn a_state_reads_back() {
        let state = Json::parse(r#" "a\u0062" "#, JsonLimits::DOCUMENT).unwrap();
        for state in [
            ResumeState::InFlight(b"name"),
            ResumeState::RequestState(Some(state.clone())),
            ResumeState::RequestState(None),
            ResumeState::Task(state),
        ] {
            assert_eq!(ResumeState::decode_state(&state.encode_state()).unwrap(), state);
        }
        for bad in ["", "x", "s", "s{", "t"] {
            assert_eq!(ResumeState::decode_state(&Bytes::from(bad)), None, "{bad}");
        }
    }
}
