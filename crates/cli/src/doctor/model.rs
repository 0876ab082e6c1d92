//! Check of the embeddings: the built-in word vectors, or an installed model that must load.

use std::sync::Arc;

use builtins::{SandboxProvider, WorkerError};
use builtins_llm::InstalledModel;

use super::CheckFinding;
use cli_core::data_dir::DataDir;

/// Checks the language model. A missing model is no error, because built-in word vectors replace
/// it; an installed one is loaded in a sandboxed process, as by a server.
pub(super) async fn model_finding(
    data_dir: &DataDir,
    sandboxes: &Arc<SandboxProvider>,
) -> CheckFinding {
    let Some(found) = InstalledModel::locate_model(&data_dir.models_dir(), sandboxes) else {
        let (tools, model) = (model_tools(), builtins_llm::built_in_label());
        let detail =
            format!("none installed: {tools} use {model}; `toolkeep model install` installs one");
        return CheckFinding::ok("language model", detail);
    };
    let loaded = found.load_model().await;
    judge_model(&found, loaded, sandboxes.fix_hint().await)
}

/// Judges an installed model by its load result; `advice` applies to a machine without a sandbox.
pub(super) fn judge_model(
    installed: &InstalledModel,
    load_result: Result<(), WorkerError>,
    advice: &str,
) -> CheckFinding {
    let (tools, model, place) =
        (model_tools(), installed.facts().label(), installed.folder().display());
    match load_result {
        Ok(()) => CheckFinding::ok("language model", format!("{tools} use {model}, in {place}")),
        Err(WorkerError::Blocked(why)) => {
            let other = builtins_llm::built_in_label();
            let detail = format!("{model} is not used, so {tools} use {other}: {why}");
            CheckFinding::warning("language model", detail, advice)
        }
        Err(why) => {
            let why = why.into_message();
            let detail = format!("{model} cannot be used, so {tools} fail: {why}");
            let fix = format!("install it again, or delete {place}");
            CheckFinding::error("language model", detail, fix)
        }
    }
}

fn model_tools() -> String {
    builtin_manifests::ToolFamily::Text.registry().tool_names().collect::<Vec<_>>().join(", ")
}
