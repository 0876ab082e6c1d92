//! JSON Schema, lowered to what a provider takes: one walker, one table of rules per provider.
//!
//! Nothing is lost in silence: every change is a [`Loss`] with its place. What is not lost passes as it
//! stands, and a schema without losses as the bytes it came in. References are resolved in place where
//! a provider does not follow them, within bounds.

mod arguments;
mod closed;
mod loss;
mod merge;
pub(crate) mod rules;
mod shapes;
mod types;
mod unfold;
mod walk;
mod words;

use serde_json::Value;
use tool::Json;

pub use arguments::Back;
pub use loss::{Change, Loss};
use rules::Rules;
use walk::{Object, Walker};

/// A schema as one provider takes it.
#[derive(Debug)]
pub(crate) struct Lowered {
    /// Its schema.
    pub(crate) schema: Json,
    /// Whether it has any argument.
    pub(crate) arguments: bool,
    /// What is to be told of the arguments as a whole, in the tool's description.
    pub(crate) told: Vec<String>,
    /// What changed.
    pub(crate) losses: Vec<Loss>,
    /// The way back from arguments as they are shown.
    pub(crate) back: Back,
}

/// Lowers `schema`.
///
/// # Errors
/// Why it cannot be said at all, with the place.
pub(crate) fn lower(schema: &Json, rules: &Rules) -> Result<Lowered, Loss> {
    let value = schema.value();
    let Value::Object(root) = &value else {
        return Err(Loss::new("type", Change::LeftOut, "the input schema is no object"));
    };
    let lowered = walked(schema, root, &value, rules)?;
    // What stood at the root moved: pointers to it lead nowhere, so they are resolved as well.
    if rules.references && !lowered.losses.is_empty() && dangles(&lowered.schema.value()) {
        return walked(schema, root, &value, &Rules { references: false, ..*rules });
    }
    Ok(lowered)
}

fn walked(schema: &Json, root: &Object, value: &Value, rules: &Rules) -> Result<Lowered, Loss> {
    let mut walker = Walker::new(rules, value);
    let mut map = walker.schema(root, true)?;
    walker.rooted(&mut map);
    let renamed = arguments::rename(&mut map, rules.arguments, &mut walker.losses);
    let arguments = map.get("properties").and_then(Value::as_object).is_some_and(|p| !p.is_empty());
    let Walker { losses, told, nulls, .. } = walker;
    let back = Back::new(renamed, &nulls);
    let schema = if losses.is_empty() { schema.clone() } else { Json::of(&map) };
    Ok(Lowered { schema, arguments, told, losses, back })
}

/// Whether a reference within `root` leads nowhere.
fn dangles(root: &Value) -> bool {
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
