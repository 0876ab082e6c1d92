//! Messages for decisions that name the path, the permission and the allowed folders.

use std::borrow::Cow;

use tool::display_text::truncate_and_escape_debug;

use crate::decision::ResidualPolicy;
use crate::deferred_checks::DeferredChecks;
use crate::{DecisionReason, PolicyRequest};

/// Maximum number of characters of a quoted path.
const MAX_PATH_CHARS: usize = 200;
/// Maximum number of listed folders.
const MAX_LISTED_FOLDERS: usize = 5;

impl ResidualPolicy {
    /// Returns the reason of this decision as a message, with what the caller can do about it.
    pub fn decision_message(
        &self,
        request: &PolicyRequest<'_>,
        reason: DecisionReason,
    ) -> Cow<'static, str> {
        let later = self.deferred.as_deref();
        let told = match reason {
            DecisionReason::Path | DecisionReason::NoPath => {
                later.and_then(|later| path_message(later, request))
            }
            _ => None,
        };
        told.map_or(Cow::Borrowed(reason.text()), Cow::Owned)
    }
}

fn path_message(later: &DeferredChecks, asking: &PolicyRequest<'_>) -> Option<String> {
    let (outside, allowed) = later.find_path_outside(asking)?;
    let folders = list_folders(allowed);
    let Some(path) = outside.path else {
        if outside.reason == DecisionReason::Path {
            return Some("the arguments are too long to check their paths".to_owned());
        }
        let name = asking.tool.name.escape_debug();
        return Some(format!("`{name}` was called without a path; pass a path below {folders}"));
    };
    let which = if allowed.len() == 1 { "path" } else { "paths" };
    let shown = truncate_and_escape_debug(path, MAX_PATH_CHARS);
    let fix = if path.starts_with('/') { "" } else { "; pass an absolute path" };
    Some(format!("`{shown}` is not below {folders}, the allowed {which}{fix}"))
}

fn list_folders(folders: &[String]) -> String {
    let shown: Vec<_> = folders.iter().take(MAX_LISTED_FOLDERS).map(String::as_str).collect();
    match (shown.as_slice(), folders.len() > MAX_LISTED_FOLDERS) {
        ([], _) => "any folder".to_owned(),
        (all, true) => format!("{}, …", all.join(", ")),
        ([one], false) => (*one).to_owned(),
        ([first @ .., last], false) => format!("{} or {last}", first.join(", ")),
    }
}
