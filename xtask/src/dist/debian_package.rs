//! The package for Debian, built by `dpkg-deb` from a staged tree.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::package_set::{PackageSet, PackedFile};
use super::program_binary::ProgramBinary;
use super::sbom_document::render_json;
use super::tar_archive::compress_gzip;
use super::template::fill_template;
use super::zip_archive::civil_date;
use crate::child_processes::run_for_output;
use crate::workspace::file_error;

/// Revision of the packaging, after the version.
const REVISION: &str = "1";

/// Scripts that `dpkg` runs, in `dist/debian`.
const MAINTAINER_SCRIPTS: &[&str] = &["postinst", "prerm", "postrm"];

/// Builds a package for each program.
pub(crate) fn build(set: &PackageSet<'_>) -> Result<Vec<PathBuf>, String> {
    set.programs.iter().map(|program| build_package(set, program)).collect()
}

fn build_package(set: &PackageSet<'_>, program: &ProgramBinary) -> Result<PathBuf, String> {
    let files = installed_files(set, program)?;
    let control = control_files(set, program, &files)?;
    let name = package_name(set, program);
    let staging = set.workspace.target_dir.join(format!("dist-work/{name}-{}", std::process::id()));
    drop(fs::remove_dir_all(&staging));
    let built = stage_files(&staging, files.iter().chain(&control))
        .and_then(|()| write_checksums(&staging, &files))
        .and_then(|()| run_dpkg_deb(set, &staging, &set.out_dir.join(&name)));
    drop(fs::remove_dir_all(&staging));
    built
}

fn package_name(set: &PackageSet<'_>, program: &ProgramBinary) -> String {
    format!("toolkeep_{}-{REVISION}_{}.deb", set.version, program.architecture.debian_name())
}

/// Returns the files that the package installs, by their path without the leading `/`.
fn installed_files<'a>(
    set: &'a PackageSet<'_>,
    program: &'a ProgramBinary,
) -> Result<Vec<PackedFile<'a>>, String> {
    let zipped = |content: &[u8]| compress_gzip(content, 9);
    let doc = "usr/share/doc/toolkeep";
    let changelog = fill_template(
        "debian/changelog",
        &set.read_source_text("dist/debian/changelog")?,
        &[("version", &set.version), ("date", &mail_date(set.epoch_seconds))],
    )?;
    let mut files = vec![
        PackedFile::executable("usr/bin/toolkeep", &program.content),
        PackedFile::new(
            "etc/toolkeep/toolkeep.yaml",
            set.read_source("dist/debian/toolkeep.yaml")?,
        ),
        PackedFile::new(
            "lib/systemd/system/toolkeep.service",
            set.read_source("dist/debian/toolkeep.service")?,
        ),
        PackedFile::new(
            "usr/share/lintian/overrides/toolkeep",
            set.read_source("dist/debian/lintian-overrides")?,
        ),
        PackedFile::new(format!("{doc}/copyright"), set.read_source("dist/debian/copyright")?),
        PackedFile::new(format!("{doc}/changelog.Debian.gz"), zipped(changelog.as_bytes())?),
        PackedFile::new(format!("{doc}/changelog.gz"), zipped(&set.read_source("CHANGELOG.md")?)?),
        PackedFile::new(
            format!("{doc}/THIRD-PARTY-LICENSES.txt.gz"),
            zipped(set.license_text.as_bytes())?,
        ),
        PackedFile::new(
            format!("{doc}/toolkeep.cdx.json.gz"),
            zipped(render_json(set)?.as_bytes())?,
        ),
    ];
    for page in &set.man_pages {
        let path = format!("usr/share/man/man1/{}.gz", page.file_name);
        files.push(PackedFile::new(path, zipped(page.text.as_bytes())?));
    }
    for script in &set.completions {
        let path = match script.shell {
            "bash" => "usr/share/bash-completion/completions/toolkeep",
            "zsh" => "usr/share/zsh/vendor-completions/_toolkeep",
            _ => "usr/share/fish/vendor_completions.d/toolkeep.fish",
        };
        files.push(PackedFile::new(path, script.text.as_bytes()));
    }
    Ok(files)
}

