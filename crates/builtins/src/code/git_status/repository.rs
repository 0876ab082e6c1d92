//! Reads the Git status of the current directory, in a worker that sees nothing else.
//!
//! gix starts no program here and reads no configuration from outside. References to other
//! locations are rejected before the repository is opened, with gix's own configuration parser, so
//! that no value is interpreted in two ways. Only regular files are opened, because a FIFO would
//! block until the worker is ended.

use std::fs::{self, FileType};
use std::io::{self, ErrorKind};
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use gix::config::file::Metadata;
use gix::status::index_worktree::iter::Summary;
use gix::status::{Item, Submodule, UntrackedFiles};
use serde_json::{Value, json};
use tool::display_text::truncate_and_escape_debug;

/// Largest number of reported paths of each kind.
const MAX_PATHS: usize = 1_000;
/// Largest repository configuration, in bytes.
const MAX_CONFIG_BYTES: u64 = 256 << 10;
/// Largest folder depth, in the repository and in the working copy.
const MAX_DEPTH: usize = 256;
/// Repository files whose presence refers to other locations.
const EXTERNAL_PARTS: [&str; 4] =
    ["commondir", "objects/info/alternates", "objects/info/http-alternates", "config.worktree"];
/// Files in `.git` that are read.
const FILES: [&str; 5] = ["HEAD", "config", "index", "packed-refs", "shallow"];
/// Folders in `.git` that are read, with all in them.
const FOLDERS: [&str; 3] = ["refs", "objects", "info"];
/// Files anywhere in the working copy that are read as settings.
const SETTINGS: [&str; 3] = [".gitattributes", ".gitignore", ".gitmodules"];
/// Keys of `core` that refer to locations outside.
const EXTERNAL_PATH_KEYS: [&str; 3] = ["worktree", "excludesfile", "attributesfile"];
/// Keys of `core` that name programs; none is started.
const PROGRAM_KEYS: [&str; 2] = ["fsmonitor", "hookspath"];

/// Returns the branch and the modified, staged and untracked paths as JSON.
///
/// # Errors
/// A message for the model; `{}` stands for the folder.
pub(crate) fn repository_status() -> Result<Vec<u8>, String> {
    check_layout(Path::new(".git"))?;
    check_config(Path::new(".git/config"))?;
    check_settings_files(Path::new("."), 0)?;
    let options = gix::open::Options::isolated().open_path_as_is(true).strict_config(false);
    let mut repository = gix::open_opts(".git", options).map_err(repository_error)?;
    remove_external_programs(&mut repository)?;
    let same = |path: &Path| -> io::Result<bool> {
        let (here, there) = (fs::metadata(".")?, fs::metadata(path)?);
        Ok((here.dev(), here.ino()) == (there.dev(), there.ino()))
    };
    if !repository.workdir().is_some_and(|path| same(path).unwrap_or(false)) {
        return Err("the working copy of `{}` is in another folder, which is not \
            allowed"
            .to_owned());
    }
    let told = collect_changes(&repository)?;
    serde_json::to_vec(&told).map_err(repository_error)
}

fn repository_error(error: impl std::fmt::Display) -> String {
    let text = truncate_and_escape_debug(&error.to_string(), 300);
    format!("the repository cannot be read: {text}")
}

/// Returns the file type at `path` without following links; `None` if nothing exists.
fn file_kind(path: &Path) -> Result<Option<FileType>, String> {
    match fs::symlink_metadata(path) {
        Ok(meta) => Ok(Some(meta.file_type())),
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {
            Ok(None)
        }
        Err(error) => Err(repository_error(error)),
    }
}

/// Checks that everything which is read of the repository is a regular file in this folder.
fn check_layout(git: &Path) -> Result<(), String> {
    match file_kind(git)? {
        None => {
            return Err(
                "`{}` is no working copy of git; give the folder that has `.git`".to_owned()
            );
        }
        Some(kind) if kind.is_dir() => {}
        Some(_) => {
            return Err("`{}` has its repository in another folder, which is not \
            allowed"
                .to_owned());
        }
    }
    for part in EXTERNAL_PARTS {
        if file_kind(&git.join(part))?.is_some() {
            return Err("`{}` uses parts of other repositories, which is not allowed".to_owned());
        }
    }
    for entry in list_folder(git)? {
        let (name, kind) = entry?;
        if FILES.contains(&&*name) || name.starts_with("sharedindex.") {
            require_regular(kind, &git.join(&name))?;
        } else if FOLDERS.contains(&&*name) {
            if !kind.is_dir() {
                return Err(not_regular_error(&git.join(&name)));
            }
            require_regular_below(&git.join(&name), 0)?;
        }
    }
    Ok(())
}

type DirEntryResult = Result<(String, FileType), String>;

/// Lists the entries of a folder with their types, without following links.
fn list_folder(folder: &Path) -> Result<impl Iterator<Item = DirEntryResult>, String> {
    let named = |entry: io::Result<fs::DirEntry>| {
        let entry = entry.map_err(repository_error)?;
        let kind = entry.file_type().map_err(repository_error)?;
        Ok((entry.file_name().to_string_lossy().into_owned(), kind))
    };
    Ok(fs::read_dir(folder).map_err(repository_error)?.map(named))
}

