//! From a start to an end: one child or one HTTP session, with what was learned when it ended.

use std::sync::Arc;

use ::mcp::Era;
use tokio::sync::Notify;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tool::source::SourceFault;

use super::audience::{Asking, Audience};
use super::dial::{Dial, Dialed, Fault, Process};
use super::ears::Ears;
use super::fail::refused;
use super::greeting::{Ungreeted, method, versions};
use super::http::{Endpoint, Http};
use super::link::{Link, Shared, Unanswered, Wire};
use super::noise::Noise;
use super::options::{Bounds, Dialect};
use super::pipe::{Broken, End, Pipe, STALL};
use tool::display_text::end_lines;

/// Lines at the end of standard error that are shown when a child ended, beside its first line.
const LAST_LINES: usize = 4;
/// Characters of each.
const WIDTH: usize = 800;

/// What to do where a start takes too long.
const SLOW_START: &str = "raise `startup_timeout` of the source where it needs longer, or run the command by hand and \
                          send it an `initialize`";

/// What a session is begun with.
#[derive(Debug)]
pub(super) struct Setting {
    pub(super) bounds: Bounds,
    pub(super) dialect: Dialect,
    pub(super) asking: Asking,
    pub(super) changed: Arc<Notify>,
    pub(super) closing: CancellationToken,
    pub(super) tasks: TaskTracker,
}

/// A session that is up.
#[derive(Debug)]
pub(crate) struct Session {
    pub(super) link: Arc<Link>,
    process: Option<Box<dyn Process>>,
}

/// Why a handshake came to nothing.
#[derive(Debug)]
pub(super) struct Failed {
    pub(super) fault: Fault,
    /// Whether the server refused the dialect, so that the other may be worth a try.
    pub(super) dialect: bool,
}

impl From<Fault> for Failed {
    fn from(fault: Fault) -> Self {
        Self { fault, dialect: false }
    }
}

impl Setting {
    fn shared(&self, noise: Noise) -> Shared {
        Shared {
            ears: Arc::new(Ears::new(Arc::clone(&self.changed))),
            noise: Arc::new(noise),
            end: Arc::default(),
            audience: Arc::new(Audience::new(self.asking.clone())),
            tasks: self.tasks.clone(),
        }
    }

    /// Starts a child and shakes hands with it. Where that fails, nothing of it is left.
    pub(super) async fn pipes(&self, dial: &Arc<dyn Dial>, era: Era) -> Result<Session, Failed> {
        let start = self.bounds.start;
        let dialed = timeout(start, dial.dial()).await.map_err(|_| {
            let message = format!("did not start within {start:?}");
            Fault::new(SourceFault::TimedOut, message).fix(SLOW_START)
        })??;
        let Dialed { reader, writer, mut process } = dialed;
        let shared = self.shared(Noise::of(dial));
        let pipe = Pipe::open((reader, writer), self.bounds.message, shared.clone());
        let link = Link::new(Wire::Pipe(pipe), era, shared.clone(), &self.bounds);
        let Err(error) = self.greet(&link).await else {
            return Ok(Session { link, process: Some(process) });
        };
        shared.end.end();
        close(&link).await;
        let gone =
            matches!(error, Some(Ungreeted::Unanswered(Unanswered::Lost | Unanswered::Closed)));
        let dialect = error.as_ref().is_some_and(Ungreeted::refuses_dialect);
        let fault = match (error, shared.end.why()) {
            (_, Some(why)) => broken(why),
            (Some(_), None) if gone && !self.closing.is_cancelled() => {
                let how = timeout(self.bounds.grace, process.ended()).await;
                let how = how.unwrap_or_else(|_| "its output closed".to_owned());
                Fault::new(SourceFault::Crashed, format!("ended before it was ready: {how}"))
            }
            (error, None) => self.ungreeted(era, error),
        };
        let fault = with_noise(fault, &shared.noise);
        Err(Failed { fault: self.ended(fault, process).await, dialect })
    }

    /// Opens a session with an endpoint.
    pub(super) async fn endpoint(&self, http: &Arc<Http>, era: Era) -> Result<Session, Failed> {
        let shared = self.shared(Noise::default());
        let endpoint = Endpoint::new(Arc::clone(http), era, self.bounds.message);
        let link = Link::new(Wire::Http(endpoint), era, shared.clone(), &self.bounds);
        let Err(error) = self.greet(&link).await else {
            if era == Era::Handshake {
                drop(self.tasks.spawn(super::http::listen(Arc::clone(&link))));
            }
            return Ok(Session { link, process: None });
        };
        shared.end.end();
        let dialect = error.as_ref().is_some_and(Ungreeted::refuses_dialect);
        Err(Failed { dialect, fault: self.ungreeted(era, error) })
    }

