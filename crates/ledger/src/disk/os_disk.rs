//! The disk of this machine, through the standard library.

use std::fs::{self, DirBuilder, File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, FileExt as _, OpenOptionsExt as _};
use std::path::Path;
use std::sync::Arc;

use rustix::fs::{FallocateFlags, fallocate};
use rustix::io::Errno;

use super::{BootId, DirLock, Disk, DiskFile, OpenMode};

const MAX_NAMES: usize = 100_000;
/// File in which Linux identifies the current boot.
const BOOT_ID: &str = "/proc/sys/kernel/random/boot_id";

/// The file system of this machine. New files can be read by their owner only.
#[derive(Debug, Clone, Copy, Default)]
pub struct OsDisk;

#[derive(Debug)]
struct OsFile(File);

impl Disk for OsDisk {
    fn create_dir_all(&self, dir: &Path) -> io::Result<()> {
        if dir.is_dir() {
            return Ok(());
        }
        DirBuilder::new().recursive(true).mode(0o700).create(dir)?;
        // The parent directory holds the name of the new directory.
        match dir.parent().filter(|parent| !parent.as_os_str().is_empty()) {
            Some(parent) => self.sync_dir(parent),
            None => self.sync_dir(Path::new(".")),
        }
    }

    fn list_names(&self, dir: &Path) -> io::Result<Vec<String>> {
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

    fn open_file(&self, path: &Path, how: OpenMode) -> io::Result<Arc<dyn DiskFile>> {
        let mut options = OpenOptions::new();
        options.read(true).mode(0o600);
        match how {
            OpenMode::Read => {}
            OpenMode::Append => {
                options.append(true);
            }
            OpenMode::Update => {
                options.write(true);
            }
            OpenMode::Truncate => {
                options.append(true).create(true);
            }
        }
        let file = options.open(path)?;
        if how == OpenMode::Truncate {
            file.set_len(0)?;
        }
        Ok(Arc::new(OsFile(file)))
    }

    fn rename_file(&self, from: &Path, to: &Path) -> io::Result<()> {
        fs::rename(from, to)
    }

    fn remove_file(&self, path: &Path) -> io::Result<()> {
        fs::remove_file(path)
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        File::open(dir)?.sync_all()
    }

    fn lock_file(&self, path: &Path) -> io::Result<DirLock> {
        let file =
            OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(path)?;
        match file.try_lock() {
            Ok(()) => Ok(Box::new(file)),
            Err(TryLockError::WouldBlock) => Err(io::ErrorKind::WouldBlock.into()),
            Err(TryLockError::Error(error)) => Err(error),
        }
    }

    fn free_bytes(&self, dir: &Path) -> Option<u64> {
        let system = rustix::fs::statvfs(dir).ok()?;
        Some(system.f_bavail.saturating_mul(system.f_frsize))
    }

    fn boot_id(&self) -> Option<BootId> {
        let text = fs::read_to_string(BOOT_ID).ok()?;
        uuid::Uuid::try_parse(text.trim()).ok().map(uuid::Uuid::into_bytes)
    }
}

impl DiskFile for OsFile {
    fn append_bytes(&self, bytes: &[u8]) -> io::Result<usize> {
        io::Write::write(&mut &self.0, bytes)
    }

    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.0.write_all_at(bytes, offset)
    }

    fn read_at(&self, offset: u64, into: &mut [u8]) -> io::Result<usize> {
        self.0.read_at(into, offset)
    }

    fn file_size(&self) -> io::Result<u64> {
        Ok(self.0.metadata()?.len())
    }

    fn truncate_to(&self, size: u64) -> io::Result<()> {
        self.0.set_len(size)
    }

    fn sync_data(&self) -> io::Result<()> {
        self.0.sync_data()
    }

    fn allocate_range(&self, from: u64, to: u64) -> io::Result<bool> {
        let Some(length) = to.checked_sub(from).filter(|length| *length > 0) else {
            return Ok(true);
        };
        loop {
            match fallocate(&self.0, FallocateFlags::KEEP_SIZE, from, length) {
                Ok(()) => return Ok(true),
                Err(Errno::INTR) => {}
                Err(Errno::OPNOTSUPP | Errno::NOSYS) => return Ok(false),
                Err(error) => return Err(error.into()),
            }
        }
    }
}

#[cfg(test)]
mod tests;
