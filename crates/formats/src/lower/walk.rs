//! The walk: every schema inside a schema, keyword by keyword.

use serde_json::{Map, Value};

use super::loss::{Change, Loss};
use super::rules::{Enums, Rules, Shape};
use super::words;

pub(super) type Object = Map<String, Value>;

/// Schemas that are walked, references resolved; a bomb has more.
const SCHEMAS: usize = 10_000;
/// Bytes that resolving may copy.
const COPIED: usize = 4 << 20;

/// One walk over one schema.
pub(super) struct Walker<'a> {
    pub(super) rules: &'a Rules,
    pub(super) root: &'a Value,
    pub(super) losses: Vec<Loss>,
    /// What is told of the root.
    pub(super) told: Vec<String>,
    /// Places of what may be null instead of being left out.
    pub(super) nulls: Vec<String>,
    /// References that are being resolved.
    pub(super) open: Vec<String>,
    /// Schemas that the walk is inside of.
    pub(super) depth: usize,
    at: String,
    schemas: usize,
    copied: usize,
}

/// What becomes of a keyword.
pub(super) enum Fate {
    Kept(Value),
    Lost(&'static str),
}

impl<'a> Walker<'a> {
    pub(super) fn new(rules: &'a Rules, root: &'a Value) -> Self {
        let (losses, told, nulls, open) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        Self {
            rules,
            root,
            losses,
            told,
            nulls,
            open,
            depth: 0,
            at: String::new(),
            schemas: 0,
            copied: 0,
        }
    }

    pub(super) fn takes(&self, keyword: &str) -> bool {
        self.rules.accepts.is_none_or(|all| all.contains(&keyword))
    }

    pub(super) fn lose(&mut self, keyword: &str, change: Change, why: &'static str) {
        let (place, keyword) = (self.at.clone(), keyword.to_owned());
        self.losses.push(Loss { place, keyword, change, why });
    }

    pub(super) fn place(&self) -> &str {
        &self.at
    }

    /// Why the tool cannot be shown at all.
    pub(super) fn out(&self, keyword: &str, why: &'static str) -> Loss {
        let (place, keyword) = (self.at.clone(), keyword.to_owned());
        Loss { place, keyword, change: Change::LeftOut, why }
    }

    /// Before bytes of the schema are copied.
    pub(super) fn copy(&mut self, bytes: usize) -> Result<(), Loss> {
        self.copied += bytes;
        if self.copied > COPIED {
            return Err(self.out("$ref", "it is too large once its references are resolved"));
        }
        Ok(())
    }

    /// One schema, without what was lost.
    pub(super) fn schema(&mut self, schema: &Object, top: bool) -> Result<Object, Loss> {
        self.schemas += 1;
        if self.schemas > SCHEMAS {
            return Err(self.out("$ref", "it is too large once its references are resolved"));
        }
        let opened = self.open.len();
        self.depth += 1;
        let unfolded = self.unfold(schema, top)?;
        let shaped = self.shape(unfolded, top)?;
        let lowered = self.keywords(&shaped, top)?;
        self.depth -= 1;
        self.open.truncate(opened);
        Ok(lowered)
    }

    fn keywords(&mut self, map: &Object, top: bool) -> Result<Object, Loss> {
        let (mut out, mut told) = (Object::with_capacity(map.len()), Vec::new());
        for (keyword, value) in map {
            match self.keyword(map, keyword, value)? {
                Fate::Kept(value) => {
                    out.insert(keyword.clone(), value);
                }
                Fate::Lost(why) => match words::told(keyword, value) {
                    Some(text) => {
                        self.lose(keyword, Change::Told, why);
                        told.push(text);
                    }
                    None => self.lose(keyword, Change::Dropped, why),
                },
            }
        }
        self.whole(&mut out, top)?;
        if top {
            self.told.append(&mut told);
        } else {
            words::describe(&mut out, &told);
        }
        Ok(out)
    }

    fn keyword(&mut self, map: &Object, keyword: &str, value: &Value) -> Result<Fate, Loss> {
        if !self.takes(keyword) {
            return Ok(self.refused(keyword));
        }
        let top = self.at.is_empty();
        let walked = match keyword {
            "not" | "enum" | "const" if top => {
                return Ok(Fate::Lost("the root may not have it"));
            }
            "properties" | "patternProperties" | "$defs" | "definitions" | "dependentSchemas" => {
                self.inside(keyword, |walker| walker.named(keyword, value))
            }
            "items"
            | "additionalProperties"
            | "contains"
            | "not"
            | "if"
            | "then"
            | "else"
            | "propertyNames"
            | "unevaluatedItems"
            | "unevaluatedProperties" => self.inside(keyword, |walker| walker.one(keyword, value)),
            "anyOf" | "oneOf" | "allOf" | "prefixItems" => {
                self.inside(keyword, |walker| walker.list(keyword, value))
            }
            "required" if !value.is_array() => {
                return Ok(Fate::Lost("what is required is a list since draft 4"));
            }
            "enum" => return Ok(self.listed(map, value)),
            "format" => return Ok(self.format(map, value)),
            _ => Ok(value.clone()),
        };
        walked.map(Fate::Kept)
    }

