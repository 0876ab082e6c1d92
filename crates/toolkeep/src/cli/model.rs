//! `toolkeep model`.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use serde_json::json;

use super::context::Context;
use super::data::DataDir;
use super::failure::{Exit, Failure};
use super::ui::{Ui, clean};
use crate::config;

/// Install the language model that embed_text, similarity_search and classify_text need.
#[derive(Debug, Subcommand)]
pub(super) enum Model {
    Install(Install),
}

impl Model {
    pub(super) fn run(self, context: &Context<'_>, ui: &mut Ui) -> Result<Exit, Failure> {
        match self {
            Self::Install(command) => command.run(context, ui),
        }
    }
}

/// Try the model all-MiniLM-L6-v2, and copy it into the data directory.
///
/// PATH is its folder, with an `.onnx` file (inputs `ids` and `mask`, output `emb`: int8 weights are the
/// fastest) and `tokenizer.json`, or the `.onnx` file beside a `tokenizer.json`. Nothing is downloaded. A
/// server offers the tools from its next start on.
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  toolkeep model install ./all-MiniLM-L6-v2")]
pub(super) struct Install {
    /// The folder, or the `.onnx` file.
    #[arg(value_name = "PATH")]
    path: PathBuf,
}

impl Install {
    fn run(self, context: &Context<'_>, ui: &mut Ui) -> Result<Exit, Failure> {
        let reading = config::read(&context.setting(None));
        let Some(config) = reading.config else {
            return Err(Failure::of_faults(reading.faults));
        };
        let data = DataDir::at(config.data);
        data.make()?;
        let folder = builtins_llm::install(&self.path, &data.models()).map_err(|why| {
            let said = format!("the model is not installed: {}", clean(&why));
            Failure::new(Exit::Failed, said).fix(builtins_llm::HELP)
        })?;
        let tools: Vec<&str> = builtins_llm::names().collect();
        let answer = json!({ "folder": folder.display().to_string(), "tools": tools });
        ui.answer(&answer, || {
            let tools = tools.join(", ");
            format!(
                "installed in {}\na server offers {tools} from its next start on",
                folder.display()
            )
        })?;
        Ok(Exit::Done)
    }
}
