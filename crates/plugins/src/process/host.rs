//! Starts the process of a version, and another where it died.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use sandbox::process::{Launcher, Lines, Spec, Tail};
use tokio::io::AsyncWriteExt as _;
use tokio::process::ChildStdout;
use tokio::runtime::Handle;
use tokio::sync::{OnceCell, mpsc};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tool::{Clock, Code, ExecuteError, Mono};

use super::said::{Said, Told};
use super::{Listening, Net, Process, QUEUE, Shared, TAIL, lines_of, next_line, with_words, write};
use crate::folder::Copied;
use crate::grant::Allowed;
use egress::Egress;

/// Waits before a process that died or did not start is started again; the last one repeats.
const WAITS: [Duration; 4] =
    [Duration::ZERO, Duration::from_millis(200), Duration::from_secs(1), Duration::from_secs(5)];
/// Lines that a process may write before it is ready.
const EARLY: usize = 100;

/// All that a process is started with.
#[derive(Debug)]
pub(crate) struct Run {
    /// For messages.
    pub(crate) plugin: String,
    pub(crate) launcher: Launcher,
    pub(crate) spec: Spec,
    /// The first line it gets.
    pub(crate) hello: Bytes,
    pub(crate) allowed: Arc<Allowed>,
    pub(crate) egress: Option<Egress>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) ready: Duration,
    /// Where its tasks run, however short a caller's own place lasts.
    pub(crate) runtime: Handle,
    pub(crate) tasks: TaskTracker,
    /// Ends all of them.
    pub(crate) end: CancellationToken,
    /// What it runs from; stays as long as this.
    pub(crate) _copy: Copied,
}

/// The process of one version, started when it is needed.
#[derive(Debug)]
pub(crate) struct Host {
    run: Arc<Run>,
    slot: Mutex<Slot>,
}

type Cell = Arc<OnceCell<Arc<Process>>>;

#[derive(Debug, Default)]
struct Slot {
    cell: Cell,
    /// How often in a row it died or did not start.
    failures: usize,
    not_before: Option<Mono>,
}

impl Host {
    pub(crate) fn new(run: Run) -> Self {
        Self { run: Arc::new(run), slot: Mutex::default() }
    }

    pub(crate) fn plugin(&self) -> &str {
        &self.run.plugin
    }

    pub(crate) fn clock(&self) -> &Arc<dyn Clock> {
        &self.run.clock
    }

    fn lock(&self) -> MutexGuard<'_, Slot> {
        self.slot.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Starts the first process, and answers what it says of the plugin.
    pub(crate) async fn begin(&self) -> Result<Vec<Told>, String> {
        let (process, told) = started(&self.run).await?;
        let _first = self.lock().cell.set(process);
        Ok(told)
    }

    /// The process: the one there is, or a new one where that is over.
    pub(crate) async fn process(&self) -> Result<Arc<Process>, ExecuteError> {
        let lost = |why: String| {
            let told = format!("the plugin `{}` does not run: {why}", self.run.plugin);
            ExecuteError::before(Code::UpstreamLost, told)
        };
        let cell = self.cell().map_err(&lost)?;
        let process = cell.get_or_try_init(|| async {
            let (process, _known) = started(&self.run).await?;
            Ok::<_, String>(process)
        });
        match process.await {
            Ok(process) => Ok(Arc::clone(process)),
            Err(why) => {
                self.failed();
                Err(lost(why))
            }
        }
    }

    fn cell(&self) -> Result<Cell, String> {
        let now = self.run.clock.mono();
        let mut slot = self.lock();
        let over = slot.cell.get().and_then(|process| process.over());
        if let Some(why) = over {
            tracing::warn!(plugin = self.run.plugin, why, "the process of a plugin is gone");
            slot.cell = Cell::default();
            slot.fail(now);
        }
        match slot.not_before.filter(|time| slot.cell.get().is_none() && now < *time) {
            Some(time) => {
                let wait = time.since(now).as_millis();
                Err(format!("it ended, and is started again in {wait} ms"))
            }
            None => Ok(Arc::clone(&slot.cell)),
        }
    }

