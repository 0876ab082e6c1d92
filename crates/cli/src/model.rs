//! Implements `toolkeep model`: installation of language models.

use std::path::PathBuf;
use std::sync::Arc;

use builtins::Cages;
use builtins_llm::{Hub, Installed, PinnedModel, Progress};
use clap::{Args, Subcommand};
use egress::{Egress, EgressSettings};
use serde_json::json;

use cli_core::context::Context;
use cli_core::data::DataDir;
use cli_core::failure::{Exit, Failure};
use cli_core::launch::launcher;
use cli_core::ui::{Ui, clean};

/// Install a language model for embed_text, similarity_search and classify_text.
#[derive(Debug, Subcommand)]
pub(crate) enum Model {
    Install(Install),
}

impl Model {
    pub(crate) async fn run(self, context: &Context<'_>, ui: &mut Ui) -> Result<Exit, Failure> {
        match self {
            Self::Install(command) => command.run(context, ui).await,
        }
    }
}

/// Download a language model, or take one from PATH, and install it in the data directory.
///
/// Without PATH, downloads all-MiniLM-L6-v2 (Apache-2.0, 23 MB, 384 dimensions) from a pinned revision and checks
/// each file's SHA-256. A download that breaks off is continued by the next run. `--mirror`, else
/// TOOLKEEP_MODEL_MIRROR, else `builtins.model_mirror` of the configuration names another server with the same
/// paths (`/ORG/NAME/resolve/REVISION/FILE`).
///
/// PATH is a folder with an `.onnx` file and `tokenizer.json`, or the `.onnx` file. Public exports of sentence
/// models fit: the input `input_ids`, optionally `attention_mask` and `token_type_ids`, and the output
/// `sentence_embedding`, `last_hidden_state` (the mean is taken) or `pooler_output`. The tokenizer must be a BERT
/// WordPiece without capitals.
///
/// The model is tried in a sandboxed process first, as a server runs it; a machine without a sandbox takes none.
/// It replaces the one that was installed. A server uses it from its next start on; until one is installed,
/// built-in word vectors answer.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  toolkeep model install
  toolkeep model install --mirror https://models.example.com
  toolkeep model install ./all-MiniLM-L6-v2")]
pub(crate) struct Install {
    /// The folder, or the `.onnx` file.
    #[arg(value_name = "PATH")]
    path: Option<PathBuf>,
    /// The server to download from, instead of the public hub; it may be in a private network.
    #[arg(long, value_name = "URL", env = "TOOLKEEP_MODEL_MIRROR")]
    mirror: Option<String>,
}

impl Install {
    async fn run(self, context: &Context<'_>, ui: &mut Ui) -> Result<Exit, Failure> {
        let reading = config::read(&context.setting(None));
        let Some(config) = reading.config else {
            return Err(Failure::of_faults(reading.faults));
        };
        let data = DataDir::at(config.data);
        data.make()?;
        let cages = Arc::new(Cages::new(launcher(), None, config.server.cage));
        let installed = if let Some(path) = &self.path {
            builtins_llm::install(path, &data.models(), &cages).await
        } else {
            let mirror = self.mirror.filter(|it| !it.is_empty());
            download(mirror.or(config.builtins.model_mirror), (&data, &cages), ui).await
        };
        let installed = installed.map_err(|why| {
            let said = format!("the model is not installed: {}", clean(&why));
            Failure::new(Exit::Failed, said).fix(builtins_llm::HELP)
        })?;
        let tools: Vec<&str> = builtin_manifests::Family::Text.registry().names().collect();
        let (folder, facts) = (installed.folder().display().to_string(), installed.facts());
        let answer = json!({ "folder": folder, "model": facts, "tools": tools });
        ui.answer(&answer, || {
            let (model, tools) = (facts.label(), tools.join(", "));
            format!(
                "installed {model} in {folder}\na server uses it for {tools} from its next start on"
            )
        })?;
        Ok(Exit::Done)
    }
}

/// Downloads the pinned model and installs it; reports progress at each tenth.
async fn download(
    mirror: Option<String>,
    (data, cages): (&DataDir, &Arc<Cages>),
    ui: &mut Ui,
) -> Result<Installed, String> {
    let egress = Egress::new(EgressSettings::default()).map_err(|error| error.to_string())?;
    let hub = Hub::new(egress, mirror.as_deref())?;
    let mut last = (String::new(), 0);
    let mut progress = |at: Progress<'_>| {
        let tenth = at.received.saturating_mul(10) / at.size.max(1);
        if last.0 != at.file || last.1 != tenth {
            last = (at.file.to_owned(), tenth);
            ui.note(&format!("{}: {} % of {} kB", at.file, tenth * 10, at.size / 1_000));
        }
    };
    hub.install(&PinnedModel::shipped(), (&data.models(), cages), &mut progress).await
}