    /// Greets in time; an error of nothing is that there was none, or that we are closing.
    async fn greet(&self, link: &Arc<Link>) -> Result<(), Option<Ungreeted>> {
        tokio::select! {
            greeted = timeout(self.bounds.start, link.greet()) => match greeted {
                Ok(greeted) => greeted.map_err(Some),
                Err(_) => Err(None),
            },
            () = self.closing.cancelled() => {
                Err(Some(Ungreeted::Unanswered(Unanswered::Closed)))
            }
        }
    }

    /// A failed greeting in words.
    fn ungreeted(&self, era: Era, error: Option<Ungreeted>) -> Fault {
        let failed = |message: String| Fault::new(SourceFault::Failed, message);
        match error {
            None => {
                let start = self.bounds.start;
                let message = format!("did not answer the handshake within {start:?}");
                Fault::new(SourceFault::TimedOut, message).fix(SLOW_START)
            }
            Some(Ungreeted::Refused(error)) => {
                failed(format!("refused the handshake: {}", refused(&error)))
            }
            Some(Ungreeted::Versions(theirs)) => failed(versions(&theirs)),
            Some(Ungreeted::Unreadable(why)) => {
                let text = tool::display_text::shown(&why, 300);
                let message = format!("answered the handshake with something else: {text}");
                Fault::new(SourceFault::Malformed, message)
            }
            Some(Ungreeted::Unanswered(_)) if self.closing.is_cancelled() => {
                failed("was closed".to_owned())
            }
            Some(Ungreeted::Unanswered(why)) => super::fail::unasked(method(era), why),
        }
    }

    /// Ends what is left and adds what it last said.
    async fn ended(&self, mut fault: Fault, process: Box<dyn Process>) -> Fault {
        let words = process.last_words();
        process.kill(self.bounds.grace).await;
        let last = end_lines(&words, LAST_LINES, WIDTH);
        if last.is_empty() {
            fault.message.push_str("; it wrote nothing to standard error");
        } else {
            fault.message.push_str("; its standard error: ");
            fault.message.push_str(&last);
        }
        fault.fix.get_or_insert_with(|| {
            "run the command by hand and send it an `initialize`: what it needs to start is often \
             said in its last lines"
                .to_owned()
        });
        fault
    }
}

impl Session {
    /// Resolves when the session is over and nothing of it is left, with why.
    pub(super) async fn last(self, setting: &Setting) -> Fault {
        let Self { link, mut process } = self;
        let end = Arc::clone(&link.shared.end);
        let how = first_sign(&setting.closing, process.as_mut(), &end).await;
        // What a child wrote before it ended is still in the pipe, and may be answers.
        if how.is_some() {
            drop(timeout(setting.bounds.grace, end.over.cancelled()).await);
        }
        end.end();
        drop(timeout(setting.bounds.grace, close(&link)).await);
        let Some(mut process) = process else {
            return match end.why() {
                Some(why) => broken(why),
                None => Fault::new(SourceFault::Crashed, "closed the session"),
            };
        };
        let how = match how {
            Some(how) => Some(how),
            None => timeout(setting.bounds.grace, process.ended()).await.ok(),
        };
        let fault = with_noise(over(end.why(), how), &link.shared.noise);
        setting.ended(fault, process).await
    }
}

/// Lets the server know that nothing more comes.
async fn close(link: &Link) {
    match &link.wire {
        Wire::Pipe(pipe) => pipe.close(),
        Wire::Http(endpoint) => endpoint.close().await,
    }
}

/// Resolves when a session is to end, with how its child did where that came first.
async fn first_sign(
    closing: &CancellationToken,
    process: Option<&mut Box<dyn Process>>,
    end: &End,
) -> Option<String> {
    tokio::select! {
        biased;
        () = closing.cancelled() => None,
        how = ended(process) => Some(how),
        () = end.over.cancelled() => None,
    }
}

fn over(why: Option<&Broken>, how: Option<String>) -> Fault {
    match (why, how) {
        (Some(why), _) => broken(why),
        (None, Some(how)) => Fault::new(SourceFault::Crashed, format!("ended: {how}")),
        (None, None) => Fault::new(SourceFault::Crashed, "closed its output without ending"),
    }
}

async fn ended(process: Option<&mut Box<dyn Process>>) -> String {
    match process {
        Some(process) => process.ended().await,
        None => std::future::pending().await,
    }
}

fn broken(why: &Broken) -> Fault {
    match why {
        Broken::Noise(heard) => Fault::new(SourceFault::Malformed, heard.clone())
            .fix("check that the command starts an MCP server in its stdio mode"),
        Broken::Stalled => {
            Fault::new(SourceFault::TimedOut, format!("did not read its input for {STALL:?}"))
        }
        Broken::Io(error) => Fault::new(SourceFault::Crashed, format!("its pipes failed: {error}")),
        Broken::Session(why) => Fault::new(SourceFault::Failed, why.clone()),
    }
}

fn with_noise(mut fault: Fault, noise: &Noise) -> Fault {
    if fault.kind != SourceFault::Malformed
        && let Some(problem) = noise.problem("")
    {
        fault.message = format!("{}; it {}", fault.message, problem.message);
    }
    fault
}
