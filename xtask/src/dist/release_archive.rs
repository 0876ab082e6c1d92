//! The archive of a release: program, manual pages, completions and licences in one folder, for the
//! install script, the formula and the image.

use std::path::PathBuf;

use super::package_set::{PackageSet, PackedFile, hex_sha256};
use super::program_binary::{Architecture, ProgramBinary};
use super::sbom_document::{LICENSE_FILE, SBOM_FILE, render_json};
use super::tar_archive::write_tar_gz;

/// A release archive that was written.
#[derive(Debug)]
pub(crate) struct ReleaseArchive {
    pub(crate) architecture: Architecture,
    pub(crate) path: PathBuf,
    pub(crate) sha256: String,
}

/// Builds the archive of each program.
pub(crate) fn build_archives(set: &PackageSet<'_>) -> Result<Vec<ReleaseArchive>, String> {
    set.programs.iter().map(|program| build_archive(set, program)).collect()
}

fn build_archive(set: &PackageSet<'_>, program: &ProgramBinary) -> Result<ReleaseArchive, String> {
    let architecture = program.architecture;
    let folder = format!("toolkeep-{}-linux-{}", set.version, architecture.rust_name());
    let mut files = vec![
        PackedFile::executable("toolkeep", &program.content),
        PackedFile::new("README.md", set.read_source("dist/README.md")?),
        PackedFile::new("LICENSE", set.read_source("LICENSE")?),
        PackedFile::new(LICENSE_FILE, set.license_text.as_bytes()),
        PackedFile::from_text(SBOM_FILE, render_json(set)?),
    ];
    for page in &set.man_pages {
        files.push(PackedFile::new(format!("man/{}", page.file_name), page.text.as_bytes()));
    }
    for script in &set.completions {
        let path = format!("completions/toolkeep.{}", script.shell);
        files.push(PackedFile::new(path, script.text.as_bytes()));
    }
    let archive = write_tar_gz(&files, &folder, set.epoch_seconds, set.deflate_level())?;
    let sha256 = hex_sha256(&archive);
    let path = set.write_package(&format!("{folder}.tar.gz"), &archive)?;
    Ok(ReleaseArchive { architecture, path, sha256 })
}
