//! The root file system of a full sandbox: read-only system folders, a few devices, private
//! `/proc`, `/etc` and `/tmp`, and the working folder under its own path.
//!
//! Sources are taken as handles before anything is covered, so no path is looked up twice.

use std::ffi::CString;
use std::fs;
use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::CWD;
use rustix::mount::{
    MountFlags, MountPropagationFlags, MoveMountFlags, OpenTreeFlags, UnmountFlags,
};

use super::{Cage, sys};

/// Where the system's programs and libraries are. What is a link outside is the same link inside.
pub(super) const SYSTEM: [&str; 7] =
    ["/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32"];
/// The devices under `/dev`.
pub(super) const DEVICES: [&str; 5] = ["null", "zero", "full", "random", "urandom"];
/// What programs look up that is of the machine and tells nothing of it.
const SETTINGS: [&str; 2] = ["/etc/ld.so.cache", "/etc/alternatives"];
/// Any folder will do to build in; the first that is there.
const SITES: [&str; 4] = ["/tmp", "/mnt", "/run", "/var"];

pub(super) const FIXED: u64 = libc::MOUNT_ATTR_RDONLY | libc::MOUNT_ATTR_NOSUID;
const WRITTEN: u64 = libc::MOUNT_ATTR_NOSUID | libc::MOUNT_ATTR_NODEV | libc::MOUNT_ATTR_NOEXEC;

/// Users that programs ask for: the one there is.
const FILES: [(&str, &str); 3] = [
    ("etc/passwd", "tool:x:1000:1000:tool:/tmp:/bin/sh\n"),
    ("etc/group", "tool:x:1000:\n"),
    ("etc/hosts", "127.0.0.1 localhost\n"),
];
const LINKS: [(&str, &str); 5] = [
    ("dev/fd", "/proc/self/fd"),
    ("dev/stdin", "/proc/self/fd/0"),
    ("dev/stdout", "/proc/self/fd/1"),
    ("dev/stderr", "/proc/self/fd/2"),
    ("dev/shm", "/tmp"),
];

/// Trees of a cage's own folders, made while its maker still was the superuser.
#[derive(Default)]
pub(super) struct Held {
    /// The working folder.
    pub(super) work: Option<OwnedFd>,
    /// Those that are only read, by their paths.
    pub(super) readable: Vec<(PathBuf, OwnedFd)>,
}

/// One thing that is put in the view.
struct Piece {
    at: PathBuf,
    tree: OwnedFd,
    folder: bool,
}

/// Clones the tree at `path`, ready to be put elsewhere.
pub(super) fn tree(path: &Path, attributes: u64) -> io::Result<OwnedFd> {
    let flags = OpenTreeFlags::OPEN_TREE_CLONE
        | OpenTreeFlags::OPEN_TREE_CLOEXEC
        | OpenTreeFlags::AT_RECURSIVE;
    let tree = rustix::mount::open_tree(CWD, path, flags)?;
    sys::mount_attributes(tree.as_fd(), attributes, None)?;
    Ok(tree)
}

