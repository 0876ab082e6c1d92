//! Sections of the configuration: mappings whose keys are declared once.
//!
//! [`section!`] makes the typed value, the parser and the JSON Schema from one line a key:
//!
//! ```text
//! section! {
//!     /// The section's description, for the schema.
//!     pub struct Limits as "NAME IN THE SCHEMA": Default, RedactedJson {
//!         /// The key's description.
//!         pub max_result_bytes as "result_bytes": usize = byte_size(64 << 20), default 4 << 20;
//!     }
//! }
//! ```
//!
//! | part of a line | |
//! | --- | --- |
//! | `field as "key"` | a key with another name than the field; `as ".."` for [`flattened`] keys of another type |
//! | `= byte_size(64 << 20)` | the parser, with its bounds; `value_parsers.rs` has them |
//! | `= renamed_from("old", PARSER)` | accepts the key's former name too, with a note |
//! | `, default VALUE` | the value of an absent key; without it, the default of the type |
//! | `, required "FIX"` | reports an absent key with this fix |
//! | `, display EXPRESSION` | the rendering in `config show`, where the type's own does not fit |
//!
//! `Default` implements the section without keys, `RedactedJson` its rendering. A rule over several keys is a function
//! behind the section's parser: `subsection::<SearchKeys>().and_then(search_engine)`.

use std::cell::RefCell;
use std::marker::PhantomData;

use serde_json::{Map, Value, json};
use tool::find_nearest_name;

use super::config_value::{ConfigValue, ValueParser};
use super::yaml_tree::{NodeKind, YamlKey, YamlNode, shorten_text};

/// A mapping with declared keys.
pub(crate) trait Section: Sized {
    /// Its name among the definitions of the schema.
    const NAME: &'static str;
    const DESCRIPTION: &'static str;
    /// Reads the keys. Returns `None` where a required key has no value, after it reported that.
    fn read_keys(keys: &SectionKeys<'_>) -> Option<Self>;
    /// Adds the schemas of the keys to `properties`.
    fn describe_keys(properties: &mut SchemaProperties<'_>);
    /// The schema's rules over several keys: a list of members to add.
    fn schema_constraints() -> Value;
}

/// The keys of one mapping of the file.
pub(crate) struct SectionKeys<'a> {
    mapping: ConfigValue<'a>,
    entries: &'a [(YamlKey, YamlNode)],
    /// The keys that the section declares.
    known: RefCell<Vec<&'static str>>,
    /// Former names of keys, which no fix suggests.
    former: RefCell<Vec<&'static str>>,
}

impl<'a> SectionKeys<'a> {
    /// Reads a value that must be a mapping; null is an empty one.
    pub(crate) fn from_value(mapping: ConfigValue<'a>) -> Option<Self> {
        let entries = match &mapping.node.kind {
            NodeKind::Map(entries) => entries.as_slice(),
            NodeKind::Null => &[],
            NodeKind::Invalid => {
                mapping.file.errors.count_known_error();
                return None;
            }
            _ => {
                mapping.report_mismatch("a mapping of keys to values", "");
                return None;
            }
        };
        Some(Self { mapping, entries, known: RefCell::default(), former: RefCell::default() })
    }

    /// The value of a declared key, unless it is null.
    pub(crate) fn find_value(&self, key: &'static str) -> Option<ConfigValue<'a>> {
        self.known.borrow_mut().push(key);
        self.mapping.find_member(key)
    }

    /// The value of a declared key, or else the value of its former name, with a note.
    pub(crate) fn find_renamed_value(
        &self,
        key: &'static str,
        former_name: &'static str,
    ) -> Option<ConfigValue<'a>> {
        self.former.borrow_mut().push(former_name);
        let (value, former) = (self.find_value(key), self.mapping.find_member(former_name));
        if let Some(former) = former {
            let (errors, position) = (self.mapping.file.errors, former.node.position);
            let message = format!("`{former_name}` is the former name of `{key}`");
            match value {
                None => errors.report_note(position, message, &format!("write `{key}` instead")),
                Some(_) => former.report(message, &format!("remove `{former_name}`")),
            }
        }
        value.or(former)
    }

