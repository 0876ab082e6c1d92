//! The packages for npm: a launcher, and one package with the program for each architecture, which
//! npm installs where `os`, `cpu` and `libc` fit. Nothing runs at installation.

use std::path::PathBuf;

use serde_json::{Map, Value, json};

use super::package_set::{PackageSet, PackedFile};
use super::program_binary::ProgramBinary;
use super::sbom_document::{LICENSE_FILE, SBOM_FILE, render_json};
use super::tar_archive::write_tar_gz;

/// Folder of all files in a tarball of npm.
const TARBALL_FOLDER: &str = "package";

/// Oldest Node that the launcher runs with.
const NODE_RANGE: &str = ">=18";

/// Builds the launcher's tarball and one for each program.
pub(crate) fn build(set: &PackageSet<'_>) -> Result<Vec<PathBuf>, String> {
    let mut tarballs = vec![build_launcher(set)?];
    for program in &set.programs {
        tarballs.push(build_platform(set, program)?);
    }
    Ok(tarballs)
}

fn build_launcher(set: &PackageSet<'_>) -> Result<PathBuf, String> {
    let mut manifest =
        common_manifest(set, "toolkeep", "Tool registry and execution gateway for AI agents");
    let platforms: Map<String, Value> = set
        .programs
        .iter()
        .map(|program| (platform_package(program), json!(set.version)))
        .collect();
    manifest.insert("bin".to_owned(), json!({ "toolkeep": "bin/toolkeep.js" }));
    manifest.insert("engines".to_owned(), json!({ "node": NODE_RANGE }));
    manifest.insert("keywords".to_owned(), json!(["mcp", "agents", "tools", "gateway", "policy"]));
    manifest.insert("optionalDependencies".to_owned(), Value::Object(platforms));
    let files = [
        manifest_file(manifest)?,
        PackedFile::executable("bin/toolkeep.js", set.read_source("dist/npm/toolkeep.js")?),
        PackedFile::new("README.md", set.read_source("dist/README.md")?),
        PackedFile::new("LICENSE", set.read_source("LICENSE")?),
    ];
    write_tarball(set, "toolkeep", &files)
}

fn build_platform(set: &PackageSet<'_>, program: &ProgramBinary) -> Result<PathBuf, String> {
    let cpu = program.architecture.npm_name();
    let name = platform_package(program);
    let summary = format!("The program of toolkeep for Linux with glibc on {cpu}");
    let mut manifest = common_manifest(set, &name, &summary);
    manifest.insert("os".to_owned(), json!(["linux"]));
    manifest.insert("cpu".to_owned(), json!([cpu]));
    manifest.insert("libc".to_owned(), json!(["glibc"]));
    // Package managers that keep packages as archives cannot start a program in one.
    manifest.insert("preferUnplugged".to_owned(), json!(true));
    let readme = format!(
        "# {name}\n\n{summary}. Install [toolkeep](https://www.npmjs.com/package/toolkeep), which brings it.\n"
    );
    let files = [
        manifest_file(manifest)?,
        PackedFile::executable("bin/toolkeep", &program.content),
        PackedFile::from_text("README.md", readme),
        PackedFile::new("LICENSE", set.read_source("LICENSE")?),
        PackedFile::new(LICENSE_FILE, set.license_text.as_bytes()),
        PackedFile::from_text(SBOM_FILE, render_json(set)?),
    ];
    write_tarball(set, &format!("toolkeep-linux-{cpu}"), &files)
}

fn platform_package(program: &ProgramBinary) -> String {
    format!("@toolkeep/linux-{}", program.architecture.npm_name())
}

fn common_manifest(set: &PackageSet<'_>, name: &str, summary: &str) -> Map<String, Value> {
    let fields = [
        ("name", json!(name)),
        ("version", json!(set.version)),
        ("description", json!(summary)),
        ("license", json!("Apache-2.0")),
        (
            "repository",
            json!({ "type": "git", "url": "git+https://github.com/toolkeep/toolkeep.git" }),
        ),
    ];
    fields.into_iter().map(|(key, value)| (key.to_owned(), value)).collect()
}

fn manifest_file(manifest: Map<String, Value>) -> Result<PackedFile<'static>, String> {
    let text = serde_json::to_string_pretty(&Value::Object(manifest));
    let text = text.map_err(|e| format!("package.json: {e}"))?;
    Ok(PackedFile::from_text("package.json", text + "\n"))
}

fn write_tarball(
    set: &PackageSet<'_>,
    name: &str,
    files: &[PackedFile<'_>],
) -> Result<PathBuf, String> {
    let archive = write_tar_gz(files, TARBALL_FOLDER, set.epoch_seconds, set.deflate_level())?;
    // Names as `npm pack` gives them: the scope without its @.
    set.write_package(&format!("{name}-{}.tgz", set.version), &archive)
}
