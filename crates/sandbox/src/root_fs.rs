//! Root file system of a full sandbox: read-only system folders, a few devices, and private
//! `/proc`, `/etc` and `/tmp`. The working folder keeps its own path.
//!
//! Sources are opened as handles before anything is mounted over, so no path is looked up twice.

use std::ffi::CString;
use std::fs;
use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::CWD;
use rustix::mount::{
    MountFlags, MountPropagationFlags, MoveMountFlags, OpenTreeFlags, UnmountFlags,
};

use super::{SandboxSpec, syscalls};

/// Folders of the system's programs and libraries. A link outside is the same link inside.
pub(super) const SYSTEM_DIRS: [&str; 7] =
    ["/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32"];
/// Device files that a sandbox has under `/dev`.
pub(super) const DEVICES: [&str; 5] = ["null", "zero", "full", "random", "urandom"];
/// System files that programs look up and that reveal nothing about the machine.
const SYSTEM_FILES: [&str; 2] = ["/etc/ld.so.cache", "/etc/alternatives"];
/// Folders that can serve as staging directory; the first one that exists is used.
const STAGING_DIRS: [&str; 4] = ["/tmp", "/mnt", "/run", "/var"];

pub(super) const READ_ONLY_ATTRS: u64 = libc::MOUNT_ATTR_RDONLY | libc::MOUNT_ATTR_NOSUID;
const WRITABLE_ATTRS: u64 =
    libc::MOUNT_ATTR_NOSUID | libc::MOUNT_ATTR_NODEV | libc::MOUNT_ATTR_NOEXEC;

/// Contents of `/etc`: the single user of the sandbox.
const ETC_FILES: [(&str, &str); 3] = [
    ("etc/passwd", "tool:x:1000:1000:tool:/tmp:/bin/sh\n"),
    ("etc/group", "tool:x:1000:\n"),
    ("etc/hosts", "127.0.0.1 localhost\n"),
];
const DEV_LINKS: [(&str, &str); 5] = [
    ("dev/fd", "/proc/self/fd"),
    ("dev/stdin", "/proc/self/fd/0"),
    ("dev/stdout", "/proc/self/fd/1"),
    ("dev/stderr", "/proc/self/fd/2"),
    ("dev/shm", "/tmp"),
];

/// Mounts of the sandbox's own folders, cloned while the process was still root.
#[derive(Default)]
pub(super) struct PreparedMounts {
    /// Working folder.
    pub(super) work: Option<OwnedFd>,
    /// Read-only folders, by their paths.
    pub(super) readable: Vec<(PathBuf, OwnedFd)>,
}

/// One mount of the sandbox's file system.
struct MountEntry {
    at: PathBuf,
    tree: OwnedFd,
    folder: bool,
}

/// Clones the tree at `path`, ready to be mounted elsewhere.
pub(super) fn clone_tree(path: &Path, attributes: u64) -> io::Result<OwnedFd> {
    let flags = OpenTreeFlags::OPEN_TREE_CLONE
        | OpenTreeFlags::OPEN_TREE_CLOEXEC
        | OpenTreeFlags::AT_RECURSIVE;
    let tree = rustix::mount::open_tree(CWD, path, flags)?;
    syscalls::set_mount_attributes(tree.as_fd(), attributes, None)?;
    Ok(tree)
}

