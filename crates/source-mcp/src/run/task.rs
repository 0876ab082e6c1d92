//! Tasks of a server: begun, followed to their end, and given up where nobody waits for them any more.
//!
//! Of 2026-07-28 the server decides what becomes a task, of 2025-11-25 the caller does. Either is
//! followed alike. A client that follows tasks gets one of its own; for any other it is waited.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use ::mcp::task::{self, Status, Task};
use ::mcp::{Era, RpcError, code};
use tokio::time::sleep;
use tool::executor::Rpc;
use tool::{Body, Boxed, Code, ExecuteError, Json, Outcome, Step, Wait};

use super::follow::Followed;
use super::remote::Remote;
use super::round::Resumed;
use super::{Job, Run};
use crate::call::Support;
use crate::link::{Link, Wire};
use crate::question::can_answer;
use crate::request::{Outgoing, Params};
use tool::display_text::shown;

/// How often a task is asked for: at least, at most, and where the server does not say.
const POLL: (Duration, Duration, Duration) =
    (Duration::from_millis(100), Duration::from_secs(30), Duration::from_secs(1));
/// Times in a row that there may be no answer.
const LOST: u32 = 3;
/// Questions of one task.
const QUESTIONS: usize = 1_000;
/// For how long a server of 2025-11-25 is asked to keep a task, in milliseconds.
const TTL: u64 = 3_600_000;
/// Characters of a line for people.
const LINE: usize = 500;

/// How one call goes to its server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Way {
    /// As any other.
    Bare,
    /// The server may make a task of it, or is told to.
    Task,
    /// As any other, and as a task to the client where it takes long.
    Slow,
}

/// A question at the client: its key, and its answer.
type Asking<'a> = (String, Boxed<'a, Result<Json, ExecuteError>>);

