//! A file of fixed size as memory of this process.
//!
//! A store into a page of a file cannot fail with an error, it ends the process. So it is done only where
//! nothing is left to fail: in blocks that `fallocate` has given to the file already, on file systems that
//! write them in place.

use std::fs::File;
use std::io;
use std::sync::Arc;

use rustix::fs::{FallocateFlags, fallocate, fstatfs};
use rustix::io::Errno;
use vm_memory::{Bytes as _, FileOffset, MmapRegion, VolatileMemory as _};

use super::Shared;

/// File systems that give blocks at `fallocate` and write them where they are: ext2 to ext4, XFS, tmpfs.
const IN_PLACE: [u64; 3] = [0xef53, 0x5846_5342, 0x0102_1994];

/// Whether memory may be shared with files of this one's system.
pub(super) fn is_in_place(file: &File) -> bool {
    let in_place = |kind| u64::try_from(kind).is_ok_and(|kind| IN_PLACE.contains(&kind));
    fstatfs(file).is_ok_and(|system| in_place(system.f_type))
}

/// Sets blocks aside for the bytes `from` to `to`. `false` where the file system cannot do that.
pub(super) fn set_aside(
    file: &File,
    flags: FallocateFlags,
    (from, to): (u64, u64),
) -> io::Result<bool> {
    let Some(length) = to.checked_sub(from).filter(|length| *length > 0) else {
        return Ok(true);
    };
    loop {
        match fallocate(file, flags, from, length) {
            Ok(()) => return Ok(true),
            Err(Errno::INTR) => {}
            Err(Errno::OPNOTSUPP | Errno::NOSYS) => return Ok(false),
            Err(error) => return Err(error.into()),
        }
    }
}

/// The memory that a file is.
#[derive(Debug)]
pub(super) struct Mapped(MmapRegion<()>);

impl Mapped {
    /// The first `bytes` of `file`, which is empty. `None` where no blocks can be set aside.
    pub(super) fn of(file: File, bytes: usize) -> io::Result<Option<Self>> {
        if !set_aside(&file, FallocateFlags::empty(), (0, bytes as u64))? {
            return Ok(None);
        }
        let place = FileOffset::from_arc(Arc::new(file), 0);
        MmapRegion::from_file(place, bytes)
            .map(|memory| Some(Self(memory)))
            .map_err(io::Error::other)
    }
}

impl Shared for Mapped {
    fn put(&self, at: usize, bytes: &[u8]) -> bool {
        // It would put what fits.
        let fits = at.checked_add(bytes.len()).is_some_and(|end| end <= self.0.size());
        fits && self.0.as_volatile_slice().write_slice(bytes, at).is_ok()
    }
}
