//! Argument mapping: renames arguments for a provider and maps the arguments of calls back.

use std::collections::HashSet;

use serde_json::Value;
use tool::Json;

use super::provider_rules::PropertyNameRule;
use super::schema_loss::{LossKind, SchemaLoss};
use super::schema_walker::SchemaObject;
use crate::aliases;

/// Differences between rendered and original arguments, used to map the arguments of calls back.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ArgumentMapping {
    /// Rendered name and original name.
    renamed_arguments: Vec<(String, String)>,
    /// Paths that may be null in calls because the provider requires them.
    nullable_paths: Vec<Vec<PathSegment>>,
}

/// Segment of a path into a value.
#[derive(Debug, Clone, PartialEq, Eq)]
enum PathSegment {
    Property(String),
    EveryElement,
}

impl ArgumentMapping {
    pub(super) fn new(renamed: Vec<(String, String)>, nulls: &[String]) -> Self {
        Self {
            renamed_arguments: renamed,
            nullable_paths: nulls.iter().map(|place| parse_pointer(place)).collect(),
        }
    }

    /// Returns whether the rendered arguments equal the tool's own.
    pub fn is_identity(&self) -> bool {
        self.renamed_arguments.is_empty() && self.nullable_paths.is_empty()
    }

    /// Restores the arguments of a call to the tool's own names, and removes nulls that only stand
    /// for absent arguments. All else stays as it is.
    pub fn restore_arguments(&self, args: &Json) -> Json {
        let args =
            self.nullable_paths.iter().fold(args.clone(), |args, path| remove_null_at(&args, path));
        let original_name = |name: String| {
            let found = self.renamed_arguments.iter().find(|(shown, _)| *shown == name);
            found.map_or(name, |(_, own)| own.clone())
        };
        let members = args.members();
        if !members
            .iter()
            .any(|(name, _)| self.renamed_arguments.iter().any(|(shown, _)| shown == name))
        {
            return args;
        }
        let mut text = String::from("{");
        for (name, value) in members {
            if text.len() > 1 {
                text.push(',');
            }
            text.push_str(Json::encode(&original_name(name)).as_str());
            text.push(':');
            text.push_str(value.as_str());
        }
        text.push('}');
        // A name given twice, as it is shown and as it is, is found by this check as in any other text.
        Json::parse(text, tool::JsonLimits::ARGUMENTS).unwrap_or(args)
    }
}

/// Maps a location in a schema to the location in a value.
fn parse_pointer(pointer: &str) -> Vec<PathSegment> {
    let mut segments = pointer.split('/').skip(1);
    let mut steps = Vec::new();
    while let Some(segment) = segments.next() {
        match segment {
            "properties" => {
                let name = segments.next().unwrap_or_default();
                steps.push(PathSegment::Property(name.replace("~1", "/").replace("~0", "~")));
            }
            "items" => steps.push(PathSegment::EveryElement),
            // The number of an alternative, which is of the same value.
            _ => drop(segments.next()),
        }
    }
    steps
}

fn remove_null_at(json: &Json, path: &[PathSegment]) -> Json {
    match path {
        [PathSegment::Property(name)] => match json.get(name) {
            Some(value) if value.kind() == "null" => json.without_member(name),
            _ => json.clone(),
        },
        [PathSegment::Property(name), rest @ ..] => match json.get(name) {
            Some(value) => json.with_member(name, &remove_null_at(&value, rest)),
            None => json.clone(),
        },
        [PathSegment::EveryElement, rest @ ..] if json.kind() == "array" => {
            let each: Vec<_> =
                json.elements().iter().map(|one| remove_null_at(one, rest)).collect();
            Json::array_of(&each)
        }
        _ => json.clone(),
    }
}

/// Renames the arguments that `names` does not accept.
pub(super) fn rename_arguments(
    root: &mut SchemaObject,
    names: PropertyNameRule,
    losses: &mut Vec<SchemaLoss>,
) -> Vec<(String, String)> {
    let Some(Value::Object(properties)) = root.get_mut("properties") else { return Vec::new() };
    if properties.keys().all(|name| names.accepts_name(name)) {
        return Vec::new();
    }
    let mut taken: HashSet<String> =
        properties.keys().filter(|name| names.accepts_name(name)).cloned().collect();
    let mut renamed = Vec::new();
    for (name, value) in std::mem::take(properties) {
        let shown = if names.accepts_name(&name) {
            name.clone()
        } else {
            unused_name(&name, names, &taken)
        };
        if shown != name {
            taken.insert(shown.clone());
            let place = format!("/properties/{}", name.replace('~', "~0").replace('/', "~1"));
            let why = "the argument's name is not allowed there; it is restored in calls";
            let keyword = "properties".to_owned();
            losses.push(SchemaLoss {
                pointer: place,
                keyword,
                change: LossKind::Renamed,
                reason: why,
            });
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

/// Returns a name that the provider accepts and no other argument has.
fn unused_name(name: &str, names: PropertyNameRule, taken: &HashSet<String>) -> String {
    let candidate = names.sanitize_name(name);
    if names.accepts_name(&candidate) && !taken.contains(&candidate) {
        return candidate;
    }
    aliases::hashed_alias(name, &candidate, |alias| !taken.contains(alias))
}
