//! `git_status`: what was changed in a working copy.
//!
//! Read with gix, which starts no program here and reads no configuration from outside: filters and
//! file watchers that the repository itself configures are taken out first. A repository whose parts
//! lie elsewhere (`.git` as a file or link, alternates, another work tree) is refused, because they
//! would be read past the roots.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use gix::status::{Item, Submodule, UntrackedFiles};
use guard::roots::{Kind, Root, RootError};
use serde_json::{Value, json};
use tool::Json;

use crate::builtin::Builtin;
use crate::registry::Registry;
use crate::system::files::{Files, shown};
use crate::work::{Job, Work};

/// Paths of each kind that are told.
const MOST: usize = 1_000;
/// Parts of a repository that lead elsewhere where they are.
const ELSEWHERE: [&str; 4] =
    ["commondir", "objects/info/alternates", "objects/info/http-alternates", "config.worktree"];
/// Bytes of the repository's own configuration.
const CONFIG: usize = 256 << 10;

pub(crate) fn builtin(registry: &Registry, files: Arc<Files>) -> Option<Builtin> {
    Some(registry.get("git_status")?.long(GitStatus(files)))
}

#[derive(Debug)]
struct GitStatus(Arc<Files>);

impl Work for GitStatus {
    fn work(&self, job: &Job) -> Result<Json, String> {
        let asked = job.call.args.value().get("repo_path").and_then(Value::as_str).unwrap_or(".");
        let (root, inside) = self.0.place(asked)?;
        whole(root, inside, asked)?;
        let path = root.path_of(inside).map_err(|error| error.to_string())?;
        status(path.as_ref(), job).map(|told| Json::of(&told))
    }
}

/// That the repository is all in this folder.
fn whole(root: &Root, inside: &Path, asked: &str) -> Result<(), String> {
    let git = inside.join(".git");
    let none =
        || format!("`{}` is no working copy of git; give the folder that has `.git`", shown(asked));
    match root.stat(&git) {
        Ok(meta) if meta.kind == Kind::Folder => {}
        Ok(_) => {
            return Err(format!(
                "`{}` has its repository elsewhere, which is not read",
                shown(asked)
            ));
        }
        Err(_) => return Err(none()),
    }
    if ELSEWHERE.iter().any(|part| root.stat(git.join(part)).is_ok()) {
        return Err(format!(
            "`{}` uses parts of other repositories, which are not read",
            shown(asked)
        ));
    }
    for part in ["HEAD", "objects", "refs", "index"] {
        let link = root.stat(git.join(part)).is_ok_and(|meta| meta.kind == Kind::Link);
        if link {
            return Err(format!(
                "`{}` has links in its repository, which are not read",
                shown(asked)
            ));
        }
    }
    let config = match root.read(git.join("config"), CONFIG) {
        Ok(config) => String::from_utf8_lossy(&config).to_ascii_lowercase(),
        Err(RootError::NoSuch { .. }) => String::new(),
        Err(error) => return Err(error.to_string()),
    };
    let leads = |line: &str| {
        let key = line.trim_start().split(['=', ' ', '\t']).next().unwrap_or_default();
        matches!(key, "worktree" | "excludesfile" | "attributesfile" | "path")
            || line.contains("[include")
    };
    if config.lines().any(leads) {
        return Err(format!(
            "the configuration of `{}` leads elsewhere, which is not read",
            shown(asked)
        ));
    }
    Ok(())
}

fn told(error: impl std::fmt::Display) -> String {
    let text: String = error.to_string().chars().take(300).flat_map(char::escape_debug).collect();
    format!("the repository cannot be read: {text}")
}

fn status(path: &Path, job: &Job) -> Result<Value, String> {
    let options = gix::open::Options::isolated().open_path_as_is(false).strict_config(false);
    let mut repository = gix::open_opts(path, options).map_err(told)?;
    without_programs(&mut repository)?;
    let branch = repository.head_name().map_err(told)?;
    let branch = branch.map(|name| name.shorten().to_string());
    let stop = Arc::new(AtomicBool::new(false));
    let platform = repository.status(gix::progress::Discard).map_err(told)?;
    let items = platform
        .untracked_files(UntrackedFiles::Files)
        .index_worktree_submodules(Submodule::Given {
            ignore: gix::submodule::config::Ignore::All,
            check_dirty: false,
        })
        .index_worktree_rewrites(None)
        .tree_index_track_renames(gix::status::tree_index::TrackRenames::Disabled)
        .should_interrupt_owned(Arc::clone(&stop))
        .into_iter(None)
        .map_err(told)?;
    let (mut modified, mut staged, mut untracked) = (Vec::new(), Vec::new(), Vec::new());
    for item in items {
        let gone = job.step(1);
        if gone.is_err() {
            stop.store(true, Ordering::Relaxed);
        }
        gone?;
        let item = item.map_err(told)?;
        let path = item.location().to_string();
        let to = match &item {
            Item::TreeIndex(_) => &mut staged,
            Item::IndexWorktree(change) => match change.summary() {
                Some(gix::status::index_worktree::iter::Summary::Added) => &mut untracked,
                Some(_) => &mut modified,
                None => continue,
            },
        };
        to.push(path);
    }
    let mut truncated = false;
    for paths in [&mut modified, &mut staged, &mut untracked] {
        paths.sort_unstable();
        paths.dedup();
        truncated |= paths.len() > MOST;
        paths.truncate(MOST);
    }
    Ok(json!({
        "branch": branch.unwrap_or_else(|| "HEAD (detached)".to_owned()),
        "modified": modified,
        "staged": staged,
        "untracked": untracked,
        "truncated": truncated,
    }))
}

/// Takes out of the configuration what would start something.
fn without_programs(repository: &mut gix::Repository) -> Result<(), String> {
    let mut config = repository.config_snapshot_mut();
    for section in ["filter", "diff", "credential"] {
        let found = config.sections_and_ids_by_name(section);
        let ids: Vec<_> = found.into_iter().flatten().map(|(_, id)| id).collect();
        for id in ids {
            drop(config.remove_section_by_id(id));
        }
    }
    config.commit().map_err(told).map(drop)
}