    fn failed(&self) {
        let now = self.run.clock.mono();
        self.lock().fail(now);
    }

    /// A call was answered: it is well.
    pub(crate) fn well(&self) {
        let mut slot = self.lock();
        (slot.failures, slot.not_before) = (0, None);
    }

    /// Gives `process` no more calls: the next ones get another. It ends with the calls it has.
    pub(crate) fn retire(&self, process: &Arc<Process>) {
        let mut slot = self.lock();
        if slot.cell.get().is_some_and(|now| Arc::ptr_eq(now, process)) {
            slot.cell = Cell::default();
        }
    }

    /// Runs something after a call is over, however short its caller's own place lasts.
    pub(crate) fn later(&self, work: impl Future<Output = ()> + Send + 'static) {
        drop(self.run.tasks.spawn_on(work, &self.run.runtime));
    }
}

impl Slot {
    fn fail(&mut self, now: Mono) {
        let wait = WAITS.get(self.failures).or(WAITS.last()).copied().unwrap_or_default();
        self.failures += 1;
        self.not_before = (wait > Duration::ZERO).then(|| now.after(wait));
    }
}

/// A process that is ready, and what it says of the plugin.
async fn started(run: &Arc<Run>) -> Result<(Arc<Process>, Vec<Told>), String> {
    let of = Arc::clone(run);
    let starting = run.tasks.spawn_on(async move { start(&of).await }, &run.runtime);
    starting.await.map_err(|_| "starting it was given up".to_owned())?
}

async fn start(run: &Run) -> Result<(Arc<Process>, Vec<Told>), String> {
    let mut child = run.launcher.spawn(&run.spec).map_err(|error| error.to_string())?;
    child.started().await.map_err(|error| error.to_string())?;
    let streams = (child.stdin(), child.stdout(), child.stderr());
    let (Some(mut stdin), Some(stdout), Some(stderr)) = streams else {
        return Err("it has no pipes".to_owned());
    };
    let tail = Tail::new(TAIL);
    drop(run.tasks.spawn(tail.clone().drain(stderr)));
    let mut lines = lines_of(stdout);
    // Dropped where this fails, the child ends.
    let greeted = async {
        stdin.write_all(&run.hello).await.map_err(|_| "it ended at once".to_owned())?;
        ready(&mut lines).await
    };
    let told = tokio::select! {
        told = tokio::time::timeout(run.ready, greeted) => told,
        () = run.end.cancelled() => return Err("the server is stopping".to_owned()),
    };
    let told = told.map_err(|_| format!("it is not ready after {} s", run.ready.as_secs()));
    let told = told.and_then(|told| told).map_err(|why| with_words(&why, &tail))?;
    let (to, queue) = mpsc::channel(QUEUE);
    let (shared, end) = (Arc::<Shared>::default(), run.end.child_token());
    drop(run.tasks.spawn(write(stdin, queue, end.clone())));
    let net = Net::new(run.egress.clone(), Arc::clone(&run.allowed), to.clone(), run.tasks.clone());
    let listening =
        Listening { child, lines, tail, shared: Arc::clone(&shared), net, end: end.clone() };
    drop(run.tasks.spawn(listening.run()));
    let number = std::sync::atomic::AtomicU64::new(1);
    Ok((Arc::new(Process { to, shared, number, _end: end.drop_guard() }), told))
}

async fn ready(lines: &mut Lines<ChildStdout>) -> Result<Vec<Told>, String> {
    for _ in 0..EARLY {
        let line = next_line(lines).await?.ok_or("it ended before it was ready")?;
        if let Some(Said::Ready(problems)) = Said::read(&line) {
            return Ok(problems);
        }
    }
    Err("it says other things before it is ready".to_owned())
}