    /// Parses the value of a required key. Reports an absent one.
    pub(crate) fn require_value<P: ValueParser>(
        &self,
        key: &'static str,
        parser: &P,
        help: &str,
    ) -> Option<P::Output> {
        let Some(value) = self.find_value(key) else {
            self.mapping.report(format!("the key `{key}` is missing"), help);
            return None;
        };
        value.parse_with(parser)
    }

    /// The declared keys, present or not.
    pub(crate) fn known_keys(&self) -> Vec<&'static str> {
        self.known.borrow().clone()
    }

    /// The present keys that are not declared.
    pub(crate) fn unknown_keys(&self) -> impl Iterator<Item = (&'a YamlKey, ConfigValue<'a>)> {
        let known = [self.known_keys(), self.former.borrow().clone()].concat();
        let file = self.mapping.file;
        let is_unknown = move |(key, _): &&(YamlKey, YamlNode)| !known.contains(&key.text.as_str());
        let entries = self.entries.iter().filter(is_unknown);
        entries.map(move |(key, node)| (key, ConfigValue { file, node }))
    }

    fn report_unknown_keys(&self) {
        let known = self.known_keys();
        for (key, _) in self.unknown_keys() {
            let message = format!("unknown key `{}`", shorten_text(&key.text));
            let suggestion = || match find_nearest_name(&key.text, known.iter().copied()) {
                Some(nearest) => format!("did you mean `{nearest}`?"),
                None => format!("known keys: {}", known.join(", ")),
            };
            let help = misplaced_key_help(&key.text, &known).unwrap_or_else(suggestion);
            self.mapping.report_at(key.position, message, &help);
        }
    }
}

/// The fix for a key of a source at the top level. Tool files and other programs' files have such keys.
fn misplaced_key_help(key: &str, known: &[&str]) -> Option<String> {
    let source = match key {
        "tools" | "module" | "mcp" => format!("{{ name: NAME, {key}: … }}"),
        "mcp_servers" | "mcpServers" => "{ mcp_servers: FILE }".to_owned(),
        _ => return None,
    };
    known.contains(&"sources").then(|| format!("it belongs to a source: `sources: [{source}]`"))
}

/// The schemas of one section's keys.
pub(crate) struct SchemaProperties<'a> {
    pub(crate) by_key: Map<String, Value>,
    pub(crate) required: Vec<&'static str>,
    pub(crate) definitions: &'a mut SchemaDefinitions,
}

impl SchemaProperties<'_> {
    pub(crate) fn mark_required(&mut self, key: &'static str, _help: &str) {
        self.required.push(key);
    }

    pub(crate) fn add_property<P: ValueParser>(
        &mut self,
        key: &str,
        description: &str,
        parser: &P,
    ) {
        let schema = parser.json_schema(self.definitions);
        let mut property = Map::new();
        property.insert("description".to_owned(), description.trim().into());
        merge_members(&mut property, schema);
        self.by_key.insert(key.to_owned(), property.into());
    }
}

/// Definitions of the schema by name, in the order of their first reference.
#[derive(Default)]
pub(crate) struct SchemaDefinitions(pub(crate) Map<String, Value>);

impl SchemaDefinitions {
    /// Refers to a definition, and makes it at the first reference.
    pub(crate) fn reference_to(
        &mut self,
        name: &str,
        make: impl FnOnce(&mut Self) -> Value,
    ) -> Value {
        if !self.0.contains_key(name) {
            self.0.insert(name.to_owned(), Value::Null);
            let definition = make(self);
            self.0.insert(name.to_owned(), definition);
        }
        json!({ "$ref": format!("#/$defs/{name}") })
    }

