//! `git_status`: returns the branch and the changed files of a Git working copy.
//!
//! A repository is untrusted data, including its configuration, index and packs. A worker that can
//! see only this folder reads it.

mod repository;

use std::sync::Arc;

use serde_json::Value;
use tool::{Boxed, Context, ExecuteError, Executor, Granted, Outcome, Step};

use crate::system::files::{Files, shown};
use crate::worker::{FolderReaders, Job};
use tool_manifest::Builtin;
use tool_manifest::Registry;

pub(crate) use repository::status;

pub(crate) fn builtin(
    registry: &Registry,
    files: &Arc<Files>,
    readers: &Arc<FolderReaders>,
) -> Option<Builtin> {
    let (files, readers) = (Arc::clone(files), Arc::clone(readers));
    Some(registry.get("git_status")?.run_by(GitStatus { files, readers }))
}

#[derive(Debug)]
struct GitStatus {
    files: Arc<Files>,
    readers: Arc<FolderReaders>,
}

impl GitStatus {
    async fn read(&self, path: &str, ctx: &Context<'_>) -> Result<Step, ExecuteError> {
        let (files, name) = (Arc::clone(&self.files), path.to_owned());
        // Opened beneath its root, so that the folder stays the same whatever its path later leads
        // to.
        let opened = tokio::task::spawn_blocking(move || {
            let (root, inside) = files.place(&name)?;
            root.path_of(inside).map_err(|error| error.to_string())
        });
        let opened = opened.await.unwrap_or_else(|_| Err("a fault in the built-in tool".into()));
        let folder = match opened {
            Ok(folder) => folder,
            Err(why) => return Ok(Step::Done(Outcome::failed(&why))),
        };
        let answer = self.readers.run(Job::GIT_STATUS, &folder, ctx).await?;
        Ok(Step::Done(match answer {
            Ok(json) => Outcome::value(json),
            Err(why) => Outcome::failed(&why.replace("{}", &shown(path))),
        }))
    }
}

impl Executor for GitStatus {
    fn execute<'a>(
        &'a self,
        call: Granted<'a>,
        ctx: &'a Context<'a>,
    ) -> Boxed<'a, Result<Step, ExecuteError>> {
        let path = call.call().args.value();
        let path = path.get("repo_path").and_then(Value::as_str).unwrap_or(".").to_owned();
        Box::pin(async move { self.read(&path, ctx).await })
    }
}
