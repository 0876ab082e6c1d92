//! Archives that each caller opened last, by name. No file stays open.

use std::collections::VecDeque;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use rooted_fs::rooted_dir::RootedDir;
use tool::Caller;

use crate::system::file_roots::{FileRoots, escape_for_message};
use archive_reader::Archive;

/// Largest number of remembered archives of all callers; the oldest is forgotten first.
const MAX_RECENT_ARCHIVES: usize = 1_000;

/// File roots and the archives that were opened in them.
#[derive(Debug)]
pub(crate) struct RecentArchives {
    file_roots: Arc<FileRoots>,
    recent: Mutex<VecDeque<RecentArchive>>,
}

#[derive(Debug, PartialEq, Eq)]
struct RecentArchive {
    caller_key: CallerKey,
    path: String,
}

/// Caller that an opened archive belongs to.
#[derive(Debug, PartialEq, Eq)]
struct CallerKey {
    org: String,
    subject: String,
    key_id: String,
}

impl CallerKey {
    fn from_caller(caller: &Caller) -> Self {
        Self {
            org: caller.org.to_string(),
            subject: caller.subject.clone(),
            key_id: caller.key_id.clone(),
        }
    }
}

impl RecentArchives {
    pub(crate) fn new(file_roots: Arc<FileRoots>) -> Arc<Self> {
        Arc::new(Self { file_roots, recent: Mutex::default() })
    }

    /// Resolves a path to a root and the path within it.
    pub(super) fn resolve_path<'a>(
        &'a self,
        path: &'a str,
    ) -> Result<(&'a RootedDir, &'a Path), String> {
        self.file_roots.resolve_path(path)
    }

    /// Resolves a folder for writing; rejects one in which nothing can be written.
    pub(super) fn resolve_writable_path<'a>(
        &'a self,
        folder: &'a str,
    ) -> Result<(&'a RootedDir, &'a Path), String> {
        let (root, inside) = self.resolve_path(folder)?;
        // Checked with a name in it, because the folder may be the root itself.
        root.check_writable(inside.join("name")).map_err(|error| error.to_string())?;
        Ok((root, inside))
    }

    /// Opens the archive at `path`, and remembers it if `opened_by` is given.
    pub(super) fn open_archive(
        &self,
        path: &str,
        opened_by: Option<&Caller>,
    ) -> Result<Archive, String> {
        let (root, inside) = self.resolve_path(path)?;
        let archive = Archive::open(root, inside)
            .map_err(|error| format!("{}: {error}", escape_for_message(path)))?;
        if let Some(caller) = opened_by {
            let caller_key = CallerKey::from_caller(caller);
            let opened = RecentArchive { caller_key, path: path.to_owned() };
            let mut all = self.recent.lock().unwrap_or_else(PoisonError::into_inner);
            all.retain(|known| *known != opened);
            all.push_back(opened);
            if all.len() > MAX_RECENT_ARCHIVES {
                all.pop_front();
            }
        }
        Ok(archive)
    }

    /// Resolves an archive name to a path: the archive opened last, the one opened under this name,
    /// or the path itself.
    pub(super) fn resolve_name(
        &self,
        name: Option<&str>,
        caller: &Caller,
    ) -> Result<String, String> {
        let caller_key = CallerKey::from_caller(caller);
        let all = self.recent.lock().unwrap_or_else(PoisonError::into_inner);
        let own = all.iter().rev().filter(|opened| opened.caller_key == caller_key);
        let mut own = own.map(|it| &it.path);
        match name {
            None => own.next().cloned().ok_or_else(|| {
                "no archive is open; call archive_open, or give a path as `archive_name`".to_owned()
            }),
            Some(name) => {
                let last = |path: &&String| path.rsplit('/').next() == Some(name);
                Ok(own.find(last).map_or_else(|| name.to_owned(), Clone::clone))
            }
        }
    }
}
