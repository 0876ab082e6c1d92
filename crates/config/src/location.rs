//! Where the configuration file is, where no flag and no variable names one.
//!
//! The file can start programs. A person who runs a command in a folder means that folder's file. A program that runs
//! `toolkeep mcp` may do so in any folder, such as a repository that was just cloned: there the file counts only after a
//! person has trusted it.

use std::io;
use std::path::{Path, PathBuf};

use super::Environment;

/// The name of the file.
const NAME: &str = "toolkeep.yaml";
/// The list of trusted files, a path a line.
const TRUSTED: &str = "trusted_configurations";
/// The longest such list, in bytes.
const LIST: u64 = 1 << 20;

/// Who chose the current folder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Folder {
    /// A person.
    Chosen,
    /// A program.
    Given,
}

/// The configuration file, as it was found.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Location {
    /// The file.
    pub file: Option<PathBuf>,
    /// Whether a flag or a variable names it.
    pub is_named: bool,
    /// A file in the current folder that nobody trusted, and that is not read therefore.
    pub untrusted: Option<PathBuf>,
}

impl Location {
    /// The file that is named, else the one in the current folder, else the one in the user's folder of configurations.
    pub fn find(
        named: Option<PathBuf>,
        (folder, kind): (&Path, Folder),
        environment: &Environment,
    ) -> Self {
        if named.is_some() {
            return Self { file: named, is_named: true, untrusted: None };
        }
        let here = Some(folder.join(NAME)).filter(|file| file.is_file());
        let trusted = |file: &PathBuf| kind == Folder::Chosen || is_trusted(file, environment);
        let (file, untrusted) = match here {
            Some(file) if trusted(&file) => (Some(file), None),
            other => (None, other),
        };
        let usual = || environment.config_home().map(|home| home.join(NAME));
        let file = file.or_else(|| usual().filter(|file| file.is_file()));
        Self { file, is_named: false, untrusted }
    }
}

fn is_trusted(file: &Path, environment: &Environment) -> bool {
    let (Some(list), Ok(file)) = (list(environment), file.canonicalize()) else { return false };
    let text = rooted_fs::files::read_text(&list, LIST).unwrap_or_default();
    text.lines().any(|line| Path::new(line) == file)
}

/// Trusts a configuration file by its path: `toolkeep mcp` reads it when it is started in that folder.
///
/// # Errors
/// Where the file is not there, its path holds a line break, or the list cannot be written.
pub fn trust(file: &Path, environment: &Environment) -> io::Result<PathBuf> {
    let file = file.canonicalize()?;
    let line = file.to_str().filter(|line| !line.contains('\n'));
    let line = line.ok_or_else(|| io::Error::other("its path is no line of text"))?;
    let list = list(environment).ok_or_else(|| io::Error::other("there is no home folder"))?;
    if !is_trusted(&file, environment) {
        let text = match rooted_fs::files::read_text(&list, LIST) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => String::new(),
            read => read?,
        };
        if let Some(folder) = list.parent() {
            std::fs::create_dir_all(folder)?;
        }
        rooted_fs::private_file::replace(&list, format!("{text}{line}\n").as_bytes())?;
    }
    Ok(file)
}

fn list(environment: &Environment) -> Option<PathBuf> {
    Some(environment.config_home()?.join(TRUSTED))
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use super::{Environment, Folder, Location, trust};

    fn write(path: &Path) {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, "version: 1\n").unwrap();
    }

    #[test]
    fn a_file_of_the_current_folder_counts_before_the_users_own() {
        let home = tempfile::tempdir().unwrap();
        let environment: Environment =
            [("HOME", home.path().to_str().unwrap())].into_iter().collect();
        let (folder, usual) =
            (home.path().join("project"), home.path().join(".config/toolkeep/toolkeep.yaml"));
        fs::create_dir_all(&folder).unwrap();
        let find = |named: Option<&str>| {
            Location::find(named.map(Into::into), (&folder, Folder::Chosen), &environment)
        };
        assert_eq!(find(None), Location::default());
        write(&usual);
        assert_eq!(find(None).file, Some(usual));
        write(&folder.join("toolkeep.yaml"));
        assert_eq!(find(None).file, Some(folder.join("toolkeep.yaml")));
        let named = find(Some("x.yaml"));
        assert_eq!((named.file, named.is_named), (Some("x.yaml".into()), true));
    }

    #[test]
    fn a_program_in_a_folder_that_nobody_trusted_gets_no_configuration_of_it() {
        let home = tempfile::tempdir().unwrap();
        let environment: Environment =
            [("HOME", home.path().to_str().unwrap())].into_iter().collect();
        let (ours, cloned) = (home.path().join("ours"), home.path().join("cloned"));
        for folder in [&ours, &cloned] {
            write(&folder.join("toolkeep.yaml"));
        }
        trust(&ours.join("toolkeep.yaml"), &environment).unwrap();
        trust(&ours.join("toolkeep.yaml"), &environment).unwrap();
        let find = |folder: &Path, kind| Location::find(None, (folder, kind), &environment);
        let refused = find(&cloned, Folder::Given);
        assert_eq!((refused.file, refused.untrusted), (None, Some(cloned.join("toolkeep.yaml"))));
        // The controls: a person gets it, and a program in a folder that is trusted gets that one.
        assert!(find(&cloned, Folder::Chosen).file.is_some());
        assert_eq!(find(&ours, Folder::Given).file, Some(ours.join("toolkeep.yaml")));
        let list = home.path().join(".config/toolkeep/trusted_configurations");
        assert_eq!(fs::read_to_string(list).unwrap().lines().count(), 1);
    }
}
