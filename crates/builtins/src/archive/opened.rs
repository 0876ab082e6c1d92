//! Archives that each caller opened last, by name. No file stays open.

use std::collections::VecDeque;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use rooted_fs::roots::Root;
use tool::Caller;

use crate::system::files::{Files, shown};
use archive_reader::Archive;

/// Largest number of remembered archives of all callers; the oldest is forgotten first.
const MOST: usize = 1_000;

/// File roots and the archives that were opened in them.
#[derive(Debug)]
pub(crate) struct Archives {
    files: Arc<Files>,
    opened: Mutex<VecDeque<Opened>>,
}

#[derive(Debug, PartialEq, Eq)]
struct Opened {
    who: (String, String, String),
    path: String,
}

fn who(caller: &Caller) -> (String, String, String) {
    (caller.org.to_string(), caller.subject.clone(), caller.key.clone())
}

impl Archives {
    pub(crate) fn new(files: Arc<Files>) -> Arc<Self> {
        Arc::new(Self { files, opened: Mutex::default() })
    }

    /// Resolves a path to a root and the path within it.
    pub(super) fn place<'a>(&'a self, path: &'a str) -> Result<(&'a Root, &'a Path), String> {
        self.files.place(path)
    }

    /// Resolves a folder for writing; rejects one in which nothing can be written.
    pub(super) fn place_to_change<'a>(
        &'a self,
        folder: &'a str,
    ) -> Result<(&'a Root, &'a Path), String> {
        let (root, inside) = self.place(folder)?;
        // Checked with a name in it, because the folder may be the root itself.
        root.check_change(inside.join("name")).map_err(|error| error.to_string())?;
        Ok((root, inside))
    }

    /// Opens the archive at `path`, and remembers it if `by` is given.
    pub(super) fn open(&self, path: &str, by: Option<&Caller>) -> Result<Archive, String> {
        let (root, inside) = self.place(path)?;
        let archive =
            Archive::open(root, inside).map_err(|error| format!("{}: {error}", shown(path)))?;
        if let Some(caller) = by {
            let opened = Opened { who: who(caller), path: path.to_owned() };
            let mut all = self.opened.lock().unwrap_or_else(PoisonError::into_inner);
            all.retain(|known| *known != opened);
            all.push_back(opened);
            if all.len() > MOST {
                all.pop_front();
            }
        }
        Ok(archive)
    }

    /// Resolves an archive name to a path: the archive opened last, the one opened under this name,
    /// or the path itself.
    pub(super) fn meant(&self, name: Option<&str>, caller: &Caller) -> Result<String, String> {
        let who = who(caller);
        let all = self.opened.lock().unwrap_or_else(PoisonError::into_inner);
        let mut own = all.iter().rev().filter(|opened| opened.who == who).map(|it| &it.path);
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
