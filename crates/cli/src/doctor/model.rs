//! The check of the embeddings: the built-in word vectors, or an installed model and whether it works.

use std::sync::Arc;

use builtins::{Cages, WorkerError};
use builtins_llm::Installed;

use super::Finding;
use cli_core::data::DataDir;

/// Checks the language model. A missing model is no error, because built-in word vectors replace
/// it; an installed one is loaded in a sandboxed process, as by a server.
pub(super) async fn finding(data: &DataDir, cages: &Arc<Cages>) -> Finding {
    let Some(found) = Installed::find(&data.models(), cages) else {
        let (tools, model) = (tools(), builtins_llm::built_in_label());
        let detail =
            format!("none is installed: {tools} run by {model}; `toolkeep model install` adds one");
        return Finding::good("language model", detail);
    };
    let loaded = found.load().await;
    judged(&found, loaded, cages.advice().await)
}

/// Judges an installed model by its load result; `advice` applies to a machine without a sandbox.
pub(super) fn judged(found: &Installed, loaded: Result<(), WorkerError>, advice: &str) -> Finding {
    let (tools, model, place) = (tools(), found.facts().label(), found.folder().display());
    match loaded {
        Ok(()) => Finding::good("language model", format!("{tools} run by {model}, in {place}")),
        Err(WorkerError::Blocked(why)) => {
            let other = builtins_llm::built_in_label();
            let detail = format!("{model} is not used, so {tools} run by {other}: {why}");
            Finding::doubtful("language model", detail, advice)
        }
        Err(why) => {
            let why = why.into_message();
            let detail = format!("{model} cannot be used, so {tools} fail: {why}");
            let fix = format!("install it again, or remove {place}");
            Finding::wrong("language model", detail, fix)
        }
    }
}

fn tools() -> String {
    builtin_manifests::Family::Text.registry().names().collect::<Vec<_>>().join(", ")
}
