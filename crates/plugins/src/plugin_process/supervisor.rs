//! Process supervisor: starts the process of a version and restarts it with backoff.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use sandbox::process::{CommandSpec, Lines, OutputTail, ProcessLauncher};
use tokio::io::AsyncWriteExt as _;
use tokio::process::ChildStdout;
use tokio::runtime::Handle;
use tokio::sync::{OnceCell, mpsc};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tool::{Clock, ErrorCode, ExecuteError};

use super::messages::{ProcessMessage, ReportedProblem};
use super::{
    HttpProxy, LINE_QUEUE, OutputReader, PluginProcess, STDERR_TAIL_BYTES, SharedProcessState,
    line_reader, next_line, with_stderr_tail, write_lines,
};
use crate::access::EffectiveAccess;
use crate::backoff_schedule::BackoffSchedule;
use crate::plugin_folder::FolderCopy;
use egress::EgressClient;

/// Waits before a process that died or did not start is started again; the last one repeats.
const RESTART_BACKOFF: [Duration; 4] =
    [Duration::ZERO, Duration::from_millis(200), Duration::from_secs(1), Duration::from_secs(5)];
/// Maximum number of lines before the process is ready.
const MAX_EARLY_LINES: usize = 100;

/// Launch specification of a process.
#[derive(Debug)]
pub(crate) struct LaunchSpec {
    /// For messages.
    pub(crate) plugin_name: String,
    pub(crate) launcher: ProcessLauncher,
    pub(crate) spec: CommandSpec,
    /// The first line that the process receives.
    pub(crate) hello_line: Bytes,
    pub(crate) access: Arc<EffectiveAccess>,
    pub(crate) egress: Option<EgressClient>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) startup_timeout: Duration,
    /// Runtime of its tasks, independent of a caller's runtime.
    pub(crate) runtime: Handle,
    pub(crate) tasks: TaskTracker,
    /// Cancels all of its tasks.
    pub(crate) cancellation: CancellationToken,
    /// Copy of the code from which the process runs; it lives as long as this.
    pub(crate) _copy: FolderCopy,
}

/// Supervisor of one version's process, which is started on demand.
#[derive(Debug)]
pub(crate) struct ProcessSupervisor {
    launch_spec: Arc<LaunchSpec>,
    slot: Mutex<ProcessSlot>,
}

type ProcessCell = Arc<OnceCell<Arc<PluginProcess>>>;

#[derive(Debug)]
struct ProcessSlot {
    cell: ProcessCell,
    /// Restarts after it died or did not start.
    restart_backoff: BackoffSchedule,
}

impl ProcessSupervisor {
    pub(crate) fn new(spec: LaunchSpec) -> Self {
        let restart_backoff = BackoffSchedule::new(&RESTART_BACKOFF);
        let slot = Mutex::new(ProcessSlot { cell: ProcessCell::default(), restart_backoff });
        Self { launch_spec: Arc::new(spec), slot }
    }

    pub(crate) fn plugin_name(&self) -> &str {
        &self.launch_spec.plugin_name
    }

    pub(crate) fn clock(&self) -> &Arc<dyn Clock> {
        &self.launch_spec.clock
    }

    fn lock_slot(&self) -> MutexGuard<'_, ProcessSlot> {
        self.slot.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Starts the first process, and returns the problems that it reports.
    pub(crate) async fn start_first(&self) -> Result<Vec<ReportedProblem>, String> {
        let (process, problems) = spawn_start(&self.launch_spec).await?;
        let _first = self.lock_slot().cell.set(process);
        Ok(problems)
    }

    /// Returns the running process, or starts a new one.
    pub(crate) async fn running_process(&self) -> Result<Arc<PluginProcess>, ExecuteError> {
        let lost = |why: String| {
            let message =
                format!("the plugin `{}` is not running: {why}", self.launch_spec.plugin_name);
            ExecuteError::not_sent(ErrorCode::UpstreamLost, message)
        };
        let cell = self.current_slot().map_err(&lost)?;
        let process = cell.get_or_try_init(|| async {
            let (process, _known) = spawn_start(&self.launch_spec).await?;
            Ok::<_, String>(process)
        });
        match process.await {
            Ok(process) => Ok(Arc::clone(process)),
            Err(why) => {
                self.record_failure();
                Err(lost(why))
            }
        }
    }

