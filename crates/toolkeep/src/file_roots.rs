//! The folders that the built-in file tools may use.
//!
//! These are the folders of the configuration, else those of the policy, else `work` in the data
//! directory. The server's own files are excluded even if a named folder contains them.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use builtins::FileRoots;
use rooted_fs::rooted_dir::{AccessMode, RootedDir};
use tool::AccessScope;

use config::Config;

/// The data directory and its working folder for tools.
pub(crate) struct ServerPaths {
    /// The data directory.
    pub(crate) data_dir: PathBuf,
    /// The working folder for tools in the data directory.
    pub(crate) work_dir: PathBuf,
}

/// A folder as the configuration or the policy requests it.
struct RequestedRoot {
    path: PathBuf,
    access: AccessMode,
    protected_paths: Vec<String>,
}

/// Opens the folders of the file tools. An unusable folder is skipped with a warning; without any
/// folder, the file tools are not offered.
pub(crate) fn open_file_roots(
    config: &Config,
    server_paths: &ServerPaths,
) -> Option<Arc<FileRoots>> {
    let mut requested: Vec<_> = config
        .builtins
        .file_roots
        .iter()
        .map(|folder| RequestedRoot {
            path: folder.path.clone(),
            access: if folder.is_writable { AccessMode::ReadWrite } else { AccessMode::ReadOnly },
            protected_paths: folder.protected_paths.clone(),
        })
        .collect();
    if requested.is_empty() {
        let rule = config.policy.document().scopes.get(&AccessScope::Filesystem);
        let paths = rule.and_then(|rule| rule.allowed_paths.clone()).unwrap_or_default();
        let folder = |path: String| RequestedRoot {
            path: PathBuf::from(path),
            access: AccessMode::ReadWrite,
            protected_paths: Vec::new(),
        };
        requested = paths.into_iter().map(folder).collect();
    }
    if requested.is_empty() {
        if let Err(error) = std::fs::create_dir_all(&server_paths.work_dir) {
            tracing::warn!(folder = %server_paths.work_dir.display(), %error, "cannot create the working folder; file tools are disabled");
            return None;
        }
        let access = AccessMode::ReadWrite;
        requested.push(RequestedRoot {
            path: server_paths.work_dir.clone(),
            access,
            protected_paths: Vec::new(),
        });
    }
    let opened = |asked: RequestedRoot| match open_root(&asked, config, server_paths) {
        Ok(root) => Some(root),
        Err(error) => {
            tracing::warn!(folder = %asked.path.display(), %error, "folder skipped: file tools cannot use it");
            None
        }
    };
    let roots: Vec<_> = requested.into_iter().filter_map(opened).collect();
    (!roots.is_empty()).then(|| Arc::new(FileRoots::new(roots)))
}

fn open_root(
    requested: &RequestedRoot,
    config: &Config,
    dirs: &ServerPaths,
) -> Result<(PathBuf, RootedDir), String> {
    let told = |error: &dyn std::fmt::Display| error.to_string();
    let path = requested.path.canonicalize().map_err(|error| told(&error))?;
    let (data, work) = (canonicalize_or_keep(&dirs.data_dir), canonicalize_or_keep(&dirs.work_dir));
    if path.starts_with(&data) && !path.starts_with(&work) {
        return Err("it is inside the server's data directory".to_owned());
    }
    let root = RootedDir::open_root(&path, requested.access).map_err(|error| told(&error))?;
    let mut root = root.follow_dir_symlinks();
    let kept = [Some(data), config.file.as_deref().map(canonicalize_or_keep)].into_iter().flatten();
    let kept = kept.filter_map(|kept| kept.strip_prefix(&path).ok().map(Path::to_owned));
    for kept in kept.filter(|kept| !kept.as_os_str().is_empty()) {
        root = root.hide_path(&kept).map_err(|error| told(&error))?;
    }
    for below in &requested.protected_paths {
        // A root is refused if one of its protected paths does not exist.
        root = root.hide_path(below).map_err(|error| format!("protected path: {error}"))?;
    }
    Ok((path, root))
}

fn canonicalize_or_keep(path: &Path) -> PathBuf {
    path.canonicalize().unwrap_or_else(|_| path.to_owned())
}

/// Creates the working folder of commands, independent of the file tools' folders. Returns `None`
/// if that fails; commands are then not offered.
pub(crate) fn create_work_dir(server_paths: &ServerPaths) -> Option<PathBuf> {
    std::fs::create_dir_all(&server_paths.work_dir)
        .and_then(|()| server_paths.work_dir.canonicalize())
        .ok()
}
