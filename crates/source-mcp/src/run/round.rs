//! Results of 2026-07-28 that want more before they are given, and what is sent with the next try.

use std::time::Duration;

use ::mcp::Era;
use bytes::Bytes;
use serde_json::json;
use tokio::time::sleep;
use tool::executor::Ask;
use tool::{Body, ExecuteError, Json, Limits, Outcome, Step, Wait};

use super::Run;
use crate::question::{ask, can_answer, is_passed_on};
use tool::display_text::shown;

/// Tries of one call.
const MOST: u32 = 8;
/// The first pause before a try for which nothing was asked; each further one is twice as long.
const PAUSE: Duration = Duration::from_millis(100);
/// Bytes of what a server wants back.
const STATE: usize = 256 << 10;
/// Questions of one result.
const QUESTIONS: usize = 64;

/// The state with which a call goes on.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Resumed<'a> {
    /// A request in flight is kept under this name.
    Parked(&'a [u8]),
    /// The server wants this back.
    Asked(Option<Json>),
    /// The server's task of this id goes on.
    Task(Json),
}

impl<'a> Resumed<'a> {
    pub(super) fn write(&self) -> Bytes {
        match self {
            Self::Parked(name) => [b"p", *name].concat().into(),
            Self::Asked(Some(state)) => [b"s", &state.bytes()[..]].concat().into(),
            Self::Asked(None) => Bytes::from_static(b"n"),
            Self::Task(id) => [b"t", &id.bytes()[..]].concat().into(),
        }
    }

    pub(super) fn read(state: &'a Bytes) -> Option<Self> {
        let (kind, rest) = state.split_first()?;
        match kind {
            b'p' => Some(Self::Parked(rest)),
            b's' => Json::check(state.slice(1..), Limits::DOCUMENT).ok().map(Some).map(Self::Asked),
            b'n' => Some(Self::Asked(None)),
            b't' => Json::check(state.slice(1..), Limits::DOCUMENT).ok().map(Self::Task),
            _ => None,
        }
    }
}

/// Counts the tries.
#[derive(Debug, Default)]
pub(super) struct Rounds(u32);

impl Rounds {
    pub(super) fn is_first(&self) -> bool {
        self.0 == 0
    }
}

/// What a result leads to.
pub(super) enum Next {
    Step(Step),
    /// The server goes on by itself: its task, as it came.
    Task(Json),
    Again {
        answers: Option<Json>,
        state: Option<Json>,
    },
}

impl Run<'_> {
    /// Reads what a result says of itself.
    pub(super) async fn judge(
        &self,
        result: Json,
        era: Era,
        rounds: &mut Rounds,
    ) -> Result<Next, ExecuteError> {
        if result.kind() != "object" {
            let why = format!(
                "with a result that cannot be read: expected object, found {}",
                result.kind()
            );
            return Err(self.failed(&why));
        }
        let [is_error, kind, requests, state] =
            result.pick(["isError", "resultType", "inputRequests", "requestState"]);
        let kind = kind.as_ref().and_then(Json::text);
        match (kind.as_deref(), era) {
            (None | Some("complete"), _) => {
                let is_error = is_error.is_some_and(|said| said.as_str() == "true");
                Ok(Next::Step(Step::Done(Outcome { body: Body::Mcp(result), is_error })))
            }
            (Some("input_required"), Era::Stateless) => {
                let requests = requests.filter(|asked| !asked.members().is_empty());
                Box::pin(self.wanted(requests, state, rounds)).await
            }
            (Some("input_required"), Era::Handshake) => {
                Err(self.failed("with questions to the client, which only 2026-07-28 allows"))
            }
            (Some("task"), _) => Ok(Next::Task(result)),
            (Some(other), _) => {
                let other = shown(other, 40);
                Err(self.failed(&format!("with a result of type `{other}`, which is not known")))
            }
        }
    }

    /// The server wants answers, or only to be asked again.
    async fn wanted(
        &self,
        requests: Option<Json>,
        state: Option<Json>,
        rounds: &mut Rounds,
    ) -> Result<Next, ExecuteError> {
        rounds.0 += 1;
        if rounds.0 > MOST {
            return Err(self.failed(&format!("with a wish for more, {MOST} times in a row")));
        }
        if state.as_ref().is_some_and(|state| state.bytes().len() > STATE) {
            return Err(self.failed(&format!("with more than {STATE} bytes to be given back")));
        }
        let Some(requests) = requests else {
            if state.is_none() {
                return Err(self.failed("with a wish for more that does not say what"));
            }
            sleep(PAUSE.saturating_mul(1 << rounds.0.min(MOST))).await;
            return Ok(Next::Again { answers: None, state });
        };
        let questions = self.questions(&requests)?;
        if let Some(client) = self.client() {
            let answers = Some(self.ask_each(client, questions).await?);
            return Ok(Next::Again { answers, state });
        }
        if let Some((_, method, _)) =
            questions.iter().find(|(_, method, _)| !can_answer(self.ctx.client, method))
        {
            return Err(self.undeclared(method));
        }
        let resume = Resumed::Asked(state).write();
        Ok(Next::Step(Step::Wait(Wait::Input { requests, resume })))
    }

    /// Each question's key, method and params.
    pub(super) fn questions(
        &self,
        requests: &Json,
    ) -> Result<Vec<(String, String, Option<Json>)>, ExecuteError> {
        let members = requests.members();
        if members.len() > QUESTIONS {
            return Err(self.failed(&format!("with more than {QUESTIONS} questions to the client")));
        }
        let read = members.into_iter().map(|(key, request)| {
            let [method, params] = request.pick(["method", "params"]);
            let method = method.and_then(|method| method.read::<String>().ok());
            if let Some(method) = method.filter(|method| is_passed_on(method)) {
                return Ok((key, method, params));
            }
            let key = shown(&key, 60);
            Err(self.failed(&format!("with a question `{key}` that is none for clients")))
        });
        read.collect()
    }

    async fn ask_each(
        &self,
        client: &dyn Ask,
        questions: Vec<(String, String, Option<Json>)>,
    ) -> Result<Json, ExecuteError> {
        let mut answers = Json::empty();
        for (key, method, params) in questions {
            let answer = self.ask_one(client, &method, params.as_ref()).await?;
            answers = answers.with(&key, &answer);
        }
        Ok(answers)
    }

    pub(super) async fn ask_one(
        &self,
        client: &dyn Ask,
        method: &str,
        params: Option<&Json>,
    ) -> Result<Json, ExecuteError> {
        match ask(client, method, params).await {
            Ok(answer) => Ok(answer),
            // There is a word for this only where a person is asked.
            Err(_) if method == "elicitation/create" => Ok(Json::of(&json!({"action": "cancel"}))),
            Err(error) => {
                let why = crate::fail::refused(&error);
                Err(self.failed(&format!("with `{method}`, and the client: {why}")))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use tool::{Json, Limits};

    use super::Resumed;

    #[test]
    fn a_state_reads_back() {
        let state = Json::check(r#" "a\u0062" "#, Limits::DOCUMENT).unwrap();
        for state in [
            Resumed::Parked(b"name"),
            Resumed::Asked(Some(state.clone())),
            Resumed::Asked(None),
            Resumed::Task(state),
        ] {
            assert_eq!(Resumed::read(&state.write()).unwrap(), state);
        }
        for bad in ["", "x", "s", "s{", "t"] {
            assert_eq!(Resumed::read(&Bytes::from(bad)), None, "{bad}");
        }
    }
}
