//! The check of the embeddings: the built-in word vectors, or an installed model and whether it works.

use super::Finding;
use cli_core::data::DataDir;

/// A model that is not there is no fault: word vectors in the binary answer.
pub(super) fn finding(data: &DataDir) -> Finding {
    let tools = builtin_manifests::Family::Text.registry().names().collect::<Vec<_>>().join(", ");
    let Some(found) = builtins_llm::Installed::find(&data.models()) else {
        let model = builtins_llm::built_in_label();
        let detail =
            format!("none is installed: {tools} run by {model}; `toolkeep model install` adds one");
        return Finding::good("language model", detail);
    };
    let model = found.facts().label();
    match found.sentences() {
        Ok(_) => {
            let place = found.folder().display();
            Finding::good("language model", format!("{tools} run by {model}, in {place}"))
        }
        Err(why) => {
            let detail = format!("{model} cannot be used, so {tools} fail: {why}");
            let fix = format!("install it again, or remove {}", found.folder().display());
            Finding::wrong("language model", detail, fix)
        }
    }
}
