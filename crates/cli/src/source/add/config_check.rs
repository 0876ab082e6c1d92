//! Validation of the configuration before and after a source is added.

use std::fs;
use std::path::Path;

use rooted_fs::private_file;
use tool::ErrorCode;

use cli_core::command_error::CommandError;
use config::{Config, ConfigErrors, LoadOptions, SourceConfig};

/// Loads the configuration of a file, which must be valid.
///
/// # Errors
/// Returns the configuration errors.
pub(super) fn load_valid_config(
    options: &LoadOptions,
    file: &Path,
) -> Result<Config, CommandError> {
    let options = LoadOptions { file: Some(file.to_owned()), ..options.clone() };
    config::load_config(&options).into_valid_config().map_err(CommandError::from_config_errors)
}

/// Checks that no source has the name.
///
/// # Errors
/// Returns an error with the place of the existing source.
pub(super) fn check_name_is_free(config: &Config, name: &str) -> Result<(), CommandError> {
    let Some(taken) = config.sources.iter().find(|source| source.name.as_str() == name) else {
        return Ok(());
    };
    let config::ConfigLocation { file, position } = &taken.location;
    let (file, line, column) = (super::display_path(file), position.line, position.column);
    let message = format!("{file}:{line}:{column}: the source `{name}` exists already");
    let failure = CommandError::from_error_code(ErrorCode::InvalidConfig.as_str(), message);
    Err(failure.with_help("choose another name, or edit the existing source"))
}

/// Validates the text as the content of the file: it must be valid and contain all existing sources
/// and the new one.
///
/// # Errors
/// Returns the errors, with their places in the file.
pub(super) fn check_new_text(
    options: &LoadOptions,
    file: &Path,
    old_config: &Config,
    text: &str,
    name: &str,
) -> Result<(), CommandError> {
    let unwritten = |error: std::io::Error| super::file_error(file, "tried", &error);
    // In the same directory, because paths are relative to it. For a link, it is the directory of
    // the link.
    let trial = private_file::temporary_path(file).map_err(unwritten)?;
    // Private, because the configuration may contain secrets.
    let written = private_file::create_atomically(&trial, text.as_bytes());
    let reading = written.map(|()| load_valid_config(options, &trial));
    drop(fs::remove_file(&trial));
    let after =
        reading.map_err(unwritten)?.map_err(|failure| with_original_path(failure, &trial, file))?;
    let names = |sources: &[SourceConfig]| {
        let names = sources.iter().map(|source| (source.name.to_string(), source.kind.as_str()));
        names.collect::<Vec<_>>()
    };
    let mut rest = names(&after.sources);
    let new = rest.iter().position(|(found, _)| found == name);
    let new = new.map(|at| rest.remove(at));
    if new.is_none() || rest != names(&old_config.sources) {
        let message = "no source can be added to the list of sources in its current form";
        return Err(CommandError::from_error_code(ErrorCode::InvalidConfig.as_str(), message)
            .with_help("write one source per line, or add the source by hand"));
    }
    Ok(())
}

/// Rewrites the errors to name the file instead of the temporary one.
fn with_original_path(failure: CommandError, trial: &Path, file: &Path) -> CommandError {
    let Some(errors) = failure.config_errors() else { return failure };
    let mut errors: ConfigErrors = errors.clone();
    for error in &mut errors.0 {
        if error.file == trial {
            file.clone_into(&mut error.file);
        }
    }
    CommandError::from_config_errors(errors).with_help("the file was not changed")
}
