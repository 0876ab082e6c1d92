//! Arguments that a provider does not take as they are, and the way back.

use std::collections::HashSet;

use serde_json::Value;
use tool::Json;

use super::loss::{Change, Loss};
use super::rules::Names;
use super::walk::Object;
use crate::names;

/// What a format shows of arguments otherwise than the tool has them, and the way back.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Back {
    /// Shown name and own name.
    renamed: Vec<(String, String)>,
    /// What may be null there and absent here.
    nulls: Vec<Vec<Step>>,
}

/// A step from a value into it.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Step {
    Member(String),
    Each,
}

impl Back {
    pub(super) fn new(renamed: Vec<(String, String)>, nulls: &[String]) -> Self {
        Self { renamed, nulls: nulls.iter().map(|place| steps(place)).collect() }
    }

    /// Whether arguments are shown as the tool has them.
    pub fn is_empty(&self) -> bool {
        self.renamed.is_empty() && self.nulls.is_empty()
    }

    /// The arguments of a call as the tool has them: under its own names, and without what is null only
    /// because it could not be left out. All else stays as it is.
    pub fn restored(&self, args: &Json) -> Json {
        let args = self.nulls.iter().fold(args.clone(), |args, path| without_null(&args, path));
        let own = |name: String| {
            let found = self.renamed.iter().find(|(shown, _)| *shown == name);
            found.map_or(name, |(_, own)| own.clone())
        };
        let members = args.members();
        if !members.iter().any(|(name, _)| self.renamed.iter().any(|(shown, _)| shown == name)) {
            return args;
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
        Json::check(text, tool::Limits::ARGUMENTS).unwrap_or(args)
    }
}

/// From a place in a schema to the place in what it is of.
fn steps(place: &str) -> Vec<Step> {
    let mut segments = place.split('/').skip(1);
    let mut steps = Vec::new();
    while let Some(segment) = segments.next() {
        match segment {
            "properties" => {
                let name = segments.next().unwrap_or_default();
                steps.push(Step::Member(name.replace("~1", "/").replace("~0", "~")));
            }
            "items" => steps.push(Step::Each),
            // The number of an alternative, which is of the same value.
            _ => drop(segments.next()),
        }
    }
    steps
}

fn without_null(json: &Json, path: &[Step]) -> Json {
    match path {
        [Step::Member(name)] => match json.get(name) {
            Some(value) if value.kind() == "null" => json.without(name),
            _ => json.clone(),
        },
        [Step::Member(name), rest @ ..] => match json.get(name) {
            Some(value) => json.with(name, &without_null(&value, rest)),
            None => json.clone(),
        },
        [Step::Each, rest @ ..] if json.kind() == "array" => {
            let each: Vec<_> = json.elements().iter().map(|one| without_null(one, rest)).collect();
            Json::array(&each)
        }
        _ => json.clone(),
    }
}

/// Renames the arguments that `names` does not take.
pub(super) fn rename(
    root: &mut Object,
    names: Names,
    losses: &mut Vec<Loss>,
) -> Vec<(String, String)> {
    let Some(Value::Object(properties)) = root.get_mut("properties") else { return Vec::new() };
    if properties.keys().all(|name| names.takes(name)) {
        return Vec::new();
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
    renamed
}

/// A name that is taken there and by no other argument.
fn free(name: &str, names: Names, taken: &HashSet<String>) -> String {
    let wish = names.replaced(name);
    if names.takes(&wish) && !taken.contains(&wish) {
        return wish;
    }
    names::with_hash(name, &wish, |alias| !taken.contains(alias))
}