impl Run<'_> {
    /// Whether what the server wants of its clients is left to this one.
    fn is_strict(&self) -> bool {
        self.ctx.client.alone && self.ctx.task.is_none() && self.era() == Era::Stateless
    }

    /// Settles how the call goes to its server, and says so in the request.
    pub(super) fn way(
        &self,
        job: &Job<'_>,
        link: &Link,
        request: &mut Outgoing<'_>,
    ) -> Result<Way, ExecuteError> {
        let knows = || link.greeted().can.tasks.is_some();
        match (link.era(), job.support) {
            _ if job.method != "tools/call" => Ok(Way::Bare),
            (Era::Stateless, _) => {
                if self.ctx.task.is_some() && knows() {
                    declare(request);
                }
                Ok(Way::Task)
            }
            // Before 2026-07-28 it counts what the tool says, where its server knows tasks at all.
            (Era::Handshake, Support::Required) if knows() => {
                if self.is_strict() {
                    return Err(self.needs_tasks());
                }
                request.task = Some(Json::fields([("ttl", &Json::of(&TTL))]));
                Ok(Way::Task)
            }
            (Era::Handshake, Support::Optional) if self.ctx.task.is_some() && knows() => {
                Ok(Way::Slow)
            }
            (Era::Handshake, _) => Ok(Way::Bare),
        }
    }

    /// Whether the server wants tasks declared, which is done then. It has not begun.
    pub(super) fn wants_a_task(&self, error: &ExecuteError, request: &mut Outgoing<'_>) -> bool {
        let wanted = error.rpc.as_deref().is_some_and(|rpc| {
            rpc.code == code::MISSING_CAPABILITY && rpc.data.as_ref().is_some_and(task::is_required)
        });
        let declared = task::declared(request.can.get("extensions").as_ref());
        let declares = wanted && !declared && !self.is_strict();
        if declares {
            declare(request);
        }
        declares
    }

    /// A client that would have to declare the extension, and is told so.
    fn needs_tasks(&self) -> ExecuteError {
        let name = &self.upstream.name;
        let message = format!(
            "this tool of the source `{name}` runs as a task; declare the extension `{}`",
            task::EXTENSION
        );
        let data = Some(task::required());
        let rpc = Rpc { code: code::MISSING_CAPABILITY, message: message.clone(), data };
        let error = ExecuteError::before(Code::UpstreamFailed, message);
        ExecuteError { rpc: Some(Box::new(rpc)), ..error }
    }

    /// The call is a task of its client from here on, where that can be.
    pub(super) fn hold(&self) {
        if let Some(task) = self.ctx.task
            && !task.hold(self.call)
        {
            tracing::debug!(call = %self.call.id, "no task: too many are");
        }
    }

    /// Follows the task that `created` tells of.
    pub(super) async fn task(
        &self,
        link: &Arc<Link>,
        created: &Json,
    ) -> Result<Step, ExecuteError> {
        let wrapped = match link.era() {
            Era::Handshake => created.get("task"),
            Era::Stateless => Some(created.clone()),
        };
        let Some(said) = wrapped else {
            // It ran at once, and says what came of it.
            return self.completed(created.clone());
        };
        let said = Task::read(&said, link.era()).map_err(|why| self.garbled(&why))?;
        self.hold();
        self.to_its_end(Remote::new(link, &said.id, self.ctx.client), said, HashSet::new()).await
    }

    /// Goes on with the task of this id, with the answers that it waits for.
    pub(super) async fn rejoin(&self, id: &Json, answers: &Json) -> Result<Step, ExecuteError> {
        let link = self.link(Era::Stateless).await?;
        let id = id.read::<String>().map_err(|_| self.not_waiting())?;
        if link.era() != Era::Stateless {
            return Err(self.not_waiting());
        }
        self.begun.store(true, std::sync::atomic::Ordering::Relaxed);
        let remote = Remote::new(&link, &id, self.ctx.client);
        self.update(&remote, answers).await?;
        let asked = answers.members().into_iter().map(|(key, _)| key).collect();
        let said = Task { id, status: Status::Working, line: None, poll: Some(0) };
        self.to_its_end(remote, said, asked).await
    }

    /// What cannot be read of a task.
    fn garbled(&self, why: &str) -> ExecuteError {
        self.failed(&format!("with a task that cannot be followed: {why}"))
    }

    async fn to_its_end(
        &self,
        mut remote: Remote,
        mut said: Task,
        mut asked: HashSet<String>,
    ) -> Result<Step, ExecuteError> {
        let mut asking: Vec<Asking<'_>> = Vec::new();
        let (mut last, mut asks) = (None, 0_u32);
        loop {
            self.tell(&said, asks);
            match (said.status, remote.link.era()) {
                (Status::Cancelled, _) => {
                    remote.owed = false;
                    let name = &self.upstream.name;
                    let told = format!("the source `{name}` gave its task up");
                    return Err(ExecuteError::during(Code::Cancelled, told));
                }
                (Status::Working, _) => {}
                (_, Era::Handshake) => return self.result(remote).await,
                (Status::InputRequired, Era::Stateless) => {
                    if let Some(step) = self.open(last.as_ref(), &mut asked, &mut asking)? {
                        return Ok(left(remote, &step));
                    }
                }
                (Status::Completed | Status::Failed, Era::Stateless) => {
                    remote.owed = false;
                    return self.ended(said.status, last.as_ref());
                }
            }
            let (least, most, unsaid) = POLL;
            let wait = said.poll.map_or(unsaid, Duration::from_millis).clamp(least, most);
            tokio::select! {
                () = sleep(wait) => {}
                (key, answer) = answered(&mut asking), if !asking.is_empty() => {
                    let answers = Json::empty().with(&key, &answer?);
                    self.update(&remote, &answers).await?;
                    said.status = Status::Working;
                    continue;
                }
            }
            let now = self.look(&mut remote).await?;
            said = Task::read(&now, remote.link.era()).map_err(|why| self.garbled(&why))?;
            if said.id != remote.id {
                return Err(self.garbled("it answers with another task's id"));
            }
            last = Some(now);
            asks = asks.saturating_add(1);
        }
    }

    /// Where it stands, for people.
    fn tell(&self, said: &Task, asks: u32) {
        let line = said.line.as_deref().map(|line| shown(line, LINE));
        match self.ctx.task.filter(|task| task.held().is_some()) {
            Some(task) => line.iter().for_each(|line| task.tell(line)),
            None => self.ctx.progress.report(f64::from(asks), None, line.as_deref()),
        }
    }

    /// Asks where the task stands; more than once where there is no answer.
    async fn look(&self, remote: &mut Remote) -> Result<Json, ExecuteError> {
        let mut lost = 0;
        loop {
            let why = match remote.ask("tasks/get", &remote.params).await {
                Ok(Ok(result)) => return Ok(result),
                Ok(Err(error)) if error.code != code::INTERNAL_ERROR => {
                    remote.owed = false;
                    return Err(self.rpc(error));
                }
                Ok(Err(error)) => self.rpc(error),
                Err(why) => during(self.unanswered(why)),
            };
            lost += 1;
            let http = matches!(remote.link.wire, Wire::Http(_));
            if lost >= LOST || !http {
                return Err(why);
            }
            sleep(POLL.2).await;
            if remote.link.is_over() {
                let link = self.link(remote.link.era()).await.map_err(during)?;
                // A session of 2025-11-25 takes its tasks along.
                if link.era() != Era::Stateless || remote.link.era() != Era::Stateless {
                    return Err(why);
                }
                remote.link = link;
            }
        }
    }

    /// Puts what a task of 2026-07-28 asks before its client; a wait, where that can only be asked by
    /// ending this call.
    fn open<'b>(
        &'b self,
        said: Option<&Json>,
        asked: &mut HashSet<String>,
        asking: &mut Vec<Asking<'b>>,
    ) -> Result<Option<Json>, ExecuteError> {
        let requests = said.and_then(|said| said.get("inputRequests"));
        let Some(requests) = requests else { return Ok(None) };
        let mut new = self.questions(&requests)?;
        new.retain(|(key, ..)| asked.insert(key.clone()));
        if asked.len() > QUESTIONS {
            let why = format!("with more than {QUESTIONS} questions to the client");
            return Err(self.failed(&why));
        }
        let Some(client) = self.client() else {
            let unable = |(_, method, _): &&(String, String, Option<Json>)| {
                !can_answer(self.ctx.client, method)
            };
            return match new.iter().find(unable) {
                Some((_, method, _)) => Err(self.undeclared(method)),
                None if new.is_empty() => Ok(None),
                None => Ok(Some(requests)),
            };
        };
        asking.extend(new.into_iter().map(|(key, method, params)| {
            let answer = async move { self.ask_one(client, &method, params.as_ref()).await };
            let answer: Boxed<'b, _> = Box::pin(answer);
            (key, answer)
        }));
        Ok(None)
    }

    async fn update(&self, remote: &Remote, answers: &Json) -> Result<(), ExecuteError> {
        let params = remote.params.with("inputResponses", answers);
        let answer = remote.ask("tasks/update", &params).await;
        let answer = answer.map_err(|why| during(self.unanswered(why)))?;
        answer.map(drop).map_err(|error| self.rpc(error))
    }

    /// The end of a task of 2026-07-28, with which it comes.
    fn ended(&self, status: Status, said: Option<&Json>) -> Result<Step, ExecuteError> {
        let [result, error] = said.map_or([None, None], |said| said.pick(["result", "error"]));
        match (status, result, error) {
            (Status::Completed, Some(result), _) => self.completed(result),
            (Status::Completed, None, _) => Err(self.garbled("it has ended without a `result`")),
            (_, _, Some(error)) => {
                let [number, message, data] = error.pick(["code", "message", "data"]);
                let number = number.and_then(|number| number.read().ok());
                let message = message.and_then(|message| message.read::<String>().ok());
                let (Some(code), Some(message)) = (number, message) else {
                    return Err(self.garbled("its `error` is none of JSON-RPC"));
                };
                Err(self.rpc(RpcError { code, message, data }))
            }
            (_, _, None) => Err(self.garbled("it has failed without an `error`")),
        }
    }

    /// What a task of 2025-11-25 came to, and what it asks before.
    async fn result(&self, mut remote: Remote) -> Result<Step, ExecuteError> {
        let request = Outgoing {
            params: Params::Whole(&remote.params),
            progress: self.ctx.progress.wanted(),
            ..Outgoing::own("tasks/result", &remote.params)
        };
        let exchange =
            self.send(&remote.link, &request, (None, Some(&remote.id))).await.map_err(during)?;
        let followed = self.follow(exchange, Way::Bare).await;
        let held = matches!(followed, Ok(Followed::Held(_)));
        let over = matches!(&followed, Ok(Followed::Answered(_)))
            || followed.as_ref().is_err_and(|error| error.rpc.is_some());
        remote.owed = !held && !over;
        match followed.map_err(during)? {
            Followed::Held(step) => Ok(step),
            Followed::Answered(result) => self.completed(result),
        }
    }

    fn completed(&self, result: Json) -> Result<Step, ExecuteError> {
        let [is_error, kind] = result.pick(["isError", "resultType"]);
        let complete = kind.is_none_or(|kind| kind.as_str() == "\"complete\"");
        if result.kind() != "object" || !complete {
            return Err(self.garbled("its `result` is none of a call"));
        }
        let is_error = is_error.is_some_and(|said| said.as_str() == "true");
        let body = Body::Mcp(unrelated(result));
        Ok(Step::Done(Outcome { body, is_error }))
    }
}