/// Builds the root file system and enters it; no path outside it can be named any more. `mounts`
/// contains the mounts prepared beforehand.
pub(super) fn enter_root_fs(sandbox: &SandboxSpec, mounts: PreparedMounts) -> io::Result<()> {
    let private = MountPropagationFlags::PRIVATE | MountPropagationFlags::REC;
    rustix::mount::mount_change("/", private)?;
    let (pieces, links) = collect_system_mounts()?;
    let own = collect_readable_mounts(sandbox, mounts.readable)?;
    let work = match (&sandbox.work_dir, mounts.work) {
        (Some(_), Some(tree)) => Some(tree),
        (Some(path), None) => Some(clone_tree(path, WRITABLE_ATTRS)?),
        (None, _) => None,
    };
    let site = STAGING_DIRS.iter().map(Path::new).find(|site| site.is_dir());
    let site = site.ok_or(io::ErrorKind::NotFound)?;
    mount_fs(site, "tmpfs", "size=1m,nr_inodes=1k,mode=755", MountFlags::NOSUID)?;
    rustix::process::chdir(site)?;
    for folder in ["etc", "dev", "proc", "tmp"] {
        fs::create_dir(folder)?;
    }
    for (path, text) in ETC_FILES {
        fs::write(path, text)?;
    }
    for (from, to) in DEV_LINKS {
        std::os::unix::fs::symlink(to, from)?;
    }
    for (from, to) in &links {
        std::os::unix::fs::symlink(to, from)?;
    }
    for piece in pieces {
        attach_mount(&piece)?;
    }
    let quiet = MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC;
    let scratch = format!("size={},nr_inodes=16k,mode=1777", sandbox.limits.scratch_bytes);
    mount_fs(Path::new("tmp"), "tmpfs", &scratch, quiet)?;
    // Refused if this process itself does not see all of its `/proc`.
    let _without = mount_fs(Path::new("proc"), "proc", "", quiet);
    // A requested folder may be below one of the sandbox's own.
    for (from, to) in &own.1 {
        if let Some(parent) = from.parent() {
            fs::create_dir_all(parent)?;
        }
        std::os::unix::fs::symlink(to, from)?;
    }
    for piece in own.0 {
        attach_mount(&piece)?;
    }
    if let (Some(path), Some(tree)) = (&sandbox.work_dir, work) {
        let at = path.strip_prefix("/").unwrap_or(path).to_owned();
        attach_mount(&MountEntry { at, tree, folder: true })?;
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

type SymlinkList = Vec<(PathBuf, PathBuf)>;

/// Collects the existing system paths as handles, and links as the same links.
fn collect_system_mounts() -> io::Result<(Vec<MountEntry>, SymlinkList)> {
    let (mut pieces, links) =
        collect_mounts(SYSTEM_DIRS.iter().chain(&SYSTEM_FILES).map(PathBuf::from))?;
    for name in DEVICES {
        let path = Path::new("/dev").join(name);
        let Ok(tree) = clone_tree(&path, READ_ONLY_ATTRS | libc::MOUNT_ATTR_NOEXEC) else {
            continue;
        };
        pieces.push(MountEntry { at: Path::new("dev").join(name), tree, folder: false });
    }
    Ok((pieces, links))
}

/// Collects the readable folders: prepared ones, and the others without a mapping.
fn collect_readable_mounts(
    sandbox_spec: &SandboxSpec,
    held: Vec<(PathBuf, OwnedFd)>,
) -> io::Result<(Vec<MountEntry>, SymlinkList)> {
    let there = |path: &PathBuf| held.iter().any(|(held, _)| held == path);
    let rest: Vec<_> =
        sandbox_spec.readable_paths.iter().filter(|path| !there(path)).cloned().collect();
    let (mut pieces, links) = collect_mounts(rest.into_iter())?;
    for (path, tree) in held {
        let at = path.strip_prefix("/").unwrap_or(&path).to_owned();
        let kind = rustix::fs::fstat(&tree)?.st_mode;
        let folder = rustix::fs::FileType::from_raw_mode(kind).is_dir();
        pieces.push(MountEntry { at, tree, folder });
    }
    Ok((pieces, links))
}

fn collect_mounts(
    paths: impl Iterator<Item = PathBuf>,
) -> io::Result<(Vec<MountEntry>, SymlinkList)> {
    let (mut pieces, mut links) = (Vec::new(), Vec::new());
    for path in paths {
        let Ok(meta) = path.symlink_metadata() else { continue };
        let at = path.strip_prefix("/").unwrap_or(&path).to_owned();
        if meta.is_symlink() {
            links.push((at, fs::read_link(&path)?));
        } else {
            let tree = clone_tree(&path, READ_ONLY_ATTRS | libc::MOUNT_ATTR_NODEV)?;
            pieces.push(MountEntry { at, tree, folder: meta.is_dir() });
        }
    }
    Ok((pieces, links))
}

fn attach_mount(piece: &MountEntry) -> io::Result<()> {
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

fn mount_fs(at: &Path, kind: &str, options: &str, flags: MountFlags) -> io::Result<()> {
    let options = CString::new(options)?;
    Ok(rustix::mount::mount(kind, at, kind, flags, options.as_c_str())?)
}
