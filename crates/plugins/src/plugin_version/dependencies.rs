//! Dependencies of a plugin: programs and Python modules, with minimum versions.
//!
//! Programs are searched as the sandbox will see them. The process itself searches for Python
//! modules.

use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use sandbox::SandboxSpec;
use sandbox::process::CommandSpec;
use tokio::io::AsyncReadExt as _;

use crate::access::EffectiveAccess;
use crate::manifest::{PluginRuntime, escape_for_message};
use crate::plugin_process::ReportedProblem;

use super::plan::BuildPlan;
use super::{SANDBOX_PATH, VersionBuilder};

/// Time limit of a program's version query.
const VERSION_TIMEOUT: Duration = Duration::from_secs(5);
/// Maximum size of the version output, in bytes.
const MAX_VERSION_OUTPUT: u64 = 16 << 10;
/// Maximum number of version queries for one plugin.
const MAX_VERSION_CHECKS: usize = 20;

/// One word of `dependencies`.
enum Dependency<'a> {
    /// `command:NAME`, `command:NAME>=1.2`: the name, and the minimum version, if any.
    Command(&'a str, &'a str),
    /// `NAME`, `NAME>=1.2`, `python>=3.10`.
    Python(&'a str),
}

fn parse_dependency(word: &str) -> Dependency<'_> {
    match word.strip_prefix("command:") {
        Some(command) => {
            let (name, least) = split_minimum(command);
            Dependency::Command(name, least)
        }
        None => Dependency::Python(word.trim()),
    }
}

fn split_minimum(word: &str) -> (&str, &str) {
    let (name, least) = word.split_once(">=").unwrap_or((word, ""));
    (name.trim(), least.trim())
}

/// Returns the dependencies that the Python process looks up.
pub(super) fn python_dependencies(dependencies: &[String]) -> Vec<&str> {
    let python = dependencies.iter().filter_map(|word| match parse_dependency(word) {
        Dependency::Python(name) => Some(name),
        Dependency::Command(..) => None,
    });
    python.collect()
}

/// A program that is needed in some version.
struct RequiredProgram {
    tool_name: Option<String>,
    name: String,
    minimum_version: String,
    path: PathBuf,
}

/// Reports missing programs. A bare name is a program unless the plugin is in Python. Returns the
/// existing programs that require a version.
fn check_commands(plan: &mut BuildPlan, allowed: &EffectiveAccess) -> Vec<RequiredProgram> {
    let is_python = plan.manifest.kind == PluginRuntime::Python;
    let all = plan.manifest.dependencies.iter().map(|word| (None, word));
    let each = plan
        .manifest
        .tools
        .iter()
        .flat_map(|tool| tool.dependencies.iter().map(|word| (Some(tool.name.clone()), word)));
    let (mut told, mut required) = (Vec::new(), Vec::new());
    for (tool, word) in all.chain(each) {
        let (name, least) = match parse_dependency(word) {
            Dependency::Command(name, least) => (name, least),
            Dependency::Python(word) if !is_python => split_minimum(word),
            Dependency::Python(_) => continue,
        };
        match find_program(name, allowed) {
            None => {
                let message =
                    format!("the command `{}` is not installed", escape_for_message(name));
                told.push(ReportedProblem { tool, is_missing: true, message });
            }
            Some(_) if least.is_empty() => {}
            Some(path) => {
                let (name, least) = (name.to_owned(), least.to_owned());
                required.push(RequiredProgram {
                    tool_name: tool,
                    name,
                    minimum_version: least,
                    path,
                });
            }
        }
    }
    for told in &told {
        plan.add_problem(told);
    }
    required
}

impl VersionBuilder {
    /// Reports programs that are missing or too old. Each one with a minimum version is queried
    /// once, in the plugin's sandbox.
    pub(super) async fn check_programs(&self, plan: &mut BuildPlan, access: &EffectiveAccess) {
        let mut known: BTreeMap<PathBuf, Result<String, String>> = BTreeMap::new();
        for RequiredProgram { tool_name: tool, name, minimum_version: least, path } in
            check_commands(plan, access)
        {
            if known.len() >= MAX_VERSION_CHECKS && !known.contains_key(&path) {
                continue;
            }
            let have = if let Some(have) = known.get(&path) {
                have.clone()
            } else {
                let have = self.query_version(&path, access).await;
                known.insert(path, have.clone());
                have
            };
            let (name, least) = (escape_for_message(&name), escape_for_message(&least));
            let message = match have {
                Ok(have) if version_numbers(&have) >= version_numbers(&least) => continue,
                Ok(have) => format!("the command `{name}` has version {have}; {least} is required"),
                Err(why) => format!(
                    "the version of the command `{name}` is unknown ({why}); {least} is required"
                ),
            };
            plan.add_problem(&ReportedProblem { tool, is_missing: true, message });
        }
    }

    /// Queries the version of a program.
    async fn query_version(
        &self,
        path: &Path,
        allowed: &EffectiveAccess,
    ) -> Result<String, String> {
        let mut why = "it prints no version".to_owned();
        for word in ["--version", "-version", "version"] {
            match tokio::time::timeout(
                VERSION_TIMEOUT,
                self.run_version_command(path, word, allowed),
            )
            .await
            {
                Ok(Ok(text)) => {
                    if let Some(version) = find_version(&text) {
                        return Ok(version);
                    }
                }
                Ok(Err(error)) => why = error,
                Err(_) => {
                    why = format!("it did not respond within {} s", VERSION_TIMEOUT.as_secs());
                }
            }
        }
        Err(why)
    }