    /// The schema of a section, without a reference to it.
    pub(crate) fn object_schema<T: Section>(&mut self) -> Map<String, Value> {
        let mut keys =
            SchemaProperties { by_key: Map::new(), required: Vec::new(), definitions: self };
        T::describe_keys(&mut keys);
        let (properties, required) = (keys.by_key, keys.required);
        let mut object = Map::new();
        object.insert("description".to_owned(), T::DESCRIPTION.trim().into());
        merge_members(
            &mut object,
            json!({ "type": "object", "properties": properties, "additionalProperties": false }),
        );
        if !required.is_empty() {
            object.insert("required".to_owned(), json!(required));
        }
        if let Value::Array(constraints) = T::schema_constraints() {
            for constraint in constraints {
                merge_members(&mut object, constraint);
            }
        }
        object
    }
}

fn merge_members(object: &mut Map<String, Value>, additions: Value) {
    if let Value::Object(members) = additions {
        object.extend(members);
    }
}

/// Parses a section with its keys.
pub(crate) struct SectionParser<T>(PhantomData<fn() -> T>);

/// A section with its keys. Unknown keys are errors.
pub(crate) fn subsection<T: Section>() -> SectionParser<T> {
    SectionParser(PhantomData)
}

impl<T: Section> ValueParser for SectionParser<T> {
    type Output = T;

    fn parse_value(&self, value: ConfigValue<'_>) -> Option<T> {
        let keys = SectionKeys::from_value(value)?;
        let section = T::read_keys(&keys);
        keys.report_unknown_keys();
        section
    }
    fn json_schema(&self, definitions: &mut SchemaDefinitions) -> Value {
        definitions.reference_to(T::NAME, |definitions| definitions.object_schema::<T>().into())
    }
}

/// Reads keys of another type from the mapping of the section itself.
pub(crate) struct FlattenedParser<T>(PhantomData<fn() -> T>);

/// Keys of another type in the mapping of the section itself. The field is declared `as ".."`.
pub(crate) fn flattened<T: Section>() -> FlattenedParser<T> {
    FlattenedParser(PhantomData)
}

impl<T: Section> ValueParser for FlattenedParser<T> {
    type Output = T;

    fn parse_value(&self, _: ConfigValue<'_>) -> Option<T> {
        None
    }
    fn json_schema(&self, _: &mut SchemaDefinitions) -> Value {
        Value::Null
    }
    fn read_key<'a>(
        &self,
        keys: &SectionKeys<'a>,
        _: &'static str,
    ) -> Option<(ConfigValue<'a>, T)> {
        Some((keys.mapping, T::read_keys(keys)?))
    }
    fn describe_key(&self, _: &'static str, _: &str, properties: &mut SchemaProperties<'_>) {
        T::describe_keys(properties);
    }
}

/// Converts a value, or makes the default of the key's type.
pub(crate) fn value_or_default<T, V: From<T> + Default>(value: Option<T>) -> V {
    value.map(V::from).unwrap_or_default()
}