    fn refused(&self, keyword: &str) -> Fate {
        match keyword {
            "$defs" | "definitions" => Fate::Lost("every reference to it is resolved in place"),
            "$schema" | "$id" | "$comment" | "$anchor" => {
                Fate::Lost("it says nothing of the arguments")
            }
            _ => Fate::Lost(self.rules.why),
        }
    }

    /// At a place further inside.
    pub(super) fn inside<T>(
        &mut self,
        segment: &str,
        walk: impl FnOnce(&mut Self) -> Result<T, Loss>,
    ) -> Result<T, Loss> {
        let outside = self.at.len();
        self.at.push('/');
        for c in segment.chars() {
            match c {
                '~' => self.at.push_str("~0"),
                '/' => self.at.push_str("~1"),
                c => self.at.push(c),
            }
        }
        let walked = walk(self);
        self.at.truncate(outside);
        walked
    }

    /// A schema where also `true` and `false` may stand.
    fn one(&mut self, keyword: &str, value: &Value) -> Result<Value, Loss> {
        match value {
            Value::Object(map) => self.schema(map, false).map(Value::Object),
            // Whatever this is, it passes as it stands.
            _ if self.rules.accepts.is_none() => Ok(value.clone()),
            Value::Bool(_) if keyword == "additionalProperties" => Ok(value.clone()),
            Value::Bool(true) if self.rules.shape == Shape::Any => {
                self.lose(keyword, Change::Rewritten, "`true` is written as the empty schema");
                Ok(Value::Object(Object::new()))
            }
            _ => Err(self.out(keyword, "a schema that is true or false cannot be written")),
        }
    }

    fn list(&mut self, keyword: &str, value: &Value) -> Result<Value, Loss> {
        let Value::Array(list) = value else { return Ok(value.clone()) };
        let each = list.iter().enumerate();
        let each = each.map(|(index, value)| {
            self.inside(&index.to_string(), |walker| walker.one(keyword, value))
        });
        each.collect::<Result<_, _>>().map(Value::Array)
    }

    fn named(&mut self, keyword: &str, value: &Value) -> Result<Value, Loss> {
        let Value::Object(map) = value else { return Ok(value.clone()) };
        let mut out = Object::with_capacity(map.len());
        // Names of arguments can be changed, and turned back; further inside they cannot.
        let inner = keyword == "properties" && self.at != "/properties";
        for (name, value) in map {
            let walked = self.inside(name, |walker| {
                if inner && !walker.rules.inside.takes(name) {
                    return Err(walker.out(keyword, "a property may have no such name there"));
                }
                if *value == Value::Bool(false) && walker.rules.accepts.is_some() {
                    walker.lose(keyword, Change::Dropped, "what may not be given is not shown");
                    return Ok(None);
                }
                walker.one(keyword, value).map(Some)
            })?;
            if let Some(walked) = walked {
                out.insert(name.clone(), walked);
            }
        }
        Ok(Value::Object(out))
    }

    fn listed(&mut self, map: &Object, value: &Value) -> Fate {
        let Value::Array(list) = value else { return Fate::Kept(value.clone()) };
        let texts = |value: &Value| value.as_str().is_some_and(|text| !text.is_empty());
        let good = match self.rules.enums {
            Enums::Any => true,
            Enums::Scalars => list.iter().all(|value| value.is_string() || value.is_number()),
            Enums::Texts => {
                list.iter().all(texts) && map.get("type").is_none_or(|kind| kind == "string")
            }
        };
        if good { Fate::Kept(value.clone()) } else { Fate::Lost("not all of it can be listed") }
    }

    fn format(&self, map: &Object, value: &Value) -> Fate {
        let (kind, format) = (map.get("type").and_then(Value::as_str), value.as_str());
        let known = self.rules.formats.is_none_or(|known| {
            known.iter().any(|(of, name)| kind == Some(of) && format == Some(name))
        });
        if known { Fate::Kept(value.clone()) } else { Fate::Lost("the format is not known there") }
    }
}
