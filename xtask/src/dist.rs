//! `cargo xtask dist`: the packages that users install, made from built programs.
//!
//! Nothing is compiled here. The layout of each package, and why it is written by this task and not
//! by a packaging tool, is in `docs/design/distribution.md`.

mod debian_package;
mod dependency_graph;
mod dist_options;
mod install_script;
mod license_policy;
mod license_texts;
mod man_pages;
mod node_wheel;
mod npm_packages;
mod package_set;
mod program_binary;
mod python_wheel;
mod release_archive;
mod sbom_document;
mod tar_archive;
mod template;
mod zip_archive;

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Instant;

use crate::release_build::shipped_dir;
use crate::workspace::{Workspace, file_error};
use dist_options::{DistOptions, PackageKind};
use package_set::{PackageSet, hex_sha256};
use program_binary::ProgramBinary;

/// Name of the file with the checksums of all others.
const CHECKSUM_FILE: &str = "SHA256SUMS";

/// Makes the packages and prints each with its size.
///
/// # Errors
/// If there is no program to package, a program that a format needs is missing, or a file cannot be
/// written.
pub(crate) fn run_task(workspace: &Workspace, flags: &[&str]) -> Result<(), String> {
    let options = DistOptions::parse_flags(flags)?;
    let folder = options.out_dir.clone().unwrap_or_else(|| workspace.target_dir.join("dist"));
    let folder = std::path::absolute(&folder).map_err(|e| file_error(&folder, &e))?;
    recreate_dir(&folder)?;
    let programs = load_programs(workspace, &options)?;
    let set = PackageSet::collect(workspace, &options, programs, folder)?;
    for kind in options.package_kinds() {
        let started = Instant::now();
        for path in build_packages(&set, kind)? {
            print_package(&set.out_dir, &path, started)?;
        }
    }
    write_checksums(&set.out_dir)?;
    println!("packages: {}", set.out_dir.display());
    Ok(())
}

fn build_packages(set: &PackageSet<'_>, kind: PackageKind) -> Result<Vec<PathBuf>, String> {
    match kind {
        PackageKind::Wheel => python_wheel::build(set),
        PackageKind::NodeWheel => node_wheel::build(set).map(|path| vec![path]),
        PackageKind::Npm => npm_packages::build(set),
        PackageKind::Debian => debian_package::build(set),
        PackageKind::Script => install_script::build(set),
        PackageKind::Sbom => sbom_document::write_files(set),
    }
}

/// Removes the output of an earlier run, which could contain packages of another version. Only a
/// folder that such a run has written, or an empty one, is removed.
fn recreate_dir(folder: &Path) -> Result<(), String> {
    let is_empty = fs::read_dir(folder).is_ok_and(|mut entries| entries.next().is_none());
    if folder.exists() && !is_empty {
        if !folder.join(CHECKSUM_FILE).is_file() && !folder.join(".incomplete").is_file() {
            return Err(format!(
                "`{}` has files but no {CHECKSUM_FILE}, so it is no output of this task; name \
                 another folder by --out, or empty it",
                folder.display()
            ));
        }
        fs::remove_dir_all(folder).map_err(|e| file_error(folder, &e))?;
    }
    fs::create_dir_all(folder).map_err(|e| file_error(folder, &e))?;
    write_file(&folder.join(".incomplete"), b"")
}

fn load_programs(
    workspace: &Workspace,
    options: &DistOptions,
) -> Result<Vec<ProgramBinary>, String> {
    let paths = if options.binary_paths.is_empty() {
        let shipped = shipped_dir(workspace)
            .map_err(|why| format!("{why}, or name a built program by --binary PATH"))?;
        vec![shipped.join("toolkeep")]
    } else {
        options.binary_paths.clone()
    };
    let mut programs: Vec<ProgramBinary> = Vec::new();
    for path in paths {
        let program = ProgramBinary::load_stripped(&path, &workspace.target_dir.join("dist-work"))?;
        if programs.iter().any(|other| other.architecture == program.architecture) {
            return Err(format!("two programs are for {}", program.architecture.rust_name()));
        }
        programs.push(program);
    }
    Ok(programs)
}

fn print_package(folder: &Path, path: &Path, started: Instant) -> Result<(), String> {
    let bytes = fs::metadata(path).map_err(|e| file_error(path, &e))?.len();
    let name = path.strip_prefix(folder).unwrap_or(path).display();
    let seconds = started.elapsed().as_secs_f64();
    println!("{name}  {bytes} bytes  {seconds:.1} s");
    Ok(())
}

/// Writes the checksums of all packages in the form of `sha256sum`, sorted by name.
fn write_checksums(folder: &Path) -> Result<(), String> {
    drop(fs::remove_file(folder.join(".incomplete")));
    let mut names = Vec::new();
    for entry in fs::read_dir(folder).map_err(|e| file_error(folder, &e))? {
        let entry = entry.map_err(|e| file_error(folder, &e))?;
        names.push(entry.file_name().to_string_lossy().into_owned());
    }
    names.sort();
    let mut lines = Vec::new();
    for name in names {
        let path = folder.join(&name);
        let content = fs::read(&path).map_err(|e| file_error(&path, &e))?;
        lines.push(format!("{}  {name}\n", hex_sha256(&content)));
    }
    write_file(&folder.join(CHECKSUM_FILE), lines.concat().as_bytes())
}

fn write_file(path: &Path, content: &[u8]) -> Result<(), String> {
    fs::write(path, content).map_err(|e| file_error(path, &e))
}
