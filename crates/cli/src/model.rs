//! Implements `toolkeep model`: installation of language models.

use std::path::PathBuf;
use std::sync::Arc;

use builtins::SandboxProvider;
use builtins_llm::{Hub, InstalledModel, PinnedModel, Progress};
use clap::{Args, Subcommand};
use egress::{EgressClient, EgressOptions};
use serde_json::json;

use cli_core::command_context::CommandContext;
use cli_core::command_error::{CommandError, ExitStatus};
use cli_core::data_dir::DataDir;
use cli_core::printer::{Printer, sanitize_text};
use cli_core::process_launcher::child_launcher;

/// Install a language model for embed_text, similarity_search and classify_text.
#[derive(Debug, Subcommand)]
pub(crate) enum ModelCommand {
    Install(ModelInstallArgs),
}

impl ModelCommand {
    pub(crate) async fn run(
        self,
        context: &CommandContext<'_>,
        ui: &mut Printer,
    ) -> Result<ExitStatus, CommandError> {
        match self {
            Self::Install(command) => command.run(context, ui).await,
        }
    }
}

/// Install a language model in the data directory, from a download or from PATH.
///
/// Without PATH, downloads all-MiniLM-L6-v2 (Apache-2.0, 23 MB, 384 dimensions) at a pinned
/// revision and verifies the SHA-256 of each file. The next run resumes an interrupted download.
/// `--mirror`, TOOLKEEP_MODEL_MIRROR or `builtins.model_mirror`, in this order, names another
/// server with the same paths (`/ORG/NAME/resolve/REVISION/FILE`).
///
/// PATH is an `.onnx` file, or a directory with one and `tokenizer.json`. Public exports of
/// sentence models are supported. The input is `input_ids`, optionally with `attention_mask` and
/// `token_type_ids`. The output is `sentence_embedding`, `last_hidden_state` (mean pooling) or
/// `pooler_output`. The tokenizer must be an uncased BERT WordPiece tokenizer.
///
/// The model is first tested in a sandboxed process, as a server runs it; without a sandbox it is
/// not installed. It replaces the installed model. A server uses it after its next start. Without a
/// model, the tools use built-in word vectors.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  toolkeep model install
  toolkeep model install --mirror https://models.example.com
  toolkeep model install ./all-MiniLM-L6-v2")]
pub(crate) struct ModelInstallArgs {
    /// `.onnx` file, or the directory that contains it.
    #[arg(value_name = "PATH")]
    path: Option<PathBuf>,
    /// Server to download from instead of the public hub. It may be in a private network.
    #[arg(long, value_name = "URL", env = "TOOLKEEP_MODEL_MIRROR")]
    mirror: Option<String>,
}

impl ModelInstallArgs {
    async fn run(
        self,
        context: &CommandContext<'_>,
        ui: &mut Printer,
    ) -> Result<ExitStatus, CommandError> {
        let config = context.load_config()?;
        let data = DataDir::new(config.data_dir);
        data.create_dir()?;
        let sandboxes =
            Arc::new(SandboxProvider::new(child_launcher(), None, config.server.min_sandbox_level));
        let installed = if let Some(path) = &self.path {
            builtins_llm::install_model(path, &data.models_dir(), &sandboxes).await
        } else {
            let mirror = self.mirror.filter(|it| !it.is_empty());
            download_model(mirror.or(config.builtins.model_mirror), (&data, &sandboxes), ui).await
        };
        let installed = installed.map_err(|why| {
            let said = format!("the model is not installed: {}", sanitize_text(&why));
            CommandError::new(ExitStatus::Failed, said).with_help(builtins_llm::HELP)
        })?;
        let tools: Vec<&str> =
            builtin_manifests::ToolFamily::Text.registry().tool_names().collect();
        let (folder, facts) = (installed.folder().display().to_string(), installed.facts());
        let answer = json!({ "folder": folder, "model": facts, "tools": tools });
        ui.print_result(&answer, || {
            let (model, tools) = (facts.label(), tools.join(", "));
            format!(
                "installed {model} in {folder}\na server uses it for {tools} after its next start"
            )
        })?;
        Ok(ExitStatus::Success)
    }
}

/// Downloads the pinned model and installs it; reports progress at each tenth.
async fn download_model(
    mirror: Option<String>,
    (data, sandboxes): (&DataDir, &Arc<SandboxProvider>),
    ui: &mut Printer,
) -> Result<InstalledModel, String> {
    let egress = EgressClient::new(EgressOptions::default()).map_err(|error| error.to_string())?;
    let hub = Hub::new(egress, mirror.as_deref())?;
    let mut last = (String::new(), 0);
    let mut progress = |at: Progress<'_>| {
        let tenth = at.received.saturating_mul(10) / at.size.max(1);
        if last.0 != at.file || last.1 != tenth {
            last = (at.file.to_owned(), tenth);
            ui.print_note(&format!("{}: {} % of {} kB", at.file, tenth * 10, at.size / 1_000));
        }
    };
    hub.install(&PinnedModel::all_minilm(), (&data.models_dir(), sandboxes), &mut progress).await
}
