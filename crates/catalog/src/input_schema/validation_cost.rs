//! Cost model of schema validation: bounds the number of subschema evaluations before they run.
//!
//! A validator evaluates a schema as often as it is reached, which chains of branching references
//! make exponential. The model counts each schema reached at a value once, with the number of paths
//! to it, so that counting stays within the budget.

mod schema_reference;

use std::collections::{BTreeMap, HashMap};

use serde_json::{Map, Value};

use self::schema_reference::SchemaReferences;

/// Number of `enum` values that are compared in the time of one evaluation.
const ENUM_VALUES_PER_EVALUATION: usize = 8;

/// A schema as a graph of its subschemas.
#[derive(Debug)]
pub(super) struct CostModel {
    /// Nodes in topological order: each before those that it applies to the same value.
    nodes: Vec<SchemaNode>,
    root_index: usize,
}

/// One subschema, and the subschemas it applies to the same value, to members and to elements.
#[derive(Debug, Default)]
struct SchemaNode {
    evaluations: u64,
    in_place: Vec<usize>,
    properties: HashMap<String, usize>,
    members: Vec<usize>,
    prefix: Vec<usize>,
    items: Vec<usize>,
    /// True if it checks which members or elements were not evaluated.
    is_unevaluated: bool,
}

/// Schemas applied to one value, each with its number of paths.
type AppliedSchemas = BTreeMap<usize, u64>;

impl CostModel {
    /// Builds the model of a schema.
    ///
    /// # Errors
    /// A message, if a reference cannot be resolved or is recursive at the same value.
    pub(super) fn from_schema(schema: &Value) -> Result<Self, String> {
        let mut builder = CostModelBuilder {
            references: SchemaReferences::from_schema(schema),
            nodes: Vec::new(),
            indices_by_address: HashMap::new(),
            unresolved_references: Vec::new(),
        };
        let root = builder.add_node(schema, schema);
        while let Some((from, resource, text)) = builder.unresolved_references.pop() {
            for (target, resource) in builder.references.resolve_reference(resource, text)? {
                let to = builder.add_node(target, resource);
                if let Some(from) = builder.nodes.get_mut(from) {
                    from.in_place.push(to);
                }
            }
        }
        sort_nodes(builder.nodes, root)
    }

    /// Returns the maximum number of evaluations for `args`; `None` if it exceeds `budget`.
    pub(super) fn count_evaluations(&self, args: &Value, budget: u64) -> Option<u64> {
        let mut left = budget;
        self.visit_value(AppliedSchemas::from([(self.root_index, 1)]), args, &mut left)?;
        Some(budget - left)
    }

    fn visit_value(
        &self,
        mut applied: AppliedSchemas,
        value: &Value,
        left: &mut u64,
    ) -> Option<()> {
        let mut reached = Vec::new();
        while let Some((at, ways)) = applied.pop_first() {
            let node = self.nodes.get(at)?;
            spend_budget(left, ways.saturating_mul(node.evaluations))?;
            reached.push((node, ways));
            add_applied(&mut applied, &node.in_place, ways);
        }
        let size = match value {
            Value::Object(members) => members.len(),
            Value::Array(elements) => elements.len(),
            _ => return Some(()),
        };
        let again = reached.iter().filter(|(node, _)| node.is_unevaluated).count();
        let looked = (1 + again).saturating_mul(reached.len()).saturating_mul(size);
        spend_budget(left, u64::try_from(looked).unwrap_or(u64::MAX))?;
        match value {
            Value::Object(members) => members.iter().try_for_each(|(name, member)| {
                let mut below = AppliedSchemas::new();
                for (node, ways) in &reached {
                    add_applied(&mut below, node.properties.get(name), *ways);
                    add_applied(&mut below, &node.members, *ways);
                }
                self.visit_value(below, member, left)
            }),
            Value::Array(elements) => elements.iter().enumerate().try_for_each(|(at, element)| {
                let mut below = AppliedSchemas::new();
                for (node, ways) in &reached {
                    add_applied(&mut below, node.prefix.get(at), *ways);
                    add_applied(&mut below, &node.items, *ways);
                }
                self.visit_value(below, element, left)
            }),
            _ => Some(()),
        }
    }
}

fn spend_budget(left: &mut u64, evaluations: u64) -> Option<()> {
    *left = left.checked_sub(evaluations)?;
    Some(())
}

fn add_applied<'a>(
    applied: &mut AppliedSchemas,
    nodes: impl IntoIterator<Item = &'a usize>,
    ways: u64,
) {
    for node in nodes {
        let all = applied.entry(*node).or_default();
        *all = all.saturating_add(ways);
    }
}

struct CostModelBuilder<'s> {
    references: SchemaReferences<'s>,
    nodes: Vec<SchemaNode>,
    /// Node indices by the address of their schema.
    indices_by_address: HashMap<usize, usize>,
    /// Unresolved references: the node, its enclosing resource, and the reference text.
    unresolved_references: Vec<(usize, &'s Value, &'s str)>,
}

