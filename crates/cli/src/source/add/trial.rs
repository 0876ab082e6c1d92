//! Validation of the configuration, as it is and as it would be.

use std::fs;
use std::path::Path;

use rooted_fs::private_file;
use tool::Code;

use cli_core::failure::Failure;
use cli_core::replace::beside;
use config::{Config, Faults, Setting, SourceConfig};

/// Loads the configuration of a file, which must be valid.
///
/// # Errors
/// Returns the configuration errors.
pub(super) fn of(setting: &Setting, file: &Path) -> Result<Config, Failure> {
    let setting = Setting { file: Some(file.to_owned()), ..setting.clone() };
    config::read(&setting).whole().map_err(Failure::of_faults)
}

/// Checks that no source has the name.
///
/// # Errors
/// Returns an error with the place of the existing source.
pub(super) fn free(config: &Config, name: &str) -> Result<(), Failure> {
    let Some(taken) = config.sources.iter().find(|source| source.name.as_str() == name) else {
        return Ok(());
    };
    let (file, place) = &taken.written;
    let (file, line, column) = (super::shown(file), place.line, place.column);
    let message = format!("{file}:{line}:{column}: there is a source `{name}` already");
    let failure = Failure::of_code(Code::InvalidConfig.as_str(), message);
    Err(failure.fix("choose another name, or change that entry"))
}

/// Validates the text as the content of the file: it must be valid and contain all existing sources
/// and the new one.
///
/// # Errors
/// Returns the errors, with their places in the file.
pub(super) fn fits(
    setting: &Setting,
    file: &Path,
    before: &Config,
    text: &str,
    name: &str,
) -> Result<(), Failure> {
    let unwritten = |error: std::io::Error| super::unusable(file, "tried", &error);
    // In the same directory, because paths are relative to it. For a link, it is the directory of
    // the link.
    let trial = beside(file).map_err(unwritten)?;
    // Private, because the configuration may contain secrets.
    let written = private_file::create_with(&trial, text.as_bytes());
    let reading = written.map(|()| of(setting, &trial));
    drop(fs::remove_file(&trial));
    let after = reading.map_err(unwritten)?.map_err(|failure| renamed(failure, &trial, file))?;
    let names = |sources: &[SourceConfig]| {
        let names = sources.iter().map(|source| (source.name.to_string(), source.kind.as_str()));
        names.collect::<Vec<_>>()
    };
    let mut rest = names(&after.sources);
    let new = rest.iter().position(|(found, _)| found == name);
    let new = new.map(|at| rest.remove(at));
    if new.is_none() || rest != names(&before.sources) {
        let message = "the list of sources is written in a way that cannot be added to";
        return Err(Failure::of_code(Code::InvalidConfig.as_str(), message)
            .fix("write it as a line for each source, or put the source in by hand"));
    }
    Ok(())
}

/// Rewrites the errors to name the file instead of the temporary one.
fn renamed(failure: Failure, trial: &Path, file: &Path) -> Failure {
    let Some(faults) = failure.faults() else { return failure };
    let mut faults: Faults = faults.clone();
    for fault in &mut faults.0 {
        if fault.file == trial {
            file.clone_into(&mut fault.file);
        }
    }
    Failure::of_faults(faults).fix("nothing was written")
}
