//! Workers that read one folder. Each starts for one request in a sandbox that sees only that
//! folder, and ends with the answer or at the time limit.

use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rooted_fs::rooted_dir::PinnedDirPath;
use sandbox::{ProgramSource, SandboxLevel, SandboxSpec};
use tool::{CallContext, ErrorCode, ExecuteError, Json};

use super::{FOLDER_READER_COMMAND, WorkerJob, WorkerProcess, WorkerQuota};
use crate::sandbox_provider::SandboxProvider;

/// Largest number of folder readers at once.
const MAX_READERS: usize = 4;
/// Address space in bytes. Git packs are mapped whole; resident memory is limited separately.
const ADDRESS_SPACE_BYTES: u64 = 64 << 30;
/// Memory limit of all processes of one reader together, in bytes.
const MEMORY_BYTES: u64 = 1 << 30;
/// CPU time limit in seconds.
const CPU_SECONDS: u64 = 60;
/// Largest number of threads; gix starts a few.
const MAX_THREADS: u64 = 16;
/// Largest number of open files: one for each pack and each folder that is walked.
const MAX_DESCRIPTORS: u64 = 1_024;

/// Starts workers that read folders, within a quota.
#[derive(Debug)]
pub(crate) struct FolderReaderPool {
    sandboxes: Arc<SandboxProvider>,
    quota: WorkerQuota,
}

impl FolderReaderPool {
    pub(crate) fn new(sandboxes: Arc<SandboxProvider>) -> Self {
        Self { sandboxes, quota: WorkerQuota::new(MAX_READERS) }
    }

    /// Runs `job` on `folder` and returns its answer, or an error message for the model.
    /// Cancellation by the caller ends the worker.
    ///
    /// # Errors
    /// If no worker is available or the call is cancelled.
    pub(crate) async fn read_folder(
        &self,
        job: WorkerJob,
        folder: &PinnedDirPath,
        ctx: &CallContext<'_>,
    ) -> Result<Result<Json, String>, ExecuteError> {
        let given_up = || ExecuteError::maybe_sent(ErrorCode::Cancelled, "the reader was stopped");
        tokio::select! {
            answer = self.run_job(job, folder, ctx) => answer,
            () = ctx.cancel.cancelled() => Err(given_up()),
        }
    }

    async fn run_job(
        &self,
        job: WorkerJob,
        folder: &PinnedDirPath,
        ctx: &CallContext<'_>,
    ) -> Result<Result<Json, String>, ExecuteError> {
        let place = self.quota.acquire_slot(ctx.caller.limit_key_id()).await;
        let _place = place.map_err(|why| ExecuteError::not_sent(ErrorCode::Busy, why))?;
        let worker = self.spawn_reader(folder).await;
        let worker = worker.map_err(|why| ExecuteError::not_sent(ErrorCode::Blocked, why))?;
        let ran = |took| ctx.record_sandbox_usage(took);
        Ok(match worker.run_job(job, Json::empty_object().bytes(), &ran).await {
            Ok((answer, _ended)) => answer,
            Err(trouble) => Err(trouble.describe_failure(job, &ran).await),
        })
    }

    async fn spawn_reader(&self, folder: &PinnedDirPath) -> Result<WorkerProcess, String> {
        let tier = self.sandboxes.usable_level().await?;
        let (path, is) =
            folder_identity(folder.as_ref()).map_err(|error| format!("the folder: {error}"))?;
        let mut args = vec![FOLDER_READER_COMMAND.to_owned()];
        args.extend(is.map(|number| number.to_string()));
        WorkerProcess::spawn_process(
            &self.sandboxes,
            read_only_sandbox(tier, &path),
            (args, path, Vec::new()),
        )
        .await
    }
}

/// Builds a sandbox with read access to `folder` and no write access.
fn read_only_sandbox(tier: SandboxLevel, folder: &Path) -> SandboxSpec {
    let mut sandbox_spec = SandboxSpec::new(tier);
    sandbox_spec.program = ProgramSource::OwnBinary;
    sandbox_spec.readable_paths = vec![folder.to_owned()];
    sandbox_spec.limits.address_space_bytes = ADDRESS_SPACE_BYTES;
    sandbox_spec.limits.total_memory_bytes = MEMORY_BYTES;
    sandbox_spec.limits.cpu_seconds = CPU_SECONDS;
    sandbox_spec.limits.file_bytes = 0;
    sandbox_spec.limits.max_tasks = MAX_THREADS;
    sandbox_spec.limits.max_descriptors = MAX_DESCRIPTORS;
    sandbox_spec
}

/// Returns the resolved path of an open folder with its device and inode number. If the path leads
/// elsewhere by the time the sandbox is created, the worker detects it by these numbers.
fn folder_identity(open: &Path) -> std::io::Result<(PathBuf, [u64; 2])> {
    let meta = std::fs::metadata(open)?;
    Ok((std::fs::read_link(open)?, [meta.dev(), meta.ino()]))
}
