//! The program to package: its architecture, the C library it needs, and its stripped bytes.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::child_processes::run_for_output;
use crate::workspace::file_error;

/// Machine type in the header of an ELF file: x86-64 and AArch64.
const ELF_MACHINES: &[(u8, Architecture)] = &[(62, Architecture::X64), (183, Architecture::Arm64)];

/// Shared libraries that every system of the wheel's tag has (PEP 600).
const ALLOWED_LIBRARIES: &[&str] = &[
    "libc.so.6",
    "libm.so.6",
    "libgcc_s.so.1",
    "libdl.so.2",
    "libpthread.so.0",
    "librt.so.1",
    "ld-linux-x86-64.so.2",
    "ld-linux-aarch64.so.1",
];

/// A processor architecture, under the name of each packaging format.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Architecture {
    X64,
    Arm64,
}

impl Architecture {
    /// Name in Rust's and Python's tags.
    pub(crate) const fn rust_name(self) -> &'static str {
        match self {
            Self::X64 => "x86_64",
            Self::Arm64 => "aarch64",
        }
    }

    /// Name in npm's `cpu` field.
    pub(crate) const fn npm_name(self) -> &'static str {
        match self {
            Self::X64 => "x64",
            Self::Arm64 => "arm64",
        }
    }

    /// Name in Debian's packages.
    pub(crate) const fn debian_name(self) -> &'static str {
        match self {
            Self::X64 => "amd64",
            Self::Arm64 => "arm64",
        }
    }

    /// Returns whether this task runs on it.
    pub(crate) fn is_host(self) -> bool {
        self.rust_name() == std::env::consts::ARCH
    }
}

/// A built program to package.
#[derive(Debug)]
pub(crate) struct ProgramBinary {
    pub(crate) architecture: Architecture,
    /// Oldest glibc that it runs with, as major and minor version.
    pub(crate) glibc_version: (u32, u32),
    /// The program without symbols and debug information.
    pub(crate) content: Vec<u8>,
    /// File with `content`, executable.
    pub(crate) stripped_path: PathBuf,
}

impl ProgramBinary {
    /// Strips a copy of the program in `work_dir` and reads what it needs.
    ///
    /// # Errors
    /// If it is no Linux program of a known architecture, needs a library that not every system
    /// has, or `strip` or `readelf` is missing.
    pub(crate) fn load_stripped(path: &Path, work_dir: &Path) -> Result<Self, String> {
        let head = fs::read(path).map_err(|e| file_error(path, &e))?;
        let architecture = read_architecture(&head)
            .ok_or_else(|| format!("`{}` is no x86-64 or AArch64 ELF program", path.display()))?;
        drop(head);
        let folder = work_dir.join(format!("{}-{}", architecture.rust_name(), std::process::id()));
        fs::create_dir_all(&folder).map_err(|e| file_error(&folder, &e))?;
        let stripped_path = folder.join("toolkeep");
        let cross = if architecture.is_host() { "" } else { "aarch64-linux-gnu-" };
        let mut strip = Command::new(format!("{cross}strip"));
        strip
            .args(["--strip-all", "--remove-section=.comment"])
            .arg("-o")
            .arg(&stripped_path)
            .arg(path);
        run_for_output(&mut strip)
            .map_err(|why| format!("cannot strip the program (Debian: binutils): {why}"))?;
        let mut readelf = Command::new("readelf");
        readelf.env("LC_ALL", "C").args(["--wide", "--dynamic", "--version-info"]);
        let listing = run_for_output(readelf.arg(&stripped_path))
            .map_err(|why| format!("cannot read the program (Debian: binutils): {why}"))?;
        check_libraries(&listing)?;
        let glibc_version = newest_glibc(&listing)
            .ok_or("the program names no glibc version; static programs are not packaged")?;
        let content = fs::read(&stripped_path).map_err(|e| file_error(&stripped_path, &e))?;
        Ok(Self { architecture, glibc_version, content, stripped_path })
    }

    /// Runs the program and returns its standard output.
    pub(crate) fn run_for_text(&self, args: &[&str]) -> Result<String, String> {
        run_for_output(Command::new(&self.stripped_path).args(args))
            .map_err(|why| format!("`toolkeep {}` failed: {why}", args.join(" ")))
    }
}

impl Drop for ProgramBinary {
    fn drop(&mut self) {
        if let Some(folder) = self.stripped_path.parent() {
            drop(fs::remove_dir_all(folder));
        }
    }
}

/// Reads the machine type of a 64-bit little-endian ELF file.
fn read_architecture(content: &[u8]) -> Option<Architecture> {
    if !content.starts_with(b"\x7fELF\x02\x01") || content.get(19) != Some(&0) {
        return None;
    }
    let machine = content.get(18)?;
    ELF_MACHINES.iter().find(|(number, _)| number == machine).map(|(_, it)| *it)
}

fn check_libraries(listing: &str) -> Result<(), String> {
    let needed = listing
        .lines()
        .filter_map(|line| line.split_once("Shared library: [")?.1.split(']').next());
    let unknown: Vec<&str> = needed.filter(|name| !ALLOWED_LIBRARIES.contains(name)).collect();
    if unknown.is_empty() {
        return Ok(());
    }
    Err(format!("the program needs {}, which not every system has", unknown.join(", ")))
}

/// Returns the newest glibc version that a symbol of the program asks for.
fn newest_glibc(listing: &str) -> Option<(u32, u32)> {
    let names =
        listing.split(|c: char| c.is_whitespace()).filter_map(|it| it.strip_prefix("GLIBC_"));
    names
        .filter_map(|version| {
            let mut numbers = version.split('.').map(str::parse::<u32>);
            Some((numbers.next()?.ok()?, numbers.next()?.ok()?))
        })
        .max()
}

#[cfg(test)]
mod tests {
    use super::{Architecture, check_libraries, newest_glibc, read_architecture};

    #[test]
    fn architecture_is_read_from_the_header() {
        let header = |class: u8, machine: u8| {
            let mut bytes = b"\x7fELF\0\x01".to_vec();
            bytes[4] = class;
            bytes.resize(18, 0);
            bytes.extend([machine, 0]);
            bytes
        };
        assert_eq!(read_architecture(&header(2, 62)), Some(Architecture::X64));
        assert_eq!(read_architecture(&header(2, 183)), Some(Architecture::Arm64));
        for other in [header(1, 62), header(2, 40), b"#!/bin/sh".to_vec(), Vec::new()] {
            assert_eq!(read_architecture(&other), None);
        }
    }

    #[test]
    fn the_newest_glibc_counts_by_number() {
        let listing = " 0x1: Name: GLIBC_2.9  Flags: none\n Name: GLIBC_2.35 x\n Name: GLIBC_2.2.5\n GLIBC_PRIVATE";
        assert_eq!(newest_glibc(listing), Some((2, 35)));
        assert_eq!(newest_glibc("none"), None);
    }

    #[test]
    fn a_library_that_not_every_system_has_is_refused() {
        let line = |name: &str| format!(" 0x1 (NEEDED)  Shared library: [{name}]\n");
        assert_eq!(check_libraries(&line("libc.so.6")), Ok(()));
        let error = check_libraries(&(line("libc.so.6") + &line("libssl.so.3"))).unwrap_err();
        assert!(error.contains("libssl.so.3") && !error.contains("libc.so.6"), "{error}");
    }
}
