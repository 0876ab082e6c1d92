//! `git_status`: returns the branch and the changed files of a Git working copy.
//!
//! A repository is untrusted data, including its configuration, index and packs. A worker that can
//! see only this folder reads it.

mod repository;

use std::sync::Arc;

use serde_json::Value;
use tool::{BoxFuture, CallContext, ExecuteError, ExecutionState, Executor, Outcome, RecordedCall};

use crate::system::file_roots::{FileRoots, escape_for_message};
use crate::worker_pool::{FolderReaderPool, WorkerJob};
use tool_manifest::BuiltinTool;
use tool_manifest::ManifestRegistry;

pub(crate) use repository::repository_status;

pub(crate) fn build_tool(
    registry: &ManifestRegistry,
    file_roots: &Arc<FileRoots>,
    readers: &Arc<FolderReaderPool>,
) -> Option<BuiltinTool> {
    let (file_roots, readers) = (Arc::clone(file_roots), Arc::clone(readers));
    Some(registry.find_tool("git_status")?.with_executor(GitStatus { file_roots, readers }))
}

#[derive(Debug)]
struct GitStatus {
    file_roots: Arc<FileRoots>,
    readers: Arc<FolderReaderPool>,
}

impl GitStatus {
    async fn read_status(
        &self,
        path: &str,
        ctx: &CallContext<'_>,
    ) -> Result<ExecutionState, ExecuteError> {
        let (files, name) = (Arc::clone(&self.file_roots), path.to_owned());
        // Opened beneath its root, so that the folder stays the same whatever its path later leads
        // to.
        let opened = tokio::task::spawn_blocking(move || {
            let (root, inside) = files.resolve_path(&name)?;
            root.pin_dir(inside).map_err(|error| error.to_string())
        });
        let opened = opened.await.unwrap_or_else(|_| {
            Err("an internal error of the built-in \
            tool"
                .into())
        });
        let folder = match opened {
            Ok(folder) => folder,
            Err(why) => return Ok(ExecutionState::Completed(Outcome::tool_failure(&why))),
        };
        let answer = self.readers.read_folder(WorkerJob::GIT_STATUS, &folder, ctx).await?;
        Ok(ExecutionState::Completed(match answer {
            Ok(json) => Outcome::from_value(json),
            Err(why) => Outcome::tool_failure(&why.replace("{}", &escape_for_message(path))),
        }))
    }
}

impl Executor for GitStatus {
    fn execute<'a>(
        &'a self,
        call: RecordedCall<'a>,
        ctx: &'a CallContext<'a>,
    ) -> BoxFuture<'a, Result<ExecutionState, ExecuteError>> {
        let path = call.call().arguments.as_value();
        let path = path.get("repo_path").and_then(Value::as_str).unwrap_or(".").to_owned();
        Box::pin(async move { self.read_status(&path, ctx).await })
    }
}