    fn current_slot(&self) -> Result<ProcessCell, String> {
        let now = self.launch_spec.clock.monotonic_now();
        let mut slot = self.lock_slot();
        let over = slot.cell.get().and_then(|process| process.end_reason());
        if let Some(why) = over {
            tracing::warn!(
                plugin = self.launch_spec.plugin_name,
                why,
                "the process of a plugin ended"
            );
            slot.cell = ProcessCell::default();
            slot.restart_backoff.record_failure(now);
        }
        match slot.restart_backoff.remaining_wait(now).filter(|_| slot.cell.get().is_none()) {
            Some(wait) => Err(format!("it ended and is restarted in {} ms", wait.as_millis())),
            None => Ok(Arc::clone(&slot.cell)),
        }
    }

    fn record_failure(&self) {
        let now = self.launch_spec.clock.monotonic_now();
        self.lock_slot().restart_backoff.record_failure(now);
    }

    /// Records an answered call, which resets the failure count.
    pub(crate) fn record_success(&self) {
        self.lock_slot().restart_backoff.record_success();
    }

    /// Retires `process`: it completes its calls, and later calls get a new process.
    pub(crate) fn retire(&self, process: &Arc<PluginProcess>) {
        let mut slot = self.lock_slot();
        if slot.cell.get().is_some_and(|now| Arc::ptr_eq(now, process)) {
            slot.cell = ProcessCell::default();
        }
    }

    /// Spawns work that continues after the call has ended.
    pub(crate) fn spawn_after(&self, work: impl Future<Output = ()> + Send + 'static) {
        drop(self.launch_spec.tasks.spawn_on(work, &self.launch_spec.runtime));
    }
}

/// Starts a process, waits until it is ready, and returns its reported problems.
async fn spawn_start(
    run: &Arc<LaunchSpec>,
) -> Result<(Arc<PluginProcess>, Vec<ReportedProblem>), String> {
    let spec = Arc::clone(run);
    let starting = run.tasks.spawn_on(async move { start_process(&spec).await }, &run.runtime);
    starting.await.map_err(|_| "starting it was cancelled".to_owned())?
}

async fn start_process(
    run: &LaunchSpec,
) -> Result<(Arc<PluginProcess>, Vec<ReportedProblem>), String> {
    let mut child = run.launcher.spawn_child(&run.spec).map_err(|error| error.to_string())?;
    child.wait_started().await.map_err(|error| error.to_string())?;
    let streams = (child.take_stdin(), child.take_stdout(), child.take_stderr());
    let (Some(mut stdin), Some(stdout), Some(stderr)) = streams else {
        return Err("it has no pipes".to_owned());
    };
    let tail = OutputTail::new(STDERR_TAIL_BYTES);
    drop(run.tasks.spawn(tail.clone().drain_stream(stderr)));
    let mut lines = line_reader(stdout);
    // If this fails, dropping the child kills it.
    let greeted = async {
        stdin.write_all(&run.hello_line).await.map_err(|_| "it ended at once".to_owned())?;
        wait_until_ready(&mut lines).await
    };
    let problems = tokio::select! {
        told = tokio::time::timeout(run.startup_timeout, greeted) => told,
        () = run.cancellation.cancelled() => return Err("the server is stopping".to_owned()),
    };
    let told =
        problems.map_err(|_| format!("it is not ready after {} s", run.startup_timeout.as_secs()));
    let told = told.and_then(|told| told).map_err(|why| with_stderr_tail(&why, &tail))?;
    let (to, queue) = mpsc::channel(LINE_QUEUE);
    let (shared, end) = (Arc::<SharedProcessState>::default(), run.cancellation.child_token());
    drop(run.tasks.spawn(write_lines(stdin, queue, end.clone())));
    let net =
        HttpProxy::new(run.egress.clone(), Arc::clone(&run.access), to.clone(), run.tasks.clone());
    let listening = OutputReader {
        child,
        lines,
        tail,
        shared: Arc::clone(&shared),
        http_proxy: net,
        end: end.clone(),
    };
    drop(run.tasks.spawn(listening.read_output()));
    let number = std::sync::atomic::AtomicU64::new(1);
    Ok((
        Arc::new(PluginProcess {
            line_sender: to,
            shared,
            next_call_number: number,
            _end: end.drop_guard(),
        }),
        told,
    ))
}

async fn wait_until_ready(lines: &mut Lines<ChildStdout>) -> Result<Vec<ReportedProblem>, String> {
    for _ in 0..MAX_EARLY_LINES {
        let line = next_line(lines).await?.ok_or("it ended before it was ready")?;
        if let Some(ProcessMessage::Ready(problems)) = ProcessMessage::parse_message(&line) {
            return Ok(problems);
        }
    }
    Err("it wrote invalid lines before it was ready".to_owned())
}
