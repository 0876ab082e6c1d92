//! The disk of this machine, through the standard library.

use std::fs::{self, DirBuilder, File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, FileExt as _, OpenOptionsExt as _};
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustix::fs::{FallocateFlags, fallocate};
use rustix::io::Errno;

use super::tail::Tail;
use super::{Disk, DiskFile, Held, Open};

const MAX_NAMES: usize = 100_000;

/// The file system of this machine. New files can be read by their owner only.
#[derive(Debug, Clone, Copy, Default)]
pub struct RealDisk;

#[derive(Debug)]
struct RealFile {
    file: Arc<File>,
    /// Of a file that is written from nothing. Others are as long as the system says.
    tail: Option<Mutex<Tail>>,
}

impl RealFile {
    fn tail(&self) -> Option<MutexGuard<'_, Tail>> {
        Some(self.tail.as_ref()?.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Disk for RealDisk {
    fn make_dir(&self, dir: &Path) -> io::Result<()> {
        if dir.is_dir() {
            return Ok(());
        }
        DirBuilder::new().recursive(true).mode(0o700).create(dir)?;
        // The name of the new directory stands in its parent.
        match dir.parent().filter(|parent| !parent.as_os_str().is_empty()) {
            Some(parent) => self.sync_dir(parent),
            None => self.sync_dir(Path::new(".")),
        }
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in fs::read_dir(dir)? {
            if let Ok(name) = entry?.file_name().into_string() {
                names.push(name);
            }
            if names.len() > MAX_NAMES {
                return Err(io::Error::other(format!("more than {MAX_NAMES} files")));
            }
        }
        Ok(names)
    }

    fn open(&self, path: &Path, how: Open) -> io::Result<Arc<dyn DiskFile>> {
        let mut options = OpenOptions::new();
        options.read(true).mode(0o600);
        match how {
            Open::Read => {}
            Open::Append => {
                options.append(true);
            }
            Open::New => {
                options.write(true).create(true).truncate(true);
            }
        }
        let file = Arc::new(options.open(path)?);
        let tail = (how == Open::New).then(|| Mutex::new(Tail::new(&file)));
        Ok(Arc::new(RealFile { file, tail }))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        fs::rename(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        fs::remove_file(path)
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        File::open(dir)?.sync_all()
    }

    fn lock(&self, path: &Path) -> io::Result<Held> {
        let file =
            OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(path)?;
        match file.try_lock() {
            Ok(()) => Ok(Box::new(file)),
            Err(TryLockError::WouldBlock) => Err(io::ErrorKind::WouldBlock.into()),
            Err(TryLockError::Error(error)) => Err(error),
        }
    }
}

impl DiskFile for RealFile {
    fn append(&self, bytes: &[u8]) -> io::Result<usize> {
        match self.tail() {
            Some(mut tail) => tail.append(&self.file, bytes),
            None => io::Write::write(&mut &*self.file, bytes),
        }
    }

    fn read_at(&self, offset: u64, into: &mut [u8]) -> io::Result<usize> {
        let left = self.size()?.saturating_sub(offset);
        let most = usize::try_from(left).unwrap_or(usize::MAX).min(into.len());
        self.file.read_at(into.get_mut(..most).unwrap_or_default(), offset)
    }

    fn size(&self) -> io::Result<u64> {
        match self.tail() {
            Some(tail) => Ok(tail.end()),
            None => Ok(self.file.metadata()?.len()),
        }
    }

    fn truncate(&self, size: u64) -> io::Result<()> {
        match self.tail() {
            Some(mut tail) => tail.cut(&self.file, size),
            None => self.file.set_len(size),
        }
    }

    fn sync(&self) -> io::Result<()> {
        let window = self.tail().and_then(|mut tail| tail.rest());
        // Here, where nobody waits for it.
        drop(window);
        self.file.sync_data()
    }

    fn reserve(&self, from: u64, to: u64) -> io::Result<bool> {
        let Some(length) = to.checked_sub(from).filter(|length| *length > 0) else {
            return Ok(true);
        };
        let before = self.tail().map(|tail| tail.cuts());
        loop {
            match fallocate(&self.file, FallocateFlags::KEEP_SIZE, from, length) {
                Ok(()) => break,
                Err(Errno::INTR) => {}
                Err(Errno::OPNOTSUPP | Errno::NOSYS) => return Ok(false),
                Err(error) => return Err(error.into()),
            }
        }
        if let (Some(mut tail), Some(before)) = (self.tail(), before) {
            tail.reserved((from, to), before);
        }
        Ok(true)
    }
}

#[cfg(test)]
mod tests;