impl<'s> CostModelBuilder<'s> {
    fn add_node(&mut self, schema: &'s Value, resource: &'s Value) -> usize {
        let address = std::ptr::from_ref(schema).addr();
        if let Some(known) = self.indices_by_address.get(&address) {
            return *known;
        }
        let at = self.nodes.len();
        self.indices_by_address.insert(address, at);
        self.nodes.push(SchemaNode { evaluations: 1, ..SchemaNode::default() });
        let Value::Object(words) = schema else { return at };
        let resource = if schema_reference::is_resource(words) { schema } else { resource };
        let mut node = SchemaNode { evaluations: 1, ..SchemaNode::default() };
        for (word, value) in words {
            self.add_keyword(&mut node, (word, value), resource);
        }
        for word in ["$ref", "$dynamicRef", "$recursiveRef"] {
            let text = words.get(word).and_then(Value::as_str);
            self.unresolved_references.extend(text.map(|text| (at, resource, text)));
        }
        if let Some(place) = self.nodes.get_mut(at) {
            *place = node;
        }
        at
    }

    fn add_keyword(
        &mut self,
        node: &mut SchemaNode,
        (keyword, value): (&str, &'s Value),
        resource: &'s Value,
    ) {
        let all = |this: &mut Self| match value {
            Value::Array(schemas) => {
                schemas.iter().map(|it| this.add_node(it, resource)).collect::<Vec<_>>()
            }
            Value::Object(_) | Value::Bool(_) => vec![this.add_node(value, resource)],
            _ => Vec::new(),
        };
        let named = |this: &mut Self| {
            let schemas = value.as_object().into_iter().flatten();
            let schemas = schemas.filter(|(_, it)| it.is_object() || it.is_boolean());
            schemas
                .map(|(name, it)| (name.clone(), this.add_node(it, resource)))
                .collect::<Vec<_>>()
        };
        match keyword {
            "allOf" | "anyOf" | "oneOf" | "not" | "if" | "then" | "else" => {
                node.in_place.extend(all(self));
            }
            "dependentSchemas" | "dependencies" => {
                node.in_place.extend(named(self).into_iter().map(|(_, at)| at));
            }
            "properties" => node.properties.extend(named(self)),
            "patternProperties" => node.members.extend(named(self).into_iter().map(|(_, at)| at)),
            "additionalProperties" | "unevaluatedProperties" | "propertyNames" => {
                node.is_unevaluated |= keyword == "unevaluatedProperties";
                node.members.extend(all(self));
            }
            "prefixItems" => node.prefix.extend(all(self)),
            "items" if value.is_array() => node.prefix.extend(all(self)),
            "items" | "contains" | "unevaluatedItems" | "additionalItems" => {
                node.is_unevaluated |= keyword == "unevaluatedItems";
                node.items.extend(all(self));
            }
            "enum" | "required" | "dependentRequired" => node.evaluations += comparison_cost(value),
            _ => {}
        }
    }
}

fn comparison_cost(value: &Value) -> u64 {
    let count = match value {
        Value::Array(values) => values.len(),
        Value::Object(lists) => lists.values().filter_map(Value::as_array).map(Vec::len).sum(),
        _ => 0,
    };
    u64::try_from(count / ENUM_VALUES_PER_EVALUATION).unwrap_or(u64::MAX)
}

/// Sorts the nodes topologically: each before those that it applies to the same value.
fn sort_nodes(nodes: Vec<SchemaNode>, root: usize) -> Result<CostModel, String> {
    let mut users = vec![0_usize; nodes.len()];
    for to in nodes.iter().flat_map(|node| &node.in_place) {
        users.get_mut(*to).into_iter().for_each(|count| *count += 1);
    }
    let mut ready: Vec<_> = (0..nodes.len()).filter(|at| users.get(*at) == Some(&0)).collect();
    let mut place = vec![usize::MAX; nodes.len()];
    let mut order = Vec::with_capacity(nodes.len());
    while let Some(at) = ready.pop() {
        place.get_mut(at).into_iter().for_each(|place| *place = order.len());
        order.push(at);
        for to in nodes.get(at).into_iter().flat_map(|node| &node.in_place) {
            if let Some(count) = users.get_mut(*to) {
                *count -= 1;
                if *count == 0 {
                    ready.push(*to);
                }
            }
        }
    }
    if order.len() < nodes.len() {
        return Err(
            "the input schema has a `$ref` that recurses on the same value; move it below a \
             property or an item"
                .to_owned(),
        );
    }
    let moved = |at: &usize| place.get(*at).copied().unwrap_or(*at);
    let all = |list: &[usize]| list.iter().map(moved).collect::<Vec<_>>();
    let mut slots: Vec<_> = nodes.into_iter().map(Some).collect();
    let taken = order.iter().filter_map(|at| slots.get_mut(*at).and_then(Option::take));
    let nodes = taken.map(|node| SchemaNode {
        in_place: all(&node.in_place),
        properties: node.properties.iter().map(|(name, at)| (name.clone(), moved(at))).collect(),
        members: all(&node.members),
        prefix: all(&node.prefix),
        items: all(&node.items),
        ..node
    });
    Ok(CostModel { nodes: nodes.collect(), root_index: moved(&root) })
}

/// Returns true if the number of subschemas does not bound the cost per value: if a schema uses
/// references or unevaluated keywords.
pub(super) fn is_unbounded(schema: &Map<String, Value>) -> bool {
    fn below(value: &Value) -> bool {
        match value {
            Value::Object(schema) => is_unbounded(schema),
            Value::Array(values) => values.iter().any(below),
            _ => false,
        }
    }
    let unbounded = |word: &str| {
        matches!(word, "$ref" | "$dynamicRef" | "$recursiveRef") || word.starts_with("unevaluated")
    };
    schema.iter().any(|(word, value)| unbounded(word) || below(value))
}

#[cfg(test)]
mod tests;
