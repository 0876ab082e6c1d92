//! The language model: whether there is one, and whether it works.

use super::Finding;
use crate::cli::data::DataDir;

/// A model that is not there is no fault: the tools that need it are not offered.
pub(super) fn finding(data: &DataDir) -> Finding {
    let tools = builtins_llm::names().collect::<Vec<_>>().join(", ");
    let found = match builtins_llm::Installed::find(&data.models()) {
        Ok(found) => found,
        Err(why) => {
            let detail =
                format!("{why}: {tools} are not offered; `toolkeep model install` adds one");
            return Finding::good("language model", detail);
        }
    };
    match found.sentences() {
        Ok(_) => {
            Finding::good("language model", format!("{tools} run by {}", found.folder().display()))
        }
        Err(why) => {
            let detail = format!("cannot be used, so {tools} fail: {why}");
            Finding::wrong("language model", detail, builtins_llm::HELP)
        }
    }
}
