//! What a plugin needs of the machine: programs and modules, with least versions.
//!
//! Programs are looked for where its cage will see them. Python modules are looked for by its process.

use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use sandbox::Cage;
use sandbox::process::Spec;
use tokio::io::AsyncReadExt as _;

use crate::grant::Allowed;
use crate::manifest::{Kind, shown};
use crate::process::Told;

use super::plan::Plan;
use super::{Maker, PATH};

/// How long a program may take to tell its version.
const ASKED: Duration = Duration::from_secs(5);
/// Bytes of what it says that are read.
const SAID: u64 = 16 << 10;
/// Programs of one plugin that are asked.
const MOST_ASKED: usize = 20;

/// One word of `dependencies`.
enum Dependency<'a> {
    /// `command:NAME`, `command:NAME>=1.2`: the name, and the least version where one is named.
    Command(&'a str, &'a str),
    /// `NAME`, `NAME>=1.2`, `python>=3.10`.
    Python(&'a str),
}

fn read(word: &str) -> Dependency<'_> {
    match word.strip_prefix("command:") {
        Some(command) => {
            let (name, least) = split(command);
            Dependency::Command(name, least)
        }
        None => Dependency::Python(word.trim()),
    }
}

fn split(word: &str) -> (&str, &str) {
    let (name, least) = word.split_once(">=").unwrap_or((word, ""));
    (name.trim(), least.trim())
}

/// Those that the process looks for.
pub(super) fn python(words: &[String]) -> Vec<&str> {
    let python = words.iter().filter_map(|word| match read(word) {
        Dependency::Python(name) => Some(name),
        Dependency::Command(..) => None,
    });
    python.collect()
}

/// A program that is needed in some version.
struct Wanted {
    tool: Option<String>,
    name: String,
    least: String,
    path: PathBuf,
}

/// Tells of programs that are not there. A bare name is a program where the plugin is not Python's.
/// Answers those that are there and must have a version.
fn commands(plan: &mut Plan, allowed: &Allowed) -> Vec<Wanted> {
    let is_python = plan.manifest.kind == Kind::Python;
    let all = plan.manifest.dependencies.iter().map(|word| (None, word));
    let each = plan
        .manifest
        .tools
        .iter()
        .flat_map(|tool| tool.dependencies.iter().map(|word| (Some(tool.name.clone()), word)));
    let (mut told, mut wanted) = (Vec::new(), Vec::new());
    for (tool, word) in all.chain(each) {
        let (name, least) = match read(word) {
            Dependency::Command(name, least) => (name, least),
            Dependency::Python(word) if !is_python => split(word),
            Dependency::Python(_) => continue,
        };
        match found(name, allowed) {
            None => {
                let message = format!("the command `{}` is not installed", shown(name));
                told.push(Told { tool, missing: true, message });
            }
            Some(_) if least.is_empty() => {}
            Some(path) => {
                let (name, least) = (name.to_owned(), least.to_owned());
                wanted.push(Wanted { tool, name, least, path });
            }
        }
    }
    for told in &told {
        plan.tell(told);
    }
    wanted
}

impl Maker {
    /// Tells of programs that are not there, or are too old. Each that must have a version is asked for
    /// it once, in the plugin's cage.
    pub(super) async fn programs(&self, plan: &mut Plan, allowed: &Allowed) {
        let mut known: BTreeMap<PathBuf, Result<String, String>> = BTreeMap::new();
        for Wanted { tool, name, least, path } in commands(plan, allowed) {
            if known.len() >= MOST_ASKED && !known.contains_key(&path) {
                continue;
            }
            let have = if let Some(have) = known.get(&path) {
                have.clone()
            } else {
                let have = self.version_of(&path, allowed).await;
                known.insert(path, have.clone());
                have
            };
            let (name, least) = (shown(&name), shown(&least));
            let message = match have {
                Ok(have) if numbers(&have) >= numbers(&least) => continue,
                Ok(have) => format!("the command `{name}` is {have}, and {least} is needed"),
                Err(why) => format!(
                    "the version of the command `{name}` is not known ({why}), and {least} is needed"
                ),
            };
            plan.tell(&Told { tool, missing: true, message });
        }
    }