/// Returns the files that describe the package, in the folder `DEBIAN`.
fn control_files(
    set: &PackageSet<'_>,
    program: &ProgramBinary,
    files: &[PackedFile<'_>],
) -> Result<Vec<PackedFile<'static>>, String> {
    let (major, minor) = program.glibc_version;
    let kibibytes: usize = files.iter().map(|file| file.content.len().div_ceil(1024)).sum();
    let control = fill_template(
        "debian/control",
        &set.read_source_text("dist/debian/control")?,
        &[
            ("version", &format!("{}-{REVISION}", set.version)),
            ("architecture", program.architecture.debian_name()),
            ("installed_size", &kibibytes.to_string()),
            ("glibc", &format!("{major}.{minor}")),
        ],
    )?;
    let configuration = files.iter().filter(|file| file.path.starts_with("etc/"));
    let configuration: Vec<String> =
        configuration.map(|file| format!("/{}\n", file.path)).collect();
    let mut control = vec![
        PackedFile::from_text("DEBIAN/control", control),
        PackedFile::from_text("DEBIAN/conffiles", configuration.concat()),
    ];
    for name in MAINTAINER_SCRIPTS {
        let script = set.read_source(&format!("dist/debian/{name}"))?;
        control.push(PackedFile::executable(format!("DEBIAN/{name}"), script));
    }
    Ok(control)
}

fn stage_files<'a, 'b: 'a>(
    staging: &Path,
    files: impl Iterator<Item = &'a PackedFile<'b>>,
) -> Result<(), String> {
    for file in files {
        let path = staging.join(&file.path);
        let folder = path.parent().unwrap_or(staging);
        fs::create_dir_all(folder).map_err(|e| file_error(folder, &e))?;
        fs::write(&path, &file.content).map_err(|e| file_error(&path, &e))?;
        let mode = if file.is_executable { 0o755 } else { 0o644 };
        set_mode(&path, mode)?;
        // Folders must not depend on the umask of this process.
        for folder in folder.ancestors().take_while(|it| it.starts_with(staging)) {
            set_mode(folder, 0o755)?;
        }
    }
    Ok(())
}

/// Writes the MD5 sums by which `dpkg --verify` finds changed files.
fn write_checksums(staging: &Path, files: &[PackedFile<'_>]) -> Result<(), String> {
    let paths = files.iter().map(|file| &file.path).filter(|path| !path.starts_with("etc/"));
    let sums = run_for_output(Command::new("md5sum").args(paths).current_dir(staging))
        .map_err(|why| format!("md5sum (Debian: coreutils): {why}"))?;
    let path = staging.join("DEBIAN/md5sums");
    fs::write(&path, sums + "\n").map_err(|e| file_error(&path, &e))?;
    set_mode(&path, 0o644)
}

fn set_mode(path: &Path, mode: u32) -> Result<(), String> {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).map_err(|e| file_error(path, &e))
}

fn run_dpkg_deb(set: &PackageSet<'_>, staging: &Path, package: &Path) -> Result<PathBuf, String> {
    let mut dpkg_deb = Command::new("dpkg-deb");
    dpkg_deb.env("SOURCE_DATE_EPOCH", set.epoch_seconds.to_string());
    // With several threads xz cuts its input into blocks, so that the bytes depend on the machine.
    dpkg_deb.args(["--root-owner-group", "--threads-max=1"]);
    dpkg_deb.args(if set.is_fast { ["-Zgzip", "-z1"] } else { ["-Zxz", "-z6"] });
    run_for_output(dpkg_deb.arg("--build").arg(staging).arg(package))
        .map_err(|why| format!("dpkg-deb (Debian: dpkg): {why}"))?;
    Ok(package.to_owned())
}

/// Returns a time in the form of a mail's date.
fn mail_date(seconds: u64) -> String {
    const DAYS: [&str; 7] = ["Thu", "Fri", "Sat", "Sun", "Mon", "Tue", "Wed"];
    const MONTHS: [&str; 12] =
        ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
    let days = seconds / 86_400;
    let (year, month, day) = civil_date(days);
    let named = |names: &[&'static str], index: u64| {
        usize::try_from(index).ok().and_then(|at| names.get(at).copied()).unwrap_or_default()
    };
    let (hour, minute) = (seconds / 3600 % 24, seconds / 60 % 60);
    let (weekday, month) = (named(&DAYS, days % 7), named(&MONTHS, month - 1));
    format!("{weekday}, {day:02} {month} {year} {hour:02}:{minute:02}:{:02} +0000", seconds % 60)
}
