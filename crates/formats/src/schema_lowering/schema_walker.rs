//! Schema walker: visits every subschema, keyword by keyword.

use serde_json::{Map, Value};
use tool::json_pointer;

use super::keywords;
use super::provider_rules::{EnumValues, ProviderRules, SchemaShape};
use super::schema_loss::{LossKind, SchemaLoss};

pub(super) type SchemaObject = Map<String, Value>;

/// Schemas that are walked, references resolved; a bomb has more.
const MAX_SUBSCHEMAS: usize = 10_000;
/// Bytes that resolving may copy.
const MAX_COPIED_BYTES: usize = 4 << 20;

/// State of the walk over one schema.
pub(super) struct SchemaWalker<'a> {
    pub(super) rules: &'a ProviderRules,
    pub(super) root: &'a Value,
    pub(super) losses: Vec<SchemaLoss>,
    /// Notes on the root schema.
    pub(super) root_notes: Vec<String>,
    /// Places of what may be null instead of being left out.
    pub(super) nullable_pointers: Vec<String>,
    /// References that are being resolved.
    pub(super) open_refs: Vec<String>,
    /// Schemas that the walk is inside of.
    pub(super) depth: usize,
    pointer: String,
    schema_count: usize,
    copied_bytes: usize,
}

/// Outcome for a keyword.
pub(super) enum KeywordOutcome {
    Kept(Value),
    Lost(&'static str),
}

impl<'a> SchemaWalker<'a> {
    pub(super) fn new(rules: &'a ProviderRules, root: &'a Value) -> Self {
        let (losses, told, nulls, open) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        Self {
            rules,
            root,
            losses,
            root_notes: told,
            nullable_pointers: nulls,
            open_refs: open,
            depth: 0,
            pointer: String::new(),
            schema_count: 0,
            copied_bytes: 0,
        }
    }

    pub(super) fn accepts_keyword(&self, keyword: &str) -> bool {
        self.rules.accepted_keywords.is_none_or(|all| all.contains(&keyword))
    }

    pub(super) fn record_loss(&mut self, keyword: &str, change: LossKind, reason: &'static str) {
        self.losses.push(SchemaLoss::at_pointer(&self.pointer, keyword, change, reason));
    }

    pub(super) fn current_pointer(&self) -> &str {
        &self.pointer
    }

    /// Creates the loss for a tool that cannot be rendered at all.
    pub(super) fn unsupported_keyword(&self, keyword: &str, reason: &'static str) -> SchemaLoss {
        SchemaLoss::at_pointer(&self.pointer, keyword, LossKind::ToolOmitted, reason)
    }

    /// Charges a copy of schema bytes to the budget, before it is made.
    pub(super) fn charge_copy(&mut self, bytes: usize) -> Result<(), SchemaLoss> {
        self.copied_bytes += bytes;
        if self.copied_bytes > MAX_COPIED_BYTES {
            return Err(self
                .unsupported_keyword("$ref", "it is too large once its references are resolved"));
        }
        Ok(())
    }

    /// Lowers one schema and records its losses.
    pub(super) fn lower_schema(
        &mut self,
        schema: &SchemaObject,
        is_root: bool,
    ) -> Result<SchemaObject, SchemaLoss> {
        self.schema_count += 1;
        if self.schema_count > MAX_SUBSCHEMAS {
            return Err(self
                .unsupported_keyword("$ref", "it is too large once its references are resolved"));
        }
        let opened = self.open_refs.len();
        self.depth += 1;
        let unfolded = self.inline_refs(schema, is_root)?;
        let shaped = self.rewrite_keywords(unfolded, is_root)?;
        let lowered = self.lower_keywords(&shaped, is_root)?;
        self.depth -= 1;
        self.open_refs.truncate(opened);
        Ok(lowered)
    }

    fn lower_keywords(
        &mut self,
        map: &SchemaObject,
        is_root: bool,
    ) -> Result<SchemaObject, SchemaLoss> {
        let (mut out, mut notes) = (SchemaObject::with_capacity(map.len()), Vec::new());
        for (keyword, value) in map {
            match self.lower_keyword(map, keyword, value)? {
                KeywordOutcome::Kept(value) => {
                    out.insert(keyword.clone(), value);
                }
                KeywordOutcome::Lost(why) => match keywords::keyword_note(keyword, value) {
                    Some(text) => {
                        self.record_loss(keyword, LossKind::DescribedOnly, why);
                        notes.push(text);
                    }
                    None => self.record_loss(keyword, LossKind::Dropped, why),
                },
            }
        }
        self.complete_schema(&mut out, is_root)?;
        if is_root {
            self.root_notes.append(&mut notes);
        } else {
            keywords::append_notes(&mut out, &notes);
        }
        Ok(out)
    }

