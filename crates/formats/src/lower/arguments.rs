//! Names of arguments that a provider does not take, and the way back.

use std::collections::HashSet;

use serde_json::Value;
use tool::Json;

use super::loss::{Change, Loss};
use super::rules::Names;
use super::walk::Object;
use crate::names;

/// Arguments that a format shows under other names: the shown name and the tool's own.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Renamed(Vec<(String, String)>);

impl Renamed {
    /// Whether every argument has its own name.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The arguments of a call under the tool's own names. What is not shown under another name, and
    /// whatever is no object, stays as it is.
    pub fn restored(&self, args: &Json) -> Json {
        let own = |name: String| {
            let found = self.0.iter().find(|(shown, _)| *shown == name);
            found.map_or(name, |(_, own)| own.clone())
        };
        let members = args.members();
        if args.kind() != "object" || !members.iter().any(|(name, _)| self.shows(name)) {
            return args.clone();
        }
        let mut text = String::from("{");
        for (name, value) in members {
            if text.len() > 1 {
                text.push(',');
            }
            text.push_str(Json::of(&own(name)).as_str());
            text.push(':');
            text.push_str(value.as_str());
        }
        text.push('}');
        // A name given twice, as it is shown and as it is, is found by this check as in any other text.
        Json::check(text, tool::Limits::ARGUMENTS).unwrap_or_else(|_| args.clone())
    }

    fn shows(&self, name: &str) -> bool {
        self.0.iter().any(|(shown, _)| shown == name)
    }
}

/// Renames the arguments that `names` does not take.
pub(super) fn rename(root: &mut Object, names: Names, losses: &mut Vec<Loss>) -> Renamed {
    let Some(Value::Object(properties)) = root.get_mut("properties") else {
        return Renamed::default();
    };
    if properties.keys().all(|name| names.takes(name)) {
        return Renamed::default();
    }
    let mut taken: HashSet<String> =
        properties.keys().filter(|name| names.takes(name)).cloned().collect();
    let mut renamed = Vec::new();
    for (name, value) in std::mem::take(properties) {
        let shown = if names.takes(&name) { name.clone() } else { free(&name, names, &taken) };
        if shown != name {
            taken.insert(shown.clone());
            let place = format!("/properties/{}", name.replace('~', "~0").replace('/', "~1"));
            let why = "an argument may have no such name there; the name is turned back in calls";
            let keyword = "properties".to_owned();
            losses.push(Loss { place, keyword, change: Change::Renamed, why });
            renamed.push((shown.clone(), name));
        }
        properties.insert(shown, value);
    }
    for list in ["required", "propertyOrdering"] {
        let list = root.get_mut(list).and_then(Value::as_array_mut);
        for name in list.into_iter().flatten() {
            let found = renamed.iter().find(|(_, own)| name.as_str() == Some(own));
            if let Some((shown, _)) = found {
                *name = Value::String(shown.clone());
            }
        }
    }
    Renamed(renamed)
}

/// A name that is taken there and by no other argument.
fn free(name: &str, names: Names, taken: &HashSet<String>) -> String {
    let wish = names.replaced(name);
    if names.takes(&wish) && !taken.contains(&wish) {
        return wish;
    }
    names::with_hash(name, &wish, |alias| !taken.contains(alias))
}
