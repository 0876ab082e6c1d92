//! What a plugin needs of the machine: programs and modules, with least versions.
//!
//! Programs are looked for where its cage will see them. Python modules are looked for by its process.

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use crate::grant::Allowed;
use crate::manifest::{Kind, shown};
use crate::process::Told;

use super::PATH;
use super::plan::Plan;

/// One word of `dependencies`.
enum Dependency<'a> {
    /// `command:NAME`.
    Command(&'a str),
    /// `NAME`, `NAME>=1.2`, `python>=3.10`.
    Python(&'a str),
}

fn read(word: &str) -> Dependency<'_> {
    match word.strip_prefix("command:") {
        Some(name) => Dependency::Command(name.trim()),
        None => Dependency::Python(word.trim()),
    }
}

/// Those that the process looks for.
pub(super) fn python(words: &[String]) -> Vec<&str> {
    let python = words.iter().filter_map(|word| match read(word) {
        Dependency::Python(name) => Some(name),
        Dependency::Command(_) => None,
    });
    python.collect()
}

/// Tells of programs that are not there. A bare name is a program where the plugin is not Python's.
pub(super) fn commands(plan: &mut Plan, allowed: &Allowed) {
    let is_python = plan.manifest.kind == Kind::Python;
    let lacks = |word: &String| {
        let name = match read(word) {
            Dependency::Command(name) => name,
            Dependency::Python(name) if !is_python => name,
            Dependency::Python(_) => return None,
        };
        let missing = found(name, allowed).is_none();
        missing.then(|| format!("the command `{}` is not installed", shown(name)))
    };
    let told = |tool: Option<String>, message: String| Told { tool, missing: true, message };
    let all = plan.manifest.dependencies.iter().filter_map(lacks).map(|it| told(None, it));
    let each = plan.manifest.tools.iter().flat_map(|tool| {
        let lacking = tool.dependencies.iter().filter_map(lacks);
        lacking.map(|it| told(Some(tool.name.clone()), it)).collect::<Vec<_>>()
    });
    let told: Vec<Told> = all.chain(each).collect();
    for told in &told {
        plan.tell(told);
    }
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