/// Makes the view and goes into it; nothing outside it can be named any more. `held` is what was made
/// beforehand.
pub(super) fn enter(cage: &Cage, held: Held) -> io::Result<()> {
    let private = MountPropagationFlags::PRIVATE | MountPropagationFlags::REC;
    rustix::mount::mount_change("/", private)?;
    let (pieces, links) = gathered()?;
    let own = readable(cage, held.readable)?;
    let work = match (&cage.work, held.work) {
        (Some(_), Some(tree)) => Some(tree),
        (Some(path), None) => Some(tree(path, WRITTEN)?),
        (None, _) => None,
    };
    let site = SITES.iter().map(Path::new).find(|site| site.is_dir());
    let site = site.ok_or(io::ErrorKind::NotFound)?;
    mounted(site, "tmpfs", "size=1m,nr_inodes=1k,mode=755", MountFlags::NOSUID)?;
    rustix::process::chdir(site)?;
    for folder in ["etc", "dev", "proc", "tmp"] {
        fs::create_dir(folder)?;
    }
    for (path, text) in FILES {
        fs::write(path, text)?;
    }
    for (from, to) in LINKS {
        std::os::unix::fs::symlink(to, from)?;
    }
    for (from, to) in &links {
        std::os::unix::fs::symlink(to, from)?;
    }
    for piece in pieces {
        put(&piece)?;
    }
    let quiet = MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC;
    let scratch = format!("size={},nr_inodes=16k,mode=1777", cage.share.scratch);
    mounted(Path::new("tmp"), "tmpfs", &scratch, quiet)?;
    // Refused where this process itself does not see all of its own.
    let _without = mounted(Path::new("proc"), "proc", "", quiet);
    // What was asked for may lie below what is the cage's own.
    for (from, to) in &own.1 {
        if let Some(parent) = from.parent() {
            fs::create_dir_all(parent)?;
        }
        std::os::unix::fs::symlink(to, from)?;
    }
    for piece in own.0 {
        put(&piece)?;
    }
    if let (Some(path), Some(tree)) = (&cage.work, work) {
        let at = path.strip_prefix("/").unwrap_or(path).to_owned();
        put(&Piece { at, tree, folder: true })?;
    }
    rustix::process::pivot_root(".", ".")?;
    rustix::mount::unmount(".", UnmountFlags::DETACH)?;
    rustix::process::chdir("/")?;
    rustix::mount::mount_remount(
        "/",
        MountFlags::RDONLY | MountFlags::NOSUID | MountFlags::BIND,
        c"",
    )
    .map_err(Into::into)
}

type Links = Vec<(PathBuf, PathBuf)>;

/// Everything of the system that is there, as handles; and what is a link, as the same link.
fn gathered() -> io::Result<(Vec<Piece>, Links)> {
    let (mut pieces, links) = taken(SYSTEM.iter().chain(&SETTINGS).map(PathBuf::from))?;
    for name in DEVICES {
        let path = Path::new("/dev").join(name);
        let Ok(tree) = tree(&path, FIXED | libc::MOUNT_ATTR_NOEXEC) else { continue };
        pieces.push(Piece { at: Path::new("dev").join(name), tree, folder: false });
    }
    Ok((pieces, links))
}

/// The cage's own folders to read: those that are held already, and the others as they are.
fn readable(cage: &Cage, held: Vec<(PathBuf, OwnedFd)>) -> io::Result<(Vec<Piece>, Links)> {
    let there = |path: &PathBuf| held.iter().any(|(held, _)| held == path);
    let rest: Vec<_> = cage.readable.iter().filter(|path| !there(path)).cloned().collect();
    let (mut pieces, links) = taken(rest.into_iter())?;
    for (path, tree) in held {
        let at = path.strip_prefix("/").unwrap_or(&path).to_owned();
        let kind = rustix::fs::fstat(&tree)?.st_mode;
        let folder = rustix::fs::FileType::from_raw_mode(kind).is_dir();
        pieces.push(Piece { at, tree, folder });
    }
    Ok((pieces, links))
}

fn taken(paths: impl Iterator<Item = PathBuf>) -> io::Result<(Vec<Piece>, Links)> {
    let (mut pieces, mut links) = (Vec::new(), Vec::new());
    for path in paths {
        let Ok(meta) = path.symlink_metadata() else { continue };
        let at = path.strip_prefix("/").unwrap_or(&path).to_owned();
        if meta.is_symlink() {
            links.push((at, fs::read_link(&path)?));
        } else {
            let tree = tree(&path, FIXED | libc::MOUNT_ATTR_NODEV)?;
            pieces.push(Piece { at, tree, folder: meta.is_dir() });
        }
    }
    Ok((pieces, links))
}

fn put(piece: &Piece) -> io::Result<()> {
    if piece.folder {
        fs::create_dir_all(&piece.at)?;
    } else {
        if let Some(parent) = piece.at.parent() {
            fs::create_dir_all(parent)?;
        }
        fs::write(&piece.at, "")?;
    }
    let flags = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH;
    Ok(rustix::mount::move_mount(piece.tree.as_fd(), "", CWD, &piece.at, flags)?)
}

fn mounted(at: &Path, kind: &str, options: &str, flags: MountFlags) -> io::Result<()> {
    let options = CString::new(options)?;
    Ok(rustix::mount::mount(kind, at, kind, flags, options.as_c_str())?)
}
