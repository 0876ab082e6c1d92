//! A worker that reads one folder: started for one request, in a cage that sees that folder alone, and
//! ended with the answer or with the time for it.

use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rooted_fs::roots::FolderPath;
use sandbox::{Cage, Tier};
use tool::{Code, Context, ExecuteError, Json};

use super::{Job, READ_FOLDER, Worker, WorkerQuota};
use crate::cages::Cages;

/// Such workers at once.
const MOST: usize = 4;
/// Address space: packs are mapped whole, and bound by what is read of them.
const SPACE: u64 = 64 << 30;
/// Memory of all of it together, in bytes.
const TOGETHER: u64 = 1 << 30;
/// Seconds of processor time.
const PROCESSOR: u64 = 60;
/// Threads, of which gix has a few.
const THREADS: u64 = 16;
/// Open files: one for each pack, and for each folder that is walked.
const DESCRIPTORS: u64 = 1_024;

/// Starts the workers that read folders.
#[derive(Debug)]
pub(crate) struct FolderReaders {
    cages: Arc<Cages>,
    quota: WorkerQuota,
}

impl FolderReaders {
    pub(crate) fn new(cages: Arc<Cages>) -> Self {
        Self { cages, quota: WorkerQuota::new(MOST) }
    }

    /// What `job` answers of `folder`, or why there is no answer, in words for the model. A caller that
    /// goes away ends it.
    ///
    /// # Errors
    /// Where there is no worker, or the caller has given up.
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

/// A cage that reads `folder` and writes nothing.
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

/// The path of an open folder without links, and what it is: device and number. The path may come to lead
/// elsewhere before the cage is made; the worker sees that by what it then is in.
fn folder_identity(open: &Path) -> std::io::Result<(PathBuf, [u64; 2])> {
    let meta = std::fs::metadata(open)?;
    Ok((std::fs::read_link(open)?, [meta.dev(), meta.ino()]))
}