/// Declares a section, as the module describes. `for TYPE as "NAME"` declares the keys of an existing type.
macro_rules! section {
    ($(#[doc = $about:literal])* $(#[derive($($derive:path),*)])?
     $vis:vis struct $type:ident as $name:literal $(: $($trait:ident),+)? $(with $constraints:tt)? { $($body:tt)* }) => {
        $crate::section::section!(
            @struct [$(#[doc = $about])* $(#[derive($($derive),*)])? $vis struct $type] { $($body)* }
        );
        $crate::section::section!(
            @traits $type [$($about)*] $name [$($($trait)+)?] [$($constraints)?] { $($body)* }
        );
    };
    ($(#[doc = $about:literal])* for $type:ty as $name:literal $(: $($trait:ident),+)? $(with $constraints:tt)? { $($body:tt)* }) => {
        $crate::section::section!(
            @traits $type [$($about)*] $name [$($($trait)+)?] [$($constraints)?] { $($body)* }
        );
    };
    (@traits $type:ty [$($about:literal)*] $name:literal [$($trait:ident)*] $constraints:tt $body:tt) => {
        $crate::section::section!(@Keys $type [$($about)*] $name $constraints $body);
        $($crate::section::section!(@$trait $type $body);)*
    };
    (@struct [$($head:tt)*] {
        $($(#[doc = $doc:literal])* $vis:vis $field:ident $(as $key:literal)?: $kind:ty = $parser:expr
            $(, default $default:expr)? $(, required $help:literal)? $(, display $display:expr)?;)*
    }) => {
        $($head)* { $($(#[doc = $doc])* $vis $field: $kind),* }
    };
    (@Keys $type:ty [$($about:literal)*] $name:literal [$($constraints:tt)?] {
        $($(#[doc = $doc:literal])* $vis:vis $field:ident $(as $key:literal)?: $kind:ty = $parser:expr
            $(, default $default:expr)? $(, required $help:literal)? $(, display $display:expr)?;)*
    }) => {
        impl $crate::section::Section for $type {
            const NAME: &'static str = $name;
            const DESCRIPTION: &'static str = concat!($($about),*);
            fn read_keys(keys: &$crate::section::SectionKeys<'_>) -> Option<Self> {
                let ($($field,)*) =
                    ($($crate::section::section!(@read keys ($field $($key)?) ($parser) $($help)?),)*);
                // In the order of declaration: a default may use the value of an earlier key.
                $(let $field: $kind = $crate::section::section!(@value $field $(default $default)? $(required $help)?);)*
                Some(Self { $($field),* })
            }
            fn describe_keys(properties: &mut $crate::section::SchemaProperties<'_>) {
                $(
                    let key = $crate::section::section!(@key $field $($key)?);
                    $crate::config_value::ValueParser::describe_key(&$parser, key, concat!($($doc),*), properties);
                    $(properties.mark_required(key, $help);)?
                )*
            }
            fn schema_constraints() -> serde_json::Value {
                serde_json::json!([$($constraints)?])
            }
        }
    };
    (@Default $type:ty {
        $($(#[doc = $doc:literal])* $vis:vis $field:ident $(as $key:literal)?: $kind:ty = $parser:expr
            $(, default $default:expr)? $(, display $display:expr)?;)*
    }) => {
        impl Default for $type {
            fn default() -> Self {
                Self { $($field: $crate::section::section!(@default $($default)?)),* }
            }
        }
    };
    (@RedactedJson $type:ty {
        $($(#[doc = $doc:literal])* $vis:vis $field:ident $(as $key:literal)?: $kind:ty = $parser:expr
            $(, default $default:expr)? $(, required $help:literal)? $(, display $display:expr)?;)*
    }) => {
        impl $crate::config_display::RedactedJson for $type {
            fn to_redacted_json(&self) -> serde_json::Value {
                // The pattern names every field, so that a field without a key does not compile.
                let Self { $($field),* } = self;
                let mut members = serde_json::Map::new();
                $($crate::config_display::insert_member(
                    &mut members,
                    $crate::section::section!(@key $field $($key)?),
                    $crate::section::section!(@display $field $($display)?),
                );)*
                members.into()
            }
        }
    };
    (@key $field:ident) => { stringify!($field) };
    (@key $field:ident $key:literal) => { $key };
    (@read $keys:ident ($($key:tt)*) ($parser:expr)) => {
        $crate::config_value::ValueParser::read_key(&$parser, $keys, $crate::section::section!(@key $($key)*))
            .map(|(_, value)| value)
    };
    (@read $keys:ident ($($key:tt)*) ($parser:expr) $help:literal) => {
        $keys.require_value($crate::section::section!(@key $($key)*), &$parser, $help)
    };
    (@value $field:ident) => { $crate::section::value_or_default($field) };
    (@value $field:ident default $default:expr) => { $field.unwrap_or_else(|| $default) };
    (@value $field:ident required $help:literal) => { $field? };
    (@default) => { Default::default() };
    (@default $default:expr) => { $default };
    (@display $field:ident) => { $crate::config_display::RedactedJson::to_redacted_json($field) };
    (@display $field:ident $display:expr) => {{
        let _value = $field;
        $display
    }};
}

pub(crate) use section;
