//! Workers that read one folder. Each starts for one request in a sandbox that sees only that
//! folder, and ends with the answer or at the time limit.

use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rooted_fs::roots::FolderPath;
use sandbox::{Cage, Tier};
use tool::{Code, Context, ExecuteError, Json};

use super::{Job, READ_FOLDER, Worker, WorkerQuota};
use crate::cages::Cages;

/// Largest number of folder readers at once.
const MOST: usize = 4;
/// Address space in bytes. Git packs are mapped whole; resident memory is limited separately.
const SPACE: u64 = 64 << 30;
/// Memory limit of all processes of one reader together, in bytes.
const TOGETHER: u64 = 1 << 30;
/// CPU time limit in seconds.
const PROCESSOR: u64 = 60;
/// Largest number of threads; gix starts a few.
const THREADS: u64 = 16;
/// Largest number of open files: one for each pack and each folder that is walked.
const DESCRIPTORS: u64 = 1_024;

/// Starts workers that read folders, within a quota.
#[derive(Debug)]
pub(crate) struct FolderReaders {
    cages: Arc<Cages>,
    quota: WorkerQuota,
}

impl FolderReaders {
    pub(crate) fn new(cages: Arc<Cages>) -> Self {
        Self { cages, quota: WorkerQuota::new(MOST) }
    }

    /// Runs `job` on `folder` and returns its answer, or an error message for the model.
    /// Cancellation by the caller ends the worker.
    ///
    /// # Errors
    /// If no worker is available or the call is cancelled.
    pub(crate) async fn run(
        &self,
        job: Job,
        folder: &FolderPath,
        ctx: &Context<'_>,
    ) -> Result<Result<Json, String>, ExecuteError> {
        let given_up = || ExecuteError::during(Code::Cancelled, "the reading was ended");
        tokio::select! {
            answer = self.answer(job, folder, ctx) => answer,
            () = ctx.cancel.cancelled() => Err(given_up()),
        }
    }

    async fn answer(
        &self,
        job: Job,
        folder: &FolderPath,
        ctx: &Context<'_>,
    ) -> Result<Result<Json, String>, ExecuteError> {
        let place = self.quota.enter(ctx.caller.root_key()).await;
        let _place = place.map_err(|why| ExecuteError::before(Code::Busy, why))?;
        let worker = self.start(folder).await;
        let worker = worker.map_err(|why| ExecuteError::before(Code::Blocked, why))?;
        let ran = |took| ctx.ran_caged(took);
        Ok(match worker.answers(job, Json::empty().bytes(), &ran).await {
            Ok((answer, _ended)) => answer,
            Err(trouble) => Err(trouble.told(job, &ran).await),
        })
    }

    async fn start(&self, folder: &FolderPath) -> Result<Worker, String> {
        let tier = self.cages.tier().await?;
        let (path, is) =
            folder_identity(folder.as_ref()).map_err(|error| format!("the folder: {error}"))?;
        let mut args = vec![READ_FOLDER.to_owned()];
        args.extend(is.map(|number| number.to_string()));
        Worker::start(&self.cages, read_only_cage(tier, &path), (args, path, Vec::new())).await
    }
}

/// Builds a sandbox with read access to `folder` and no write access.
fn read_only_cage(tier: Tier, folder: &Path) -> Cage {
    let mut cage = Cage::new(tier);
    cage.this_binary = true;
    cage.readable = vec![folder.to_owned()];
    cage.share.memory = SPACE;
    cage.share.together = TOGETHER;
    cage.share.cpu = PROCESSOR;
    cage.share.file = 0;
    cage.share.processes = THREADS;
    cage.share.descriptors = DESCRIPTORS;
    cage
}

/// Returns the resolved path of an open folder with its device and inode number. If the path leads
/// elsewhere by the time the sandbox is created, the worker detects it by these numbers.
fn folder_identity(open: &Path) -> std::io::Result<(PathBuf, [u64; 2])> {
    let meta = std::fs::metadata(open)?;
    Ok((std::fs::read_link(open)?, [meta.dev(), meta.ino()]))
}