/// The task goes on while its client is asked, who comes back with another call.
fn left(mut remote: Remote, requests: &Json) -> Step {
    remote.owed = false;
    let resume = Resumed::Task(Json::of(&remote.id)).write();
    Step::Wait(Wait::Input { requests: requests.clone(), resume })
}

/// The client declares that it follows tasks.
fn declare(request: &mut Outgoing<'_>) {
    request.can = request.can.with("extensions", &task::extensions());
}

/// What is lost of a task may have run.
fn during(error: ExecuteError) -> ExecuteError {
    ExecuteError { sent: tool::executor::Sent::Maybe, ..error }
}

/// Without the id of a task that is the server's own.
pub(super) fn unrelated(result: Json) -> Json {
    let meta = ::mcp::meta::of(&result).filter(|meta| meta.get(task::RELATED).is_some());
    let Some(meta) = meta.map(|meta| meta.without(task::RELATED)) else { return result };
    if meta.members().is_empty() {
        return result.without(::mcp::meta::META);
    }
    result.with(::mcp::meta::META, &meta)
}

/// The first answer that comes.
async fn answered(asking: &mut Vec<Asking<'_>>) -> (String, Result<Json, ExecuteError>) {
    let (at, answer) = std::future::poll_fn(|cx| {
        let ready = asking.iter_mut().enumerate().find_map(|(at, (_, answer))| {
            match answer.as_mut().poll(cx) {
                std::task::Poll::Ready(answer) => Some((at, answer)),
                std::task::Poll::Pending => None,
            }
        });
        ready.map_or(std::task::Poll::Pending, std::task::Poll::Ready)
    })
    .await;
    let (key, _) = asking.remove(at);
    (key, answer)
}
