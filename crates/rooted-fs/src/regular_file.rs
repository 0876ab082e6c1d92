//! Regular files that the operator names: configuration, secrets, keys, tool files, models.
//!
//! Opening a FIFO blocks until its other end opens, and a device may do anything. Both are rejected
//! without blocking. Links are followed, because mounted secrets are links. For paths of callers
//! use [`rooted_dir`](crate::rooted_dir).

use std::fs::File;
use std::io::{self, Read as _};
use std::path::Path;

use rustix::fs::{FileType, Mode, OFlags};

/// Open flags: do not block on a FIFO, and do not acquire a terminal.
const READ_FLAGS: OFlags =
    OFlags::RDONLY.union(OFlags::NONBLOCK).union(OFlags::CLOEXEC).union(OFlags::NOCTTY);

/// Opens the regular file at `path` for reading. Does not wait.
///
/// # Errors
/// The error of the system; [`io::ErrorKind::IsADirectory`] for a folder, and
/// [`io::ErrorKind::InvalidInput`] for any other non-regular file.
pub fn open_regular(path: impl AsRef<Path>) -> io::Result<File> {
    let file = rustix::fs::open(path.as_ref(), READ_FLAGS, Mode::empty())?;
    match FileType::from_raw_mode(rustix::fs::fstat(&file)?.st_mode) {
        FileType::RegularFile => Ok(file.into()),
        FileType::Directory => {
            Err(io::Error::new(io::ErrorKind::IsADirectory, "it is a folder; name a file"))
        }
        _ => Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            "it is not a regular file; pipes, sockets and devices are not supported",
        )),
    }
}

/// Reads the regular file at `path`.
///
/// # Errors
/// As [`open_regular`]; [`io::ErrorKind::FileTooLarge`] if it has more than `limit` bytes, whatever size
/// the system reports.
pub fn read_bytes(path: impl AsRef<Path>, limit: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    open_regular(path)?.take(limit.saturating_add(1)).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > limit {
        let told = format!("it is larger than {limit} bytes");
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, told));
    }
    Ok(bytes)
}

/// Reads a regular file as UTF-8 text.
///
/// # Errors
/// As [`read_bytes`]; [`io::ErrorKind::InvalidData`] if it is not UTF-8.
pub fn read_text(path: impl AsRef<Path>, limit: u64) -> io::Result<String> {
    String::from_utf8(read_bytes(path, limit)?)
        .map_err(|_| io::Error::new(io::ErrorKind::InvalidData, "it is not UTF-8"))
}

#[cfg(test)]
mod tests {
    use std::io::ErrorKind;
    use std::sync::mpsc;
    use std::time::Duration;

    use rustix::io::Errno;

    use super::*;

    fn fifo(folder: &Path) -> std::path::PathBuf {
        let path = folder.join("fifo");
        rustix::fs::mkfifoat(rustix::fs::CWD, &path, Mode::from_raw_mode(0o600)).unwrap();
        path
    }

    /// What `open` answers on a thread of its own; nothing where it waits.
    fn opened<T: Send + 'static>(
        path: &Path,
        open: impl FnOnce(&Path) -> T + Send + 'static,
    ) -> (mpsc::Receiver<T>, std::thread::JoinHandle<()>) {
        let (sender, receiver) = mpsc::channel();
        let path = path.to_owned();
        let thread = std::thread::spawn(move || sender.send(open(&path)).unwrap());
        (receiver, thread)
    }

    #[test]
    fn a_fifo_is_refused_at_once() {
        let folder = tempfile::tempdir().unwrap();
        let path = fifo(folder.path());
        let (answer, thread) = opened(&path, |path| read_bytes(path, 10));
        let error = answer.recv_timeout(Duration::from_secs(30)).unwrap().unwrap_err();
        thread.join().unwrap();
        assert_eq!(error.kind(), ErrorKind::InvalidInput);
        assert!(error.to_string().contains("not a regular file"), "{error}");

        // The usual way waits: only then does a writer that waits for nobody find a reader.
        let (answer, thread) = opened(&path, |path| File::open(path).is_ok());
        let writer = || {
            let flags = OFlags::WRONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
            rustix::fs::open(&path, flags, Mode::empty())
        };
        assert!(answer.try_recv().is_err());
        let found = loop {
            match writer() {
                Err(Errno::NXIO) => std::thread::yield_now(),
                found => break found,
            }
        };
        assert!(found.is_ok() && answer.recv().unwrap());
        thread.join().unwrap();
    }

    #[test]
    fn regular_files_are_read_to_their_bound_also_by_links() {
        let folder = tempfile::tempdir().unwrap();
        let (file, link) = (folder.path().join("file"), folder.path().join("link"));
        std::fs::write(&file, "twelve bytes").unwrap();
        std::os::unix::fs::symlink(&file, &link).unwrap();
        assert_eq!(read_text(&link, 12).unwrap(), "twelve bytes");
        assert_eq!(read_bytes(&file, 11).unwrap_err().kind(), ErrorKind::FileTooLarge);
        std::fs::write(&file, [0xff]).unwrap();
        assert_eq!(read_text(&file, 12).unwrap_err().kind(), ErrorKind::InvalidData);
        assert_eq!(read_bytes(folder.path(), 12).unwrap_err().kind(), ErrorKind::IsADirectory);
        assert_eq!(
            read_bytes(folder.path().join("none"), 1).unwrap_err().kind(),
            ErrorKind::NotFound
        );
        assert_eq!(read_bytes("/dev/zero", 1).unwrap_err().kind(), ErrorKind::InvalidInput);
    }
}
