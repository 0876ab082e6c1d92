//! The folders that the built-in file tools use.
//!
//! What the configuration names, else what the policy allows, else `work` in the data directory. What the
//! server itself keeps is in none of them, also where a folder that was named holds it.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use builtins::Files;
use rooted_fs::roots::{Access, Root};
use tool::Scope;

use config::Config;

/// What the server keeps for itself.
pub(crate) struct Own {
    /// The data directory.
    pub(crate) data: PathBuf,
    /// The folder in it that is made for tools.
    pub(crate) work: PathBuf,
}

/// One folder as it was asked for.
struct Asked {
    path: PathBuf,
    access: Access,
    protect: Vec<String>,
}

/// A folder that cannot be used is left out, and the log says why. Where none is left, the file tools are
/// not offered.
pub(crate) fn of(config: &Config, own: &Own) -> Option<Arc<Files>> {
    let mut asked: Vec<_> = config
        .builtins
        .roots
        .iter()
        .map(|folder| Asked {
            path: folder.path.clone(),
            access: if folder.write { Access::ReadWrite } else { Access::Read },
            protect: folder.protect.clone(),
        })
        .collect();
    if asked.is_empty() {
        let rule = config.policy.rules().scopes.get(&Scope::Filesystem);
        let paths = rule.and_then(|rule| rule.allowed_paths.clone()).unwrap_or_default();
        let folder = |path: String| Asked {
            path: PathBuf::from(path),
            access: Access::ReadWrite,
            protect: Vec::new(),
        };
        asked = paths.into_iter().map(folder).collect();
    }
    if asked.is_empty() {
        if let Err(error) = std::fs::create_dir_all(&own.work) {
            tracing::warn!(folder = %own.work.display(), %error, "no tools for files are offered");
            return None;
        }
        let access = Access::ReadWrite;
        asked.push(Asked { path: own.work.clone(), access, protect: Vec::new() });
    }
    let opened = |asked: Asked| match open(&asked, config, own) {
        Ok(root) => Some(root),
        Err(error) => {
            tracing::warn!(folder = %asked.path.display(), %error, "tools cannot use a folder");
            None
        }
    };
    let roots: Vec<_> = asked.into_iter().filter_map(opened).collect();
    (!roots.is_empty()).then(|| Arc::new(Files::new(roots)))
}

fn open(asked: &Asked, config: &Config, own: &Own) -> Result<(PathBuf, Root), String> {
    let told = |error: &dyn std::fmt::Display| error.to_string();
    let path = asked.path.canonicalize().map_err(|error| told(&error))?;
    let (data, work) = (whole(&own.data), whole(&own.work));
    if path.starts_with(&data) && !path.starts_with(&work) {
        return Err("it is the server's own".to_owned());
    }
    let root = Root::open(&path, asked.access).map_err(|error| told(&error))?;
    let mut root = root.through_links();
    let kept = [Some(data), config.file.as_deref().map(whole)].into_iter().flatten();
    let kept = kept.filter_map(|kept| kept.strip_prefix(&path).ok().map(Path::to_owned));
    for kept in kept.filter(|kept| !kept.as_os_str().is_empty()) {
        root = root.protect(&kept).map_err(|error| told(&error))?;
    }
    for below in &asked.protect {
        // Nothing is open of which something that should be closed cannot be found.
        root = root.protect(below).map_err(|error| format!("to be protected: {error}"))?;
    }
    Ok((path, root))
}

fn whole(path: &Path) -> PathBuf {
    path.canonicalize().unwrap_or_else(|_| path.to_owned())
}

/// Where commands work: the folder made for tools, whatever others the file tools may use. Where it
/// cannot be made, commands are not offered.
pub(crate) fn place(own: &Own) -> Option<PathBuf> {
    std::fs::create_dir_all(&own.work).and_then(|()| own.work.canonicalize()).ok()
}
