//! Logging to standard error or a file, filtered by `TOOLKEEP_LOG`.

mod log_file;

use std::path::Path;
use std::sync::Mutex;

use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::writer::BoxMakeWriter;

pub(crate) use log_file::{background_log_path, last_lines, open_background_log};

use super::command_context::{CommandContext, LogFormat};
use super::data_dir::DataDir;
use super::printer::OutputFormat;

/// The environment variable with the log filter.
const LOG_VARIABLE: &str = "TOOLKEEP_LOG";
/// The levels that may be given without a module.
const LEVEL_NAMES: [&str; 6] = ["off", "error", "warn", "info", "debug", "trace"];

/// Initializes logging. A server logs its activity; other commands log only errors, and changes of
/// the data directory that older versions cannot read. A server in the
/// `log_file` logs to a file of its data directory.
pub fn init_logging((is_server, log_file): (bool, Option<&Path>), context: &CommandContext<'_>) {
    let usual = if is_server { "info" } else { "error,intake=off,data_formats=warn" };
    let asked = context.environment.get(LOG_VARIABLE).unwrap_or(usual);
    let (filter, fault) = match parse_filter(asked) {
        Ok(filter) => (filter, None),
        Err(fault) => (EnvFilter::new(usual), Some(fault)),
    };
    let of_output = match context.global_args.output {
        OutputFormat::Json | OutputFormat::Yaml => LogFormat::Json,
        OutputFormat::Text | OutputFormat::Table => LogFormat::Text,
    };
    let log = tracing_subscriber::fmt().with_env_filter(filter).with_writer(log_writer(log_file));
    // An existing logger, as in a test, stays active.
    let _there = match context.global_args.log_format.unwrap_or(of_output) {
        LogFormat::Json => log.json().try_init(),
        LogFormat::Text => log.with_ansi(false).try_init(),
    };
    if let Some(fault) = fault {
        tracing::error!("{LOG_VARIABLE}: {fault}; the log is at `{usual}`");
    }
}

fn log_writer(background: Option<&Path>) -> BoxMakeWriter {
    let file = background.map(|data| background_log_path(&DataDir::new(data.to_owned())));
    match file.and_then(|path| log_file::LogFile::open_log(path).ok()) {
        Some(file) => BoxMakeWriter::new(Mutex::new(file)),
        None => BoxMakeWriter::new(std::io::stderr),
    }
}

/// Parses a log filter. A bare word that is not a level is rejected as a typo, because it would
/// silence everything but that module.
fn parse_filter(text: &str) -> Result<EnvFilter, String> {
    let words = text.split(',').map(str::trim).filter(|word| !word.is_empty());
    let words: Vec<_> = words.collect();
    if let Some(word) = words.iter().find(|word| !word.contains(['=', '[']) && !is_level(word)) {
        return Err(format!(
            "`{}` is not a log level; use {} or `MODULE=LEVEL`",
            word.escape_debug(),
            LEVEL_NAMES.join(", ")
        ));
    }
    EnvFilter::try_new(words.join(",")).map_err(|error| error.to_string())
}

fn is_level(word: &str) -> bool {
    LEVEL_NAMES.iter().any(|level| level.eq_ignore_ascii_case(word))
}

#[cfg(test)]
mod tests {
    use super::parse_filter;

    #[test]
    fn a_word_that_is_no_level_is_told() {
        for good in ["info", "DEBUG", "warn,server=debug", "off", "error, ledger=trace", ""] {
            parse_filter(good).unwrap();
        }
        let told = |text| parse_filter(text).unwrap_err();
        assert_eq!(
            told("bogus"),
            "`bogus` is not a log level; use off, error, warn, info, debug, trace or `MODULE=LEVEL`"
        );
        assert!(told("info,verbose").contains("`verbose`"));
        assert!(!told("server=loud").is_empty());
    }
}