    async fn run_version_command(
        &self,
        path: &Path,
        word: &str,
        allowed: &EffectiveAccess,
    ) -> Result<String, String> {
        let mut sandbox_spec = SandboxSpec::new(self.sandbox_tier.clone()?);
        sandbox_spec.readable_paths.clone_from(&allowed.program_folders);
        let spec = CommandSpec {
            command: path.display().to_string(),
            args: vec![word.to_owned()],
            env: super::process_environment(allowed),
            clear_env: true,
            cwd: None,
            sandbox: Some(sandbox_spec),
        };
        let mut child =
            self.config.launcher.spawn_child(&spec).map_err(|error| error.to_string())?;
        child.wait_started().await.map_err(|error| error.to_string())?;
        drop(child.take_stdin());
        let (Some(out), Some(err)) = (child.take_stdout(), child.take_stderr()) else {
            return Err("it has no pipes".to_owned());
        };
        let (mut stdout_bytes, mut stderr_bytes) = (Vec::new(), Vec::new());
        let (mut out, mut err) = (out.take(MAX_VERSION_OUTPUT), err.take(MAX_VERSION_OUTPUT));
        let (out, err) =
            tokio::join!(out.read_to_end(&mut stdout_bytes), err.read_to_end(&mut stderr_bytes));
        out.and(err).map_err(|error| error.to_string())?;
        child.shut_down(sandbox::process::DEFAULT_GRACE).await;
        stdout_bytes.extend_from_slice(&stderr_bytes);
        Ok(String::from_utf8_lossy(&stdout_bytes).into_owned())
    }
}

/// The first word of numbers with dots.
fn find_version(text: &str) -> Option<String> {
    let words = text.split(|c: char| !(c.is_ascii_alphanumeric() || c == '.'));
    let parse_word = |word: &str| {
        let digits = word.trim_start_matches(|c: char| c.is_ascii_alphabetic());
        let end = digits.find(|c: char| !(c.is_ascii_digit() || c == '.')).unwrap_or(digits.len());
        let number = digits.get(..end)?.trim_matches('.');
        number.contains('.').then(|| number.to_owned())
    };
    words.take(200).find_map(parse_word)
}

/// A version as numbers, without zeros at its end.
fn version_numbers(version: &str) -> Vec<u64> {
    let parts = version.split('.').map_while(|part| {
        let end = part.find(|c: char| !c.is_ascii_digit()).unwrap_or(part.len());
        part.get(..end)?.parse().ok()
    });
    let mut numbers: Vec<u64> = parts.collect();
    while numbers.last() == Some(&0) {
        numbers.pop();
    }
    numbers
}

/// Finds a program that the sandbox can access.
pub(super) fn find_program(name: &str, access: &EffectiveAccess) -> Option<PathBuf> {
    if name.is_empty() || name.contains('/') {
        return None;
    }
    let granted =
        access.program_folders.iter().flat_map(|folder| [folder.join("bin"), folder.clone()]);
    let system = SANDBOX_PATH.split(':').map(PathBuf::from);
    granted.chain(system).map(|folder| folder.join(name)).find(|path| is_executable(path))
}

fn is_executable(path: &Path) -> bool {
    path.metadata().is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0)
}

/// Returns the command line with the absolute path of its program: in the plugin's folder if it
/// begins with `./`, else one that the sandbox exposes.
pub(super) fn resolve_command(
    command: &[String],
    plugin_dir: &Path,
    access: &EffectiveAccess,
) -> Result<Vec<String>, String> {
    let (program, args) = command.split_first().ok_or("no command")?;
    let path = match program.strip_prefix("./") {
        Some(inside) if !inside.split('/').any(|part| part == "..") => {
            Some(plugin_dir.join(inside))
        }
        Some(_) => None,
        None if program.starts_with('/') => Some(PathBuf::from(program)),
        None => find_program(program, access),
    };
    let path = path.filter(|path| is_executable(path));
    let path = path.ok_or_else(|| {
        format!(
            "the program `{}` does not \
            exist",
            escape_for_message(program)
        )
    })?;
    Ok(std::iter::once(path.display().to_string()).chain(args.iter().cloned()).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_found_in_what_programs_say() {
        for (said, is) in [
            ("git version 2.47.3", "2.47.3"),
            ("SBCL 2.5.2.debian", "2.5.2"),
            ("v20.19.2", "20.19.2"),
            ("GNU bash, version 5.2.37(1)-release (x86_64-pc-linux-gnu)", "5.2.37"),
            ("jq-1.7.1-Debian", "1.7.1"),
        ] {
            assert_eq!(find_version(said).as_deref(), Some(is), "{said}");
        }
        assert_eq!(find_version("usage: thing [OPTION]"), None);
        assert!(
            version_numbers("2.10") > version_numbers("2.9.9")
                && version_numbers("1.0.0") == version_numbers("1")
        );
    }
}
