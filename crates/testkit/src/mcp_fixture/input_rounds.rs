//! Calls that need input from the client before they can return: in rounds, with a signed state.

use std::sync::LazyLock;

use data_encoding::HEXLOWER;
use serde_json::{Map, Value, json};
use sha2::{Digest as _, Sha256};
use uuid::Uuid;

use super::fixture_state::FixtureState;
use super::json_rpc::RpcError;

static INPUT_QUESTIONS: LazyLock<Value> =
    LazyLock::new(|| serde_json::from_str(include_str!("questions.json")).expect("our own JSON"));

/// Tools that keep state on the client.
const STATEFUL_TOOLS: &[&str] = &[
    "test_input_required_result_request_state",
    "test_input_required_result_multiple_inputs",
    "test_input_required_result_multi_round",
    "test_input_required_result_tampered_state",
    "test_input_required_result_capabilities",
];

/// The input of a call.
#[derive(Debug, Default)]
pub(super) struct CallInput {
    /// The name of the tool or prompt.
    pub(super) name: String,
    pub(super) arguments: Map<String, Value>,
    /// The answers to the input requests; absent in the first call.
    pub(super) responses: Option<Map<String, Value>>,
    pub(super) request_state: Option<String>,
    /// The declared client capabilities.
    pub(super) capabilities: Value,
}

/// The progress of a call with input rounds.
#[derive(Debug)]
pub(super) enum InputRound {
    /// The call needs no input.
    None,
    /// The call needs answers: `inputRequests` and `requestState`.
    Ask { requests: Value, state: Option<String> },
    /// All answers of all rounds are present.
    Complete(Map<String, Value>),
}

/// Determines the next round.
///
/// # Errors
/// Returns an error if the state is invalid, an answer has the wrong shape, or the client cannot be
/// asked.
pub(super) fn next_round(
    fixture: &FixtureState,
    input: &CallInput,
) -> Result<InputRound, RpcError> {
    let Some(rounds) = INPUT_QUESTIONS[&input.name].as_array() else { return Ok(InputRound::None) };
    let (round, mut got) = match &input.request_state {
        Some(state) => verify_state(fixture, &input.name, state)?,
        None => (0, Map::new()),
    };
    let round_questions =
        rounds.get(round).ok_or_else(|| RpcError::invalid_params("there is no such round"))?;
    let asked = allowed_questions(input, round_questions)?;
    let responses = input.responses.clone().unwrap_or_default();
    let mut missing = Map::new();
    for (key, question) in &asked {
        match responses.get(key) {
            Some(answer) => {
                check_answer(question, answer)?;
                got.insert(key.clone(), answer.clone());
            }
            None => drop(missing.insert(key.clone(), question.clone())),
        }
    }
    let (round, requests) = match (missing.is_empty(), rounds.get(round + 1)) {
        (false, _) => (round, missing),
        (true, Some(more)) => (round + 1, allowed_questions(input, more)?),
        (true, None) => return Ok(InputRound::Complete(got)),
    };
    let keeps = STATEFUL_TOOLS.contains(&input.name.as_str());
    let state = keeps.then(|| sign_state(fixture, &input.name, round, &got));
    Ok(InputRound::Ask { requests: Value::Object(requests), state })
}

/// The input requests of a task, which are sent differently.
pub(super) fn task_questions(name: &str) -> Map<String, Value> {
    INPUT_QUESTIONS[name][0].as_object().cloned().unwrap_or_default()
}

/// The input requests that the client supports, with its values inserted.
fn allowed_questions(given: &CallInput, round: &Value) -> Result<Map<String, Value>, RpcError> {
    let text = |key: &str| given.arguments.get(key).and_then(Value::as_str).unwrap_or_default();
    let (mut questions, mut lacking) = (Map::new(), Map::new());
    for (key, question) in round.as_object().into_iter().flatten() {
        let method = question["method"].as_str().unwrap_or_default();
        let needed = method.split('/').next().unwrap_or_default();
        if given.capabilities.get(needed).is_none() {
            lacking.insert(needed.to_owned(), json!({}));
            continue;
        }
        let mut question = question.clone();
        for path in ["/params/message", "/params/messages/0/content/text"] {
            if let Some(words) = question.pointer_mut(path) {
                let filled = words.as_str().unwrap_or_default();
                *words = json!(
                    filled
                        .replace("{message}", text("message"))
                        .replace("{prompt}", text("prompt"))
                );
            }
        }
        questions.insert(key.clone(), question);
    }
    // This tool accepts any subset.
    let picky = given.name != "test_input_required_result_capabilities" || questions.is_empty();
    if picky && !lacking.is_empty() {
        Err(RpcError::missing_capability(&lacking.into()))
    } else {
        Ok(questions)
    }
}

fn check_answer(question: &Value, answer: &Value) -> Result<(), RpcError> {
    let member = match question["method"].as_str() {
        Some("elicitation/create") => "action",
        Some("sampling/createMessage") => "content",
        _ => "roots",
    };
    match answer.get(member) {
        Some(_) => Ok(()),
        None => Err(RpcError::invalid_params(format!("an answer has no `{member}`: `{answer}`"))),
    }
}

/// Hash of the fixture's secret and a state. Enough for a fixture, which extends no hash.
fn state_hash(fixture: &FixtureState, text: &str) -> String {
    let hash = Sha256::new().chain_update(fixture.secret).chain_update(text);
    HEXLOWER.encode(&hash.finalize())
}

fn sign_state(
    fixture: &FixtureState,
    name: &str,
    round: usize,
    got: &Map<String, Value>,
) -> String {
    let nonce = Uuid::new_v4().to_string();
    let text = json!({ "name": name, "round": round, "got": got, "nonce": nonce }).to_string();
    format!("{}.{text}", state_hash(fixture, &text))
}

fn verify_state(
    fixture: &FixtureState,
    name: &str,
    state: &str,
) -> Result<(usize, Map<String, Value>), RpcError> {
    let wrong = || RpcError::invalid_params("`requestState` is not what was given");
    let (sum, text) = state.split_once('.').ok_or_else(wrong)?;
    if state_hash(fixture, text) != sum {
        return Err(wrong());
    }
    let state: Value = serde_json::from_str(text).map_err(|_| wrong())?;
    if state["name"] != name {
        return Err(wrong());
    }
    let round = state["round"].as_u64().and_then(|round| usize::try_from(round).ok());
    Ok((round.ok_or_else(wrong)?, state["got"].as_object().cloned().unwrap_or_default()))
}