    /// What a program says of its version.
    async fn version_of(&self, path: &Path, allowed: &Allowed) -> Result<String, String> {
        let mut why = "it does not tell".to_owned();
        for word in ["--version", "-version", "version"] {
            match tokio::time::timeout(ASKED, self.says(path, word, allowed)).await {
                Ok(Ok(text)) => {
                    if let Some(version) = version(&text) {
                        return Ok(version);
                    }
                }
                Ok(Err(error)) => why = error,
                Err(_) => why = format!("it does not answer within {} s", ASKED.as_secs()),
            }
        }
        Err(why)
    }

    async fn says(&self, path: &Path, word: &str, allowed: &Allowed) -> Result<String, String> {
        let mut cage = Cage::new(self.tier.clone()?);
        cage.readable.clone_from(&allowed.programs);
        let spec = Spec {
            command: path.display().to_string(),
            args: vec![word.to_owned()],
            env: super::environment(allowed),
            clear_env: true,
            cwd: None,
            cage: Some(cage),
        };
        let mut child = self.means.launcher.spawn(&spec).map_err(|error| error.to_string())?;
        child.started().await.map_err(|error| error.to_string())?;
        drop(child.stdin());
        let (Some(out), Some(err)) = (child.stdout(), child.stderr()) else {
            return Err("it has no pipes".to_owned());
        };
        let (mut said, mut beside) = (Vec::new(), Vec::new());
        let (mut out, mut err) = (out.take(SAID), err.take(SAID));
        let (out, err) = tokio::join!(out.read_to_end(&mut said), err.read_to_end(&mut beside));
        out.and(err).map_err(|error| error.to_string())?;
        child.kill(sandbox::process::GRACE).await;
        said.extend_from_slice(&beside);
        Ok(String::from_utf8_lossy(&said).into_owned())
    }
}

/// The first word of numbers with dots.
fn version(text: &str) -> Option<String> {
    let words = text.split(|c: char| !(c.is_ascii_alphanumeric() || c == '.'));
    let of = |word: &str| {
        let digits = word.trim_start_matches(|c: char| c.is_ascii_alphabetic());
        let end = digits.find(|c: char| !(c.is_ascii_digit() || c == '.')).unwrap_or(digits.len());
        let number = digits.get(..end)?.trim_matches('.');
        number.contains('.').then(|| number.to_owned())
    };
    words.take(200).find_map(of)
}

/// A version as numbers, without zeros at its end.
fn numbers(version: &str) -> Vec<u64> {
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

/// A program that the cage sees.
pub(super) fn found(name: &str, allowed: &Allowed) -> Option<PathBuf> {
    if name.is_empty() || name.contains('/') {
        return None;
    }
    let granted = allowed.programs.iter().flat_map(|folder| [folder.join("bin"), folder.clone()]);
    let system = PATH.split(':').map(PathBuf::from);
    granted.chain(system).map(|folder| folder.join(name)).find(|path| runs(path))
}

fn runs(path: &Path) -> bool {
    path.metadata().is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0)
}

/// The command line with an absolute program: one of the folder, which is meant by `./`, or one that the
/// cage sees.
pub(super) fn placed(
    words: &[String],
    copy: &Path,
    allowed: &Allowed,
) -> Result<Vec<String>, String> {
    let (program, args) = words.split_first().ok_or("no command")?;
    let path = match program.strip_prefix("./") {
        Some(inside) if !inside.split('/').any(|part| part == "..") => Some(copy.join(inside)),
        Some(_) => None,
        None if program.starts_with('/') => Some(PathBuf::from(program)),
        None => found(program, allowed),
    };
    let path = path.filter(|path| runs(path));
    let path = path.ok_or_else(|| format!("there is no program `{}`", shown(program)))?;
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
            assert_eq!(version(said).as_deref(), Some(is), "{said}");
        }
        assert_eq!(version("usage: thing [OPTION]"), None);
        assert!(numbers("2.10") > numbers("2.9.9") && numbers("1.0.0") == numbers("1"));
    }
}
