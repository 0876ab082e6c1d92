//! Files that download a release archive: the install script, the Homebrew formula and the image
//! file. Each contains the checksums of the archives of its version.

use std::path::PathBuf;

use super::package_set::PackageSet;
use super::program_binary::Architecture;
use super::release_archive::{ReleaseArchive, build_archives};
use super::template::fill_template;

/// Checksum in place of that of an architecture without an archive. No file has it.
const NO_CHECKSUM: &str = "none";

/// Builds the archives and the files that name their checksums.
pub(crate) fn build(set: &PackageSet<'_>) -> Result<Vec<PathBuf>, String> {
    let archives = build_archives(set)?;
    let checksum = |architecture| {
        let found = archives.iter().find(|it: &&ReleaseArchive| it.architecture == architecture);
        found.map_or(NO_CHECKSUM, |archive| archive.sha256.as_str())
    };
    let values = [
        ("version", set.version.as_str()),
        ("sha256_x86_64", checksum(Architecture::X64)),
        ("sha256_aarch64", checksum(Architecture::Arm64)),
    ];
    let mut paths: Vec<PathBuf> = archives.iter().map(|archive| archive.path.clone()).collect();
    for name in ["install.sh", "toolkeep.rb", "Containerfile"] {
        let template = set.read_source_text(&format!("dist/{name}"))?;
        let text = fill_template(name, &template, &values)?;
        paths.push(set.write_package(name, text.as_bytes())?);
    }
    Ok(paths)
}
