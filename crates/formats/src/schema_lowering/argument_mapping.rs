//! Argument mapping: renames arguments for a provider and maps the arguments of calls back.

use std::collections::HashSet;

use serde_json::Value;
use tool::{Json, json_pointer};

use super::provider_rules::NameRule;
use super::schema_loss::{LossKind, SchemaLoss};
use super::schema_walker::SchemaObject;
use crate::aliases;

/// Differences between rendered and original arguments, used to map the arguments of calls back.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ArgumentMapping {
    /// Arguments with another name at the provider.
    renamed_arguments: Vec<RenamedArgument>,
    /// Paths that may be null in calls because the provider requires them.
    nullable_paths: Vec<Vec<PathSegment>>,
}

/// An argument that the provider knows under another name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct RenamedArgument {
    /// Name in the rendered schema.
    provider_name: String,
    /// Name in the tool's own schema.
    tool_name: String,
}

/// Segment of a path into a value.
#[derive(Debug, Clone, PartialEq, Eq)]
enum PathSegment {
    Property(String),
    EveryElement,
}

impl ArgumentMapping {
    pub(super) fn new(renamed: Vec<RenamedArgument>, nulls: &[String]) -> Self {
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
            let renamed = self.renamed_arguments.iter().find(|it| it.provider_name == name);
            renamed.map_or(name, |it| it.tool_name.clone())
        };
        let members = args.members();
        if !members
            .iter()
            .any(|(name, _)| self.renamed_arguments.iter().any(|it| it.provider_name == *name))
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
                steps.push(PathSegment::Property(json_pointer::unescape_segment(name)));
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
    names: NameRule,
    losses: &mut Vec<SchemaLoss>,
) -> Vec<RenamedArgument> {
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
            losses.push(SchemaLoss::at_pointer(
                json_pointer::child_pointer("/properties", &name),
                "properties",
                LossKind::Renamed,
                "the argument's name is not allowed there; it is restored in calls",
            ));
            renamed.push(RenamedArgument { provider_name: shown.clone(), tool_name: name });
        }
        properties.insert(shown, value);
    }
    for list in ["required", "propertyOrdering"] {
        let list = root.get_mut(list).and_then(Value::as_array_mut);
        for name in list.into_iter().flatten() {
            let found = renamed.iter().find(|it| name.as_str() == Some(it.tool_name.as_str()));
            if let Some(renamed) = found {
                *name = Value::String(renamed.provider_name.clone());
            }
        }
    }
    renamed
}

/// Returns a name that the provider accepts and no other argument has.
fn unused_name(name: &str, names: NameRule, taken: &HashSet<String>) -> String {
    let candidate = names.sanitize_name(name);
    if names.accepts_name(&candidate) && !taken.contains(&candidate) {
        return candidate;
    }
    aliases::hashed_alias(name, &candidate, |alias| !taken.contains(alias))
}
