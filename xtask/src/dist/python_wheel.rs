//! The wheel for PyPI, with the program inside: one for each architecture.
//!
//! The layout is the one of maturin's `bindings = "bin"`: the program under `.data/scripts`, from
//! where pip and uv install it into `bin`. Maturin itself has no way to take a built program.

use std::path::PathBuf;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use sha2::{Digest as _, Sha256};

use super::package_set::{PackageSet, PackedFile};
use super::program_binary::ProgramBinary;
use super::sbom_document;
use super::template::fill_template;
use super::zip_archive::write_zip;

/// Builds a wheel for each program.
pub(crate) fn build(set: &PackageSet<'_>) -> Result<Vec<PathBuf>, String> {
    set.programs.iter().map(|program| build_wheel(set, program)).collect()
}

fn build_wheel(set: &PackageSet<'_>, program: &ProgramBinary) -> Result<PathBuf, String> {
    let version = &set.version;
    let tag = platform_tag(program);
    let info = format!("toolkeep-{version}.dist-info");
    let wheel = format!(
        "Wheel-Version: 1.0\nGenerator: toolkeep-xtask {version}\nRoot-Is-Purelib: false\nTag: {tag}\n"
    );
    let sbom = sbom_document::render_json(set)?;
    let mut files = vec![
        PackedFile::executable(
            format!("toolkeep-{version}.data/scripts/toolkeep"),
            &program.content,
        ),
        PackedFile::from_text(format!("{info}/METADATA"), render_metadata(set)?),
        PackedFile::from_text(format!("{info}/WHEEL"), wheel),
        PackedFile::new(format!("{info}/licenses/LICENSE"), set.read_source("LICENSE")?),
        PackedFile::from_text(
            format!("{info}/licenses/THIRD-PARTY-LICENSES.txt"),
            &set.license_text,
        ),
        PackedFile::from_text(format!("{info}/sboms/toolkeep.cdx.json"), sbom),
    ];
    let record = render_record(&files, &format!("{info}/RECORD"));
    files.push(PackedFile::from_text(format!("{info}/RECORD"), record));
    let archive = write_zip(&files, set.epoch_seconds, set.deflate_level())?;
    set.write_package(&format!("toolkeep-{version}-{tag}.whl"), &archive)
}

/// Returns the tag by the oldest glibc that the program runs with (PEP 600).
fn platform_tag(program: &ProgramBinary) -> String {
    let (major, minor) = program.glibc_version;
    format!("py3-none-manylinux_{major}_{minor}_{}", program.architecture.rust_name())
}

fn render_metadata(set: &PackageSet<'_>) -> Result<String, String> {
    let template = set.read_source_text("dist/pypi/METADATA")?;
    let readme = set.read_source_text("dist/README.md")?;
    fill_template("pypi/METADATA", &template, &[("version", &set.version), ("readme", &readme)])
}

/// Returns the list of files with their checksums; its own line has none.
fn render_record(files: &[PackedFile<'_>], own_path: &str) -> String {
    let line = |file: &PackedFile<'_>| {
        let digest = URL_SAFE_NO_PAD.encode(Sha256::digest(&file.content));
        format!("{},sha256={digest},{}\n", file.path, file.content.len())
    };
    files.iter().map(line).chain([format!("{own_path},,\n")]).collect()
}
