//! A server as a child of ours, started by guard.

use std::time::Duration;

use sandbox::process::{Child, Exit, Launcher, SpawnError, Spec, Tail};
use tokio_util::task::TaskTracker;
use tool::Boxed;
use tool::source::SourceFault;

use super::dial::{Dial, Dialed, Fault, Process};
use source_layers::redaction::Redaction;
use tool::display_text::shown;

/// Characters of the command in a problem's place.
const PLACE: usize = 120;
/// How long the rest of standard error may take to be read once the child is gone.
const LAST_WORDS: Duration = Duration::from_millis(200);

/// Starts one command, each time anew.
#[derive(Debug)]
pub struct Stdio {
    launcher: Launcher,
    spec: Spec,
    redaction: Redaction,
}

impl Stdio {
    /// Runs `spec` with `launcher`. Its arguments, and what of its environment is secret, are in nothing
    /// that is reported of it.
    pub fn new(launcher: Launcher, spec: Spec) -> Self {
        let redaction = Redaction::of_command(&spec);
        Self { launcher, spec, redaction }
    }

    /// The same, with arguments that are no secrets: paths that whoever wrote the child has to read.
    #[must_use]
    pub fn with_plain_arguments(self) -> Self {
        Self { redaction: Redaction::of_environment(&self.spec), ..self }
    }

    async fn begin(&self) -> Result<Dialed, Fault> {
        let mut child = self.launcher.spawn(&self.spec).map_err(|error| unstarted(&error))?;
        let _id: u32 = child.started().await.map_err(|error| unstarted(&error))?;
        let streams = (child.stdin(), child.stdout(), child.stderr());
        let (Some(stdin), Some(stdout), Some(stderr)) = streams else {
            return Err(Fault::new(SourceFault::Unreachable, "did not give its pipes"));
        };
        let tail = Tail::default();
        let reading = TaskTracker::new();
        drop(reading.spawn(tail.clone().drain(stderr)));
        reading.close();
        let redaction = self.redaction.clone();
        let process = Box::new(Running { child, tail, reading, redaction });
        Ok(Dialed { reader: Box::new(stdout), writer: Box::new(stdin), process })
    }
}

impl Dial for Stdio {
    fn place(&self) -> String {
        format!("`{}`", shown(&self.spec.command, PLACE))
    }

    fn redact(&self, text: String) -> String {
        self.redaction.text(text)
    }

    fn dial(&self) -> Boxed<'_, Result<Dialed, Fault>> {
        Box::pin(self.begin())
    }
}

fn unstarted(error: &SpawnError) -> Fault {
    Fault::new(SourceFault::Unreachable, error.to_string())
        .fix("correct `command`, `args`, `env` or `cwd` of the source")
}

#[derive(Debug)]
struct Running {
    child: Child,
    tail: Tail,
    reading: TaskTracker,
    redaction: Redaction,
}

impl Running {
    async fn end(&mut self) -> String {
        let how = match self.child.wait().await {
            Exit::Code(code) => format!("exit status {code}"),
            Exit::Signal(number) => format!("signal {number}"),
            Exit::NotStarted(why) => format!("it could not be started: {why}"),
            Exit::Lost => "its supervisor was killed".to_owned(),
        };
        drop(tokio::time::timeout(LAST_WORDS, self.reading.wait()).await);
        how
    }
}

impl Process for Running {
    fn ended(&mut self) -> Boxed<'_, String> {
        Box::pin(self.end())
    }

    fn kill(self: Box<Self>, grace: Duration) -> Boxed<'static, ()> {
        Box::pin(self.child.kill(grace))
    }

    fn last_words(&self) -> String {
        let text = self.tail.text();
        self.redaction.text(match self.tail.first_line() {
            Some(first) => format!("{first}\n{text}"),
            None => text,
        })
    }
}
