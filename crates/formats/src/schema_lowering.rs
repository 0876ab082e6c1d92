//! Schema lowering: rewrites JSON Schema to the subset that a provider accepts, with one walker and
//! one table of rules per provider.
//!
//! Every change is reported as a [`SchemaLoss`] with its location. Unaffected parts stay unchanged,
//! and a schema without losses passes as its original bytes. References are resolved in place for
//! providers that do not follow them, within limits.

mod argument_mapping;
mod keyword_rewrites;
mod keywords;
pub(crate) mod provider_rules;
mod ref_inlining;
mod schema_loss;
mod schema_merge;
mod schema_walker;
mod single_type;
mod strict_objects;

use serde_json::Value;
use tool::Json;

pub use argument_mapping::ArgumentMapping;
use provider_rules::ProviderRules;
pub use schema_loss::{LossKind, SchemaLoss};
use schema_walker::{SchemaObject, SchemaWalker};

/// A schema lowered to the subset of one provider.
#[derive(Debug)]
pub(crate) struct LoweredSchema {
    /// Its schema.
    pub(crate) schema: Json,
    /// Whether the schema has arguments.
    pub(crate) has_arguments: bool,
    /// Notes on the arguments as a whole, for the tool's description.
    pub(crate) root_notes: Vec<String>,
    /// Differences from the original schema.
    pub(crate) losses: Vec<SchemaLoss>,
    /// Maps arguments of the lowered schema back to the tool's own arguments.
    pub(crate) argument_mapping: ArgumentMapping,
}

/// Lowers `schema` to the subset that `rules` accept.
///
/// # Errors
/// The loss that makes the tool unusable in this format, with its location.
pub(crate) fn lower_schema(
    schema: &Json,
    rules: &ProviderRules,
) -> Result<LoweredSchema, SchemaLoss> {
    let value = schema.to_value();
    let Value::Object(root) = &value else {
        return Err(SchemaLoss::new(
            "type",
            LossKind::ToolOmitted,
            "the input schema is not an object",
        ));
    };
    let lowered = lower_with_rules(schema, root, &value, rules)?;
    // The root moved, so that pointers to it are invalid and must be resolved too.
    if rules.follows_refs
        && !lowered.losses.is_empty()
        && has_dangling_ref(&lowered.schema.to_value())
    {
        return lower_with_rules(
            schema,
            root,
            &value,
            &ProviderRules { follows_refs: false, ..*rules },
        );
    }
    Ok(lowered)
}

fn lower_with_rules(
    schema: &Json,
    root: &SchemaObject,
    value: &Value,
    rules: &ProviderRules,
) -> Result<LoweredSchema, SchemaLoss> {
    let mut walker = SchemaWalker::new(rules, value);
    let mut map = walker.lower_schema(root, true)?;
    walker.complete_root(&mut map);
    let renamed =
        argument_mapping::rename_arguments(&mut map, rules.argument_names, &mut walker.losses);
    let arguments = map.get("properties").and_then(Value::as_object).is_some_and(|p| !p.is_empty());
    let SchemaWalker { losses, root_notes: told, nullable_pointers: nulls, .. } = walker;
    let back = ArgumentMapping::new(renamed, &nulls);
    let schema = if losses.is_empty() { schema.clone() } else { Json::encode(&map) };
    Ok(LoweredSchema {
        schema,
        has_arguments: arguments,
        root_notes: told,
        losses,
        argument_mapping: back,
    })
}

/// Returns whether a reference within `root` has no target.
fn has_dangling_ref(root: &Value) -> bool {
    fn any(value: &Value, root: &Value) -> bool {
        match value {
            Value::Object(map) => {
                let target = map.get("$ref").and_then(Value::as_str);
                let pointer = target.and_then(|target| target.strip_prefix('#'));
                pointer.is_some_and(|pointer| root.pointer(pointer).is_none())
                    || map.values().any(|value| any(value, root))
            }
            Value::Array(list) => list.iter().any(|value| any(value, root)),
            _ => false,
        }
    }
    any(root, root)
}

#[cfg(test)]
mod tests;
