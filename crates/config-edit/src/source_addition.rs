//! Addition of a source to the list of sources.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use config::{Config, ConfigErrors, ConfigLocation, LoadOptions, SourceConfig};
use rooted_fs::file_replacement::replace_file;
use serde_json::{Map, Value};

use crate::yaml_insertion::{InsertError, insert_entry};

/// A configuration file that is about to be edited.
#[derive(Debug)]
pub struct ConfigEdit {
    options: LoadOptions,
    file: PathBuf,
    text: String,
    config: Config,
}

/// A source that can be added: the new text of the file, which is valid.
#[derive(Debug)]
pub struct SourceAddition {
    /// The file.
    pub file: PathBuf,
    /// The inserted lines.
    pub lines: String,
    /// Number of the first inserted line, from 1.
    pub line: usize,
    /// The configuration with the source.
    pub config: Config,
    old_text: String,
    new_text: String,
}

/// An edit that is not possible.
#[derive(Debug)]
pub struct EditError {
    /// What the error is about.
    pub kind: EditErrorKind,
    /// Description of the error.
    pub message: String,
    /// Remedy, if one is known.
    pub help: Option<String>,
}

/// The subject of an error of an edit.
#[derive(Debug)]
pub enum EditErrorKind {
    /// No configuration file is given.
    NoFile,
    /// The entry cannot be written as YAML.
    InvalidEntry,
    /// The file does not allow the edit.
    InvalidConfig,
    /// The file as it is, or as it would be, has these errors.
    ConfigErrors(Box<ConfigErrors>),
    /// The file cannot be read or written.
    Failed,
}

impl EditError {
    fn new(kind: EditErrorKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into(), help: None }
    }

    fn with_help(self, help: impl Into<String>) -> Self {
        Self { help: Some(help.into()), ..self }
    }

    fn from_errors(errors: ConfigErrors) -> Self {
        let message = errors.to_string();
        Self::new(EditErrorKind::ConfigErrors(Box::new(errors)), message)
    }

    fn of_file(file: &Path, how: &str, error: &io::Error) -> Self {
        let message = format!("`{}` cannot be {how}: {error}", display_path(file));
        Self::new(EditErrorKind::Failed, message)
    }
}

impl ConfigEdit {
    /// Opens the configuration file, which must be valid. Blocks on the disk.
    ///
    /// # Errors
    /// [`EditErrorKind::NoFile`] without a file; the errors of the file.
    pub fn open(options: LoadOptions) -> Result<Self, EditError> {
        let Some(file) = &options.file else {
            let error = EditError::new(EditErrorKind::NoFile, "no configuration file is given");
            return Err(error.with_help("pass `--config FILE`, or set TOOLKEEP_CONFIG"));
        };
        let file = options.current_dir.join(file);
        let options = LoadOptions { file: Some(file.clone()), ..options };
        let text = read_text(&file)?;
        let config = config::load_config_text(&options, &text).into_valid_config();
        let config = config.map_err(EditError::from_errors)?;
        Ok(Self { options, file, text, config })
    }

    /// Checks that no source has the name.
    ///
    /// # Errors
    /// The place of the existing source.
    pub fn check_name(&self, name: &str) -> Result<(), EditError> {
        let taken = self.config.sources.iter().find(|source| source.name.as_str() == name);
        let Some(taken) = taken else { return Ok(()) };
        let ConfigLocation { file, position } = &taken.location;
        let (file, line, column) = (display_path(file), position.line, position.column);
        let message = format!("{file}:{line}:{column}: the source `{name}` exists already");
        Err(EditError::new(EditErrorKind::InvalidConfig, message)
            .with_help("choose another name, or edit the existing source"))
    }

    /// Inserts a source, as its keys and values in the file. Nothing is written yet. Blocks on the
    /// disk.
    ///
    /// # Errors
    /// The errors that the file would have, with their places in it, and those of the list of
    /// sources if it does not allow an insertion.
    pub fn add_source(&self, entry: &Map<String, Value>) -> Result<SourceAddition, EditError> {
        let name = entry.get("name").and_then(Value::as_str).unwrap_or_default();
        self.check_name(name)?;
        let lines = render_entry(entry)?;
        let inserted = insert_entry(&self.text, &lines)
            .map_err(|error| self.insertion_error(&error, &lines))?;
        let config = config::load_config_text(&self.options, &inserted.text).into_valid_config();
        let config = config.map_err(|errors| {
            EditError::from_errors(errors).with_help("the file was not changed")
        })?;
        self.check_sources(&config, name)?;
        Ok(SourceAddition {
            file: self.file.clone(),
            lines: inserted.lines,
            line: inserted.line,
            config,
            old_text: self.text.clone(),
            new_text: inserted.text,
        })
    }

    /// Checks that the new list has all former sources and the new one.
    fn check_sources(&self, after: &Config, name: &str) -> Result<(), EditError> {
        let names = |sources: &[SourceConfig]| {
            let names =
                sources.iter().map(|source| (source.name.to_string(), source.kind.as_str()));
            names.collect::<Vec<_>>()
        };
        let mut rest = names(&after.sources);
        let new = rest.iter().position(|(found, _)| found == name);
        let new = new.map(|at| rest.remove(at));
        if new.is_some() && rest == names(&self.config.sources) {
            return Ok(());
        }
        let message = "no source can be added to the list of sources in its current form";
        Err(EditError::new(EditErrorKind::InvalidConfig, message)
            .with_help("write one source per line, or add the source by hand"))
    }

    fn insertion_error(&self, error: &InsertError, lines: &str) -> EditError {
        let place = format!("{}:{}", display_path(&self.file), error.line);
        let help = format!("write one source per line, or add these lines by hand:\n{lines}");
        EditError::new(EditErrorKind::InvalidConfig, format!("{place}: {}", error.reason))
            .with_help(help.trim_end())
    }
}

impl SourceAddition {
    /// Writes the file, with its permissions. Blocks on the disk.
    ///
    /// # Errors
    /// The file has changed since it was read, or cannot be written.
    pub fn write(&self) -> Result<(), EditError> {
        if read_text(&self.file)? != self.old_text {
            let message = format!("`{}` has changed in the meantime", display_path(&self.file));
            return Err(EditError::new(EditErrorKind::Failed, message).with_help("try again"));
        }
        replace_file(&self.file, self.new_text.as_bytes())
            .map_err(|error| EditError::of_file(&self.file, "written", &error))
    }
}

/// Renders the entry as lines of YAML, the first without its `- `, each with a line break.
fn render_entry(entry: &Map<String, Value>) -> Result<String, EditError> {
    // No block scalars: every value is on the line of its key.
    let options = serde_saphyr::ser_options! { prefer_block_scalars: false };
    serde_saphyr::to_string_with_options(entry, options).map_err(|error| {
        let message = format!("the source cannot be encoded as YAML: {error}");
        EditError::new(EditErrorKind::InvalidEntry, message)
    })
}

fn read_text(file: &Path) -> Result<String, EditError> {
    fs::read_to_string(file).map_err(|error| EditError::of_file(file, "read", &error))
}

fn display_path(file: &Path) -> String {
    file.display().to_string().escape_debug().to_string()
}

#[cfg(test)]
mod tests;
