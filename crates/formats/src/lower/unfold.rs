//! References in place, `allOf` as one, alternatives at the root as one list of arguments.

use std::borrow::Cow;

use serde_json::Value;

use super::loss::{Change, Loss};
use super::merge;
use super::walk::{Object, Walker};

/// References behind references, and `allOf` within `allOf`.
const HOPS: usize = 64;
/// Schemas inside each other before a reference is not followed any further.
const DEPTH: usize = 40;

impl Walker<'_> {
    /// The schema with everything in place that the provider does not put there itself.
    pub(super) fn unfold<'m>(
        &mut self,
        map: &'m Object,
        top: bool,
    ) -> Result<Cow<'m, Object>, Loss> {
        let mut map = Cow::Borrowed(map);
        for _ in 0..HOPS {
            let has = |word: &str| map.contains_key(word);
            let next = if (top || !self.rules.references) && has("$ref") {
                self.resolved(map.into_owned())?
            } else if (top || !self.takes("allOf")) && has("allOf") {
                self.joined(map.into_owned())?
            } else if top && has("anyOf") {
                self.united(map.into_owned(), "anyOf")?
            } else if top && has("oneOf") {
                self.united(map.into_owned(), "oneOf")?
            } else {
                return Ok(map);
            };
            map = Cow::Owned(next);
        }
        Err(self.out("$ref", "its references lead on and on"))
    }

    /// With what `$ref` stands for, under what stands beside it.
    fn resolved(&mut self, mut map: Object) -> Result<Object, Loss> {
        let Some(Value::String(target)) = map.shift_remove("$ref") else { return Ok(map) };
        let root = self.root;
        let found = target.strip_prefix('#').and_then(|pointer| root.pointer(pointer));
        let Some(Value::Object(found)) = found else {
            self.lose("$ref", Change::Dropped, "no schema stands there that could be shown");
            return Ok(map);
        };
        if self.open.contains(&target) || self.depth > DEPTH {
            let why = "it leads back to itself, or too deep: what is inside is not shown";
            self.lose("$ref", Change::Dropped, why);
            if let (Some(kind), false) = (found.get("type"), map.contains_key("type")) {
                map.insert("type".to_owned(), kind.clone());
            }
            return Ok(map);
        }
        self.copy(found.values().map(merge::weight).sum())?;
        self.lose("$ref", Change::Rewritten, "the reference is resolved in place");
        self.open.push(target);
        self.add(&mut map, found.clone());
        Ok(map)
    }

    /// With the parts of `allOf` as one.
    fn joined(&mut self, mut map: Object) -> Result<Object, Loss> {
        let Some(Value::Array(parts)) = map.shift_remove("allOf") else { return Ok(map) };
        self.lose("allOf", Change::Rewritten, "its parts are written as one");
        for part in parts {
            let Value::Object(part) = part else { continue };
            let part = self.behind(part)?;
            self.add(&mut map, part);
        }
        Ok(map)
    }

    /// A schema behind its references.
    fn behind(&mut self, mut map: Object) -> Result<Object, Loss> {
        for _ in 0..HOPS {
            if !map.contains_key("$ref") {
                return Ok(map);
            }
            map = self.resolved(map)?;
        }
        Err(self.out("$ref", "its references lead on and on"))
    }

    fn add(&mut self, map: &mut Object, more: Object) {
        for keyword in merge::into(map, more) {
            self.lose(&keyword, Change::Dropped, "it is said twice, and the first is shown");
        }
    }

    /// With the arguments of all alternatives. Which belong together is told.
    fn united(&mut self, mut map: Object, word: &str) -> Result<Object, Loss> {
        let Some(Value::Array(variants)) = map.shift_remove(word) else { return Ok(map) };
        self.lose(
            word,
            Change::Told,
            "the root may have no alternatives: their arguments are shown together",
        );
        let mut groups = Vec::new();
        for (index, variant) in variants.into_iter().enumerate() {
            let Value::Object(variant) = variant else { continue };
            let variant = self.inside(word, |walker| {
                walker.inside(&index.to_string(), |walker| {
                    let variant = walker.behind(variant)?;
                    let variant = if variant.contains_key("allOf") {
                        walker.joined(variant)?
                    } else {
                        variant
                    };
                    for keyword in variant.keys() {
                        if !matches!(keyword.as_str(), "type" | "properties" | "required") {
                            let why = "it is said of one alternative only";
                            walker.lose(keyword, Change::Dropped, why);
                        }
                    }
                    Ok(variant)
                })
            })?;
            merge::alternatives(&mut map, &variant);
            groups.push(merge::required(&variant));
        }
        let (shared, told) = merge::groups(groups);
        merge::require(&mut map, &shared);
        self.told.extend(told);
        map.entry("type").or_insert_with(|| "object".into());
        Ok(map)
    }
}
