//! Messages for decisions that name the path, the permission and the allowed folders.

use std::borrow::Cow;

use crate::decide::{Later, Residual};
use crate::{Asking, Reason};

/// Maximum number of characters of a quoted path.
const PATH: usize = 200;
/// Maximum number of listed folders.
const FOLDERS: usize = 5;

impl Residual {
    /// Returns the reason of this decision as a message, with what the caller can do about it.
    pub fn sentence(&self, asking: &Asking<'_>, reason: Reason) -> Cow<'static, str> {
        let later = self.later.as_deref();
        let told = match reason {
            Reason::Path | Reason::NoPath => later.and_then(|later| outside(later, asking)),
            _ => None,
        };
        told.map_or(Cow::Borrowed(reason.text()), Cow::Owned)
    }
}

fn outside(later: &Later, asking: &Asking<'_>) -> Option<String> {
    let (outside, allowed) = later.outside(asking)?;
    let folders = among(allowed);
    let Some(path) = outside.path else {
        if outside.reason == Reason::Path {
            return Some("the arguments are too long to be searched for paths".to_owned());
        }
        let name = asking.tool.name.escape_debug();
        return Some(format!("`{name}` was called without a path; give a path beneath {folders}"));
    };
    let which = if allowed.len() == 1 { "path" } else { "paths" };
    let shown: String = path.chars().take(PATH).flat_map(char::escape_debug).collect();
    let fix = if path.starts_with('/') { "" } else { "; give a whole path" };
    Some(format!("`{shown}` is not beneath {folders}, the allowed {which}{fix}"))
}

fn among(folders: &[String]) -> String {
    let shown: Vec<_> = folders.iter().take(FOLDERS).map(String::as_str).collect();
    match (shown.as_slice(), folders.len() > FOLDERS) {
        ([], _) => "any folder".to_owned(),
        (all, true) => format!("{}, …", all.join(", ")),
        ([one], false) => (*one).to_owned(),
        ([first @ .., last], false) => format!("{} or {last}", first.join(", ")),
    }
}