    fn lower_keyword(
        &mut self,
        map: &SchemaObject,
        keyword: &str,
        value: &Value,
    ) -> Result<KeywordOutcome, SchemaLoss> {
        if !self.accepts_keyword(keyword) {
            return Ok(self.reject_keyword(keyword));
        }
        let is_root = self.pointer.is_empty();
        let walked = match keyword {
            "not" | "enum" | "const" if is_root => {
                return Ok(KeywordOutcome::Lost("the root must not have it"));
            }
            "properties" | "patternProperties" | "$defs" | "definitions" | "dependentSchemas" => {
                self.at_child(keyword, |walker| walker.lower_schema_map(keyword, value))
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
            | "unevaluatedProperties" => {
                self.at_child(keyword, |walker| walker.lower_subschema(keyword, value))
            }
            "anyOf" | "oneOf" | "allOf" | "prefixItems" => {
                self.at_child(keyword, |walker| walker.lower_schema_array(keyword, value))
            }
            "required" if !value.is_array() => {
                return Ok(KeywordOutcome::Lost("`required` is a list since draft 4"));
            }
            "enum" => return Ok(self.lower_enum(map, value)),
            "format" => return Ok(self.lower_format(map, value)),
            _ => Ok(value.clone()),
        };
        walked.map(KeywordOutcome::Kept)
    }

    fn reject_keyword(&self, keyword: &str) -> KeywordOutcome {
        match keyword {
            "$defs" | "definitions" => {
                KeywordOutcome::Lost("every reference to it is resolved in place")
            }
            "$schema" | "$id" | "$comment" | "$anchor" => {
                KeywordOutcome::Lost("it does not describe the arguments")
            }
            _ => KeywordOutcome::Lost(self.rules.unsupported_reason),
        }
    }

    /// Lowers the schema at a nested location.
    pub(super) fn at_child<T>(
        &mut self,
        segment: &str,
        walk: impl FnOnce(&mut Self) -> Result<T, SchemaLoss>,
    ) -> Result<T, SchemaLoss> {
        let outside = self.pointer.len();
        json_pointer::push_segment(&mut self.pointer, segment);
        let walked = walk(self);
        self.pointer.truncate(outside);
        walked
    }

    /// Lowers a subschema that may also be `true` or `false`.
    fn lower_subschema(&mut self, keyword: &str, value: &Value) -> Result<Value, SchemaLoss> {
        match value {
            Value::Object(map) => self.lower_schema(map, false).map(Value::Object),
            // The provider accepts all keywords, so the value stays unchanged.
            _ if self.rules.accepted_keywords.is_none() => Ok(value.clone()),
            Value::Bool(_) if keyword == "additionalProperties" => Ok(value.clone()),
            Value::Bool(true) if self.rules.schema_shape == SchemaShape::Any => {
                self.record_loss(
                    keyword,
                    LossKind::Rewritten,
                    "`true` is rewritten as the empty schema",
                );
                Ok(Value::Object(SchemaObject::new()))
            }
            _ => Err(self.unsupported_keyword(keyword, "Boolean schemas are not supported")),
        }
    }

    fn lower_schema_array(&mut self, keyword: &str, value: &Value) -> Result<Value, SchemaLoss> {
        let Value::Array(list) = value else { return Ok(value.clone()) };
        let each = list.iter().enumerate();
        let each = each.map(|(index, value)| {
            self.at_child(&index.to_string(), |walker| walker.lower_subschema(keyword, value))
        });
        each.collect::<Result<_, _>>().map(Value::Array)
    }

    fn lower_schema_map(&mut self, keyword: &str, value: &Value) -> Result<Value, SchemaLoss> {
        let Value::Object(map) = value else { return Ok(value.clone()) };
        let mut out = SchemaObject::with_capacity(map.len());
        // Names of arguments can be changed, and turned back; further inside they cannot.
        let inner = keyword == "properties" && self.pointer != "/properties";
        for (name, value) in map {
            let walked = self.at_child(name, |walker| {
                if inner && !walker.rules.nested_property_names.accepts_name(name) {
                    return Err(walker
                        .unsupported_keyword(keyword, "the property's name is not allowed there"));
                }
                if *value == Value::Bool(false) && walker.rules.accepted_keywords.is_some() {
                    walker.record_loss(
                        keyword,
                        LossKind::Dropped,
                        "a property that is never allowed is omitted",
                    );
                    return Ok(None);
                }
                walker.lower_subschema(keyword, value).map(Some)
            })?;
            if let Some(walked) = walked {
                out.insert(name.clone(), walked);
            }
        }
        Ok(Value::Object(out))
    }

    fn lower_enum(&mut self, map: &SchemaObject, value: &Value) -> KeywordOutcome {
        let Value::Array(list) = value else { return KeywordOutcome::Kept(value.clone()) };
        let texts = |value: &Value| value.as_str().is_some_and(|text| !text.is_empty());
        let good = match self.rules.enum_values {
            EnumValues::Any => true,
            EnumValues::Scalars => list.iter().all(|value| value.is_string() || value.is_number()),
            EnumValues::NonEmptyStrings => {
                list.iter().all(texts) && map.get("type").is_none_or(|kind| kind == "string")
            }
        };
        if good {
            KeywordOutcome::Kept(value.clone())
        } else {
            KeywordOutcome::Lost("it is too large to list completely")
        }
    }

    fn lower_format(&self, map: &SchemaObject, value: &Value) -> KeywordOutcome {
        let (kind, format) = (map.get("type").and_then(Value::as_str), value.as_str());
        let known = self.rules.known_formats.is_none_or(|known| {
            known.iter().any(|(of, name)| kind == Some(of) && format == Some(name))
        });
        if known {
            KeywordOutcome::Kept(value.clone())
        } else {
            KeywordOutcome::Lost("the format is not supported there")
        }
    }
}