fn not_regular_error(path: &Path) -> String {
    let path = truncate_and_escape_debug(&path.to_string_lossy(), 200);
    format!("`{{}}` has `{path}`, which is a link or not a regular file, and is not allowed")
}

fn require_regular(kind: FileType, path: &Path) -> Result<(), String> {
    if kind.is_file() { Ok(()) } else { Err(not_regular_error(path)) }
}

fn check_depth(depth: usize) -> Result<(), String> {
    let told = "`{}` has folders that are nested too deeply".to_owned();
    if depth > MAX_DEPTH { Err(told) } else { Ok(()) }
}

/// Checks that a folder contains only folders and regular files, recursively.
fn require_regular_below(folder: &Path, depth: usize) -> Result<(), String> {
    check_depth(depth)?;
    for entry in list_folder(folder)? {
        let (name, kind) = entry?;
        let path = folder.join(name);
        if kind.is_dir() {
            require_regular_below(&path, depth + 1)?;
        } else {
            require_regular(kind, &path)?;
        }
    }
    Ok(())
}

/// Checks that settings files of the working copy are regular files, recursively.
fn check_settings_files(folder: &Path, depth: usize) -> Result<(), String> {
    check_depth(depth)?;
    for entry in list_folder(folder)? {
        let (name, kind) = entry?;
        if SETTINGS.contains(&&*name) {
            require_regular(kind, &folder.join(name))?;
        } else if kind.is_dir() && name != ".git" {
            check_settings_files(&folder.join(name), depth + 1)?;
        }
    }
    Ok(())
}

/// Checks that the repository's configuration refers to no other location.
fn check_config(path: &Path) -> Result<(), String> {
    let bytes = match rooted_fs::regular_file::read_bytes(path, MAX_CONFIG_BYTES) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        read => read.map_err(repository_error)?,
    };
    let meta = Metadata::from(gix::config::Source::Local);
    let config = gix::config::File::from_bytes_no_includes(
        &bytes,
        meta,
        gix::config::file::init::Options::default(),
    );
    for section in config.map_err(repository_error)?.sections() {
        let name = section.header().name().to_string().to_ascii_lowercase();
        let leads = |key: String| {
            EXTERNAL_PATH_KEYS.iter().any(|leading| key.eq_ignore_ascii_case(leading))
        };
        if matches!(&*name, "include" | "includeif")
            || (name == "core" && section.value_names().any(leads))
        {
            return Err(
                "the configuration of `{}` refers to other files or folders, which is not \
                allowed"
                    .to_owned(),
            );
        }
    }
    Ok(())
}

/// Removes configuration that would start programs.
fn remove_external_programs(repository: &mut gix::Repository) -> Result<(), String> {
    let mut config = repository.config_snapshot_mut();
    for section in ["filter", "diff", "credential"] {
        let found = config.sections_and_ids_by_name(section);
        let ids: Vec<_> = found.into_iter().flatten().map(|(_, id)| id).collect();
        for id in ids {
            drop(config.remove_section_by_id(id));
        }
    }
    let found = config.sections_and_ids_by_name("core");
    let ids: Vec<_> = found.into_iter().flatten().map(|(_, id)| id).collect();
    for id in ids {
        let Some(mut core) = config.section_mut_by_id(id) else { continue };
        for key in PROGRAM_KEYS {
            while core.remove(key).is_some() {}
        }
    }
    config.commit().map_err(repository_error).map(drop)
}

fn collect_changes(repository: &gix::Repository) -> Result<Value, String> {
    let branch = repository.head_name().map_err(repository_error)?;
    let branch = branch.map(|name| name.shorten().to_string());
    let platform = repository.status(gix::progress::Discard).map_err(repository_error)?;
    let items = platform
        .untracked_files(UntrackedFiles::Files)
        .index_worktree_submodules(Submodule::Given {
            ignore: gix::submodule::config::Ignore::All,
            check_dirty: false,
        })
        .index_worktree_rewrites(None)
        .index_worktree_options_mut(|options| options.thread_limit = Some(1))
        .tree_index_track_renames(gix::status::tree_index::TrackRenames::Disabled)
        .into_iter(None)
        .map_err(repository_error)?;
    let (mut modified, mut staged, mut untracked) = (Vec::new(), Vec::new(), Vec::new());
    for item in items {
        let item = item.map_err(repository_error)?;
        let path = item.location().to_string();
        let to = match &item {
            Item::TreeIndex(_) => &mut staged,
            Item::IndexWorktree(change) => match change.summary() {
                Some(Summary::Added) => &mut untracked,
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
        truncated |= paths.len() > MAX_PATHS;
        paths.truncate(MAX_PATHS);
    }
    Ok(json!({
        "branch": branch.unwrap_or_else(|| "HEAD (detached)".to_owned()),
        "modified": modified,
        "staged": staged,
        "untracked": untracked,
        "truncated": truncated,
    }))
}
