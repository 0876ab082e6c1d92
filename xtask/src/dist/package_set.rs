//! Everything that the packages of one run share: programs, version, time stamp, common files.

use std::borrow::Cow;
use std::fs;
use std::path::PathBuf;
use std::process::Command;

use data_encoding::HEXLOWER;
use sha2::{Digest as _, Sha256};

use super::dependency_graph::DependencyGraph;
use super::dist_options::DistOptions;
use super::license_policy;
use super::license_texts::{self, StandardTexts};
use super::man_pages::{self, ManPage};
use super::program_binary::{Architecture, ProgramBinary};
use super::zip_archive::civil_date;
use crate::child_processes::run_for_output;
use crate::workspace::{Workspace, file_error};

/// Earliest time that a zip file can state: 1980-01-01.
const EARLIEST_SECONDS: u64 = 315_532_800;

/// One file of a package.
#[derive(Debug, Clone)]
pub(crate) struct PackedFile<'a> {
    /// Path in the package, with `/`.
    pub(crate) path: String,
    pub(crate) is_executable: bool,
    pub(crate) content: Cow<'a, [u8]>,
}

impl<'a> PackedFile<'a> {
    /// Creates a file that is not executable.
    pub(crate) fn new(path: impl Into<String>, content: impl Into<Cow<'a, [u8]>>) -> Self {
        Self { path: path.into(), is_executable: false, content: content.into() }
    }

    /// Creates a text file.
    pub(crate) fn from_text(path: impl Into<String>, text: impl Into<String>) -> Self {
        Self::new(path, text.into().into_bytes())
    }

    /// Creates an executable file.
    pub(crate) fn executable(path: impl Into<String>, content: impl Into<Cow<'a, [u8]>>) -> Self {
        Self { is_executable: true, ..Self::new(path, content) }
    }
}

/// A shell completion script.
#[derive(Debug)]
pub(crate) struct CompletionScript {
    /// Name of the shell.
    pub(crate) shell: &'static str,
    pub(crate) text: String,
}

/// Input of all packages.
pub(crate) struct PackageSet<'a> {
    pub(crate) workspace: &'a Workspace,
    pub(crate) programs: Vec<ProgramBinary>,
    /// Version of the packages, such as `0.1.0`.
    pub(crate) version: String,
    /// Time of every file in a package, in seconds since 1970.
    pub(crate) epoch_seconds: u64,
    /// Compresses at the lowest level, for tests.
    pub(crate) is_fast: bool,
    /// Output folder, absolute.
    pub(crate) out_dir: PathBuf,
    pub(crate) dependencies: DependencyGraph,
    /// Licence texts of all dependencies, as one document.
    pub(crate) license_text: String,
    pub(crate) man_pages: Vec<ManPage>,
    pub(crate) completions: Vec<CompletionScript>,
}

impl<'a> PackageSet<'a> {
    /// Collects what the packages share.
    pub(crate) fn collect(
        workspace: &'a Workspace,
        options: &DistOptions,
        programs: Vec<ProgramBinary>,
        out_dir: PathBuf,
    ) -> Result<Self, String> {
        let own_version = workspace_version(workspace)?;
        check_program_version(&programs, &own_version)?;
        let version = options.stamped_version.clone().unwrap_or(own_version);
        if !is_plain_version(&version) {
            return Err(format!(
                "`{version}` is no version of three numbers; PyPI and Debian write others differently"
            ));
        }
        let architectures: Vec<Architecture> = programs.iter().map(|it| it.architecture).collect();
        let dependencies = DependencyGraph::load(workspace, &architectures)?;
        let deny_file = read_text(workspace, "deny.toml")?;
        for unlisted in license_policy::find_unlisted(&dependencies, &deny_file)? {
            println!("warning: a licence that deny.toml does not allow: {unlisted}");
        }
        let standard = StandardTexts {
            mit: read_text(workspace, "dist/licenses/MIT.txt")?,
            apache: read_text(workspace, "LICENSE")?,
        };
        let epoch_seconds = epoch_seconds(workspace)?;
        let (year, month, day) = civil_date(epoch_seconds / 86_400);
        let date = format!("{year:04}-{month:02}-{day:02}");
        Ok(Self {
            workspace,
            version,
            epoch_seconds,
            is_fast: options.is_fast,
            out_dir,
            license_text: license_texts::render_document(&dependencies, &standard)?,
            dependencies,
            man_pages: man_pages::render_pages(workspace, &date)?,
            completions: completion_scripts(&programs)?,
            programs,
        })
    }

