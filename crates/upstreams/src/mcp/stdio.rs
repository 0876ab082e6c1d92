//! A server as a child of ours, started by guard.

use std::time::Duration;

use guard::process::{Child, EnvValue, Exit, Launcher, SpawnError, Spec, Tail};
use tokio_util::task::TaskTracker;
use tool::source::SourceFault;
use tool::{Boxed, Secret};

use super::dial::{Dial, Dialed, Fault, Process};
use super::wording::shown;

/// Characters of the command line in a problem's place.
const PLACE: usize = 120;
/// Secrets shorter than this are too common a text to be looked for.
const SECRET: usize = 6;
/// How long the rest of standard error may take to be read once the child is gone.
const LAST_WORDS: Duration = Duration::from_millis(200);

/// Starts one command, each time anew.
#[derive(Debug)]
pub struct Stdio {
    launcher: Launcher,
    spec: Spec,
}

impl Stdio {
    /// Runs `spec` with `launcher`.
    pub fn new(launcher: Launcher, spec: Spec) -> Self {
        Self { launcher, spec }
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
        let secrets = secrets(&self.spec);
        let process = Box::new(Running { child, tail, reading, secrets });
        Ok(Dialed { reader: Box::new(stdout), writer: Box::new(stdin), process })
    }
}

impl Dial for Stdio {
    fn place(&self) -> String {
        let words = std::iter::once(&self.spec.command).chain(&self.spec.args);
        let line: Vec<_> = words.map(String::as_str).collect();
        format!("`{}`", shown(&line.join(" "), PLACE))
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
    secrets: Vec<Secret>,
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
        let mut text = self.tail.text();
        for secret in &self.secrets {
            text = text.replace(secret.open(), "[secret]");
        }
        text
    }
}

fn secrets(spec: &Spec) -> Vec<Secret> {
    let values = spec.env.iter().filter_map(|(_, value)| match value {
        EnvValue::Secret(secret) if secret.open().len() >= SECRET => Some(secret.clone()),
        EnvValue::Secret(_) | EnvValue::Plain(_) => None,
    });
    values.collect()
}