    /// Compression level of deflate.
    pub(crate) const fn deflate_level(&self) -> u32 {
        if self.is_fast { 1 } else { 9 }
    }

    /// Reads a file of the checkout.
    pub(crate) fn read_source(&self, path: &str) -> Result<Vec<u8>, String> {
        let path = self.workspace.root_dir.join(path);
        fs::read(&path).map_err(|e| file_error(&path, &e))
    }

    /// Reads a text file of the checkout.
    pub(crate) fn read_source_text(&self, path: &str) -> Result<String, String> {
        read_text(self.workspace, path)
    }

    /// Writes a package into the output folder and returns its path.
    pub(crate) fn write_package(&self, name: &str, content: &[u8]) -> Result<PathBuf, String> {
        let path = self.out_dir.join(name);
        super::write_file(&path, content)?;
        Ok(path)
    }
}

fn read_text(workspace: &Workspace, path: &str) -> Result<String, String> {
    let path = workspace.root_dir.join(path);
    fs::read_to_string(&path).map_err(|e| file_error(&path, &e))
}

/// Returns the SHA-256 of `content` in hexadecimal digits.
pub(crate) fn hex_sha256(content: &[u8]) -> String {
    HEXLOWER.encode(&Sha256::digest(content))
}

fn workspace_version(workspace: &Workspace) -> Result<String, String> {
    let packages = workspace.workspace_packages();
    let named = |package: &&&serde_json::Value| package.get("name") == Some(&"toolkeep".into());
    let version = packages.iter().find(named).and_then(|it| it.get("version")?.as_str());
    version.map(str::to_owned).ok_or_else(|| "the workspace has no package toolkeep".to_owned())
}

fn is_plain_version(version: &str) -> bool {
    let is_number = |part: &str| !part.is_empty() && part.bytes().all(|it| it.is_ascii_digit());
    version.split('.').count() == 3 && version.split('.').all(is_number)
}

/// Fails if a program that this machine can run is of another version than the checkout.
fn check_program_version(programs: &[ProgramBinary], version: &str) -> Result<(), String> {
    for program in programs.iter().filter(|it| it.architecture.is_host()) {
        let printed = program.run_for_text(&["--version"])?;
        if printed != format!("toolkeep {version}") {
            return Err(format!("the program says `{printed}`, the checkout is {version}"));
        }
    }
    Ok(())
}

/// Returns `SOURCE_DATE_EPOCH`, else the time of the last commit.
fn epoch_seconds(workspace: &Workspace) -> Result<u64, String> {
    let text = if let Some(set) = std::env::var_os("SOURCE_DATE_EPOCH") {
        set.to_string_lossy().into_owned()
    } else {
        let mut git = Command::new("git");
        git.args(["log", "-1", "--format=%ct"]).current_dir(&workspace.root_dir);
        run_for_output(&mut git)
            .map_err(|why| format!("set SOURCE_DATE_EPOCH: git has no time of a commit: {why}"))?
    };
    let seconds: u64 = text
        .trim()
        .parse()
        .map_err(|_| format!("SOURCE_DATE_EPOCH is `{text}`, not a number of seconds"))?;
    Ok(seconds.max(EARLIEST_SECONDS))
}

/// Returns the completion scripts that the program itself prints.
fn completion_scripts(programs: &[ProgramBinary]) -> Result<Vec<CompletionScript>, String> {
    let Some(program) = programs.iter().find(|it| it.architecture.is_host()) else {
        return Err("no program is for this machine, which has to print the completions".to_owned());
    };
    let script = |shell| {
        let text = program.run_for_text(&["completions", shell])? + "\n";
        Ok(CompletionScript { shell, text })
    };
    ["bash", "zsh", "fish"].into_iter().map(script).collect()
}

#[cfg(test)]
mod tests {
    use super::{hex_sha256, is_plain_version};

    #[test]
    fn versions_have_three_numbers() {
        assert!(is_plain_version("0.1.0") && is_plain_version("10.20.30"));
        for version in ["0.1", "0.1.0-rc.1", "1..0", "v1.0.0", ""] {
            assert!(!is_plain_version(version), "{version}");
        }
    }

    #[test]
    fn checksum_is_the_standards_own() {
        let empty = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
        assert_eq!(hex_sha256(b""), empty);
    }
}
