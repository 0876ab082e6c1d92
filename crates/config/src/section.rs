//! Sections of the configuration: mappings whose keys are declared once.
//!
//! [`section!`] makes from one line a key the typed value, the reading and the JSON schema:
//!
//! ```text
//! section! {
//!     /// The section's description, for the schema.
//!     pub struct Limits as "NAME IN THE SCHEMA": Default, Show {
//!         /// The key's description.
//!         pub result_bytes: usize = size(64 << 20), default 4 << 20;
//!     }
//! }
//! ```
//!
//! | part of a line | |
//! | --- | --- |
//! | `field as "key"` | where the key is not named as the field; `as ".."` for keys of another type, [`flattened`] |
//! | `= size(64 << 20)` | the parser: what may be written, and its bounds; `parsers.rs` has them |
//! | `, default VALUE` | where the key is not there; without it, the type's own default |
//! | `, required "FIX"` | the key must be there, and this is what to do |
//! | `, shown EXPRESSION` | how `config show` renders it, where not as its type |
//!
//! `Default` makes the section as it is without a key, `Show` its rendering. A rule over more than one key is a function
//! behind the section's parser: `subsection::<Search>().then(search)`.

use std::cell::RefCell;
use std::marker::PhantomData;

use serde_json::{Map, Value, json};

use super::node::{Key, Kind, Node, shorten};
use super::value::{ConfigValue, ValueParser};
use tool::nearest_name;

/// A mapping with known keys.
pub(crate) trait Section: Sized {
    /// Its name among the definitions of the schema.
    const NAME: &'static str;
    const DESCRIPTION: &'static str;
    /// Reads the keys. `None` where a required one has no value, which is reported then.
    fn read(keys: &Keys<'_>) -> Option<Self>;
    /// Describes the keys.
    fn describe(properties: &mut Properties<'_>);
    /// What the schema says of the keys together: a list of members to add.
    fn constraints() -> Value;
}

/// The keys of one mapping, as they are in the file.
pub(crate) struct Keys<'a> {
    mapping: ConfigValue<'a>,
    entries: &'a [(Key, Node)],
    /// The keys that were asked for.
    known: RefCell<Vec<&'static str>>,
}

impl<'a> Keys<'a> {
    /// Of a value that must be a mapping.
    pub(crate) fn of(mapping: ConfigValue<'a>) -> Option<Self> {
        let entries = match &mapping.node.kind {
            Kind::Map(entries) => entries.as_slice(),
            Kind::Null => &[],
            Kind::Broken => {
                mapping.file.sink.count_reported();
                return None;
            }
            _ => {
                mapping.expected("a mapping of keys to values", "");
                return None;
            }
        };
        Some(Self { mapping, entries, known: RefCell::default() })
    }

    /// The value of a key that holds something.
    pub(crate) fn value(&self, key: &'static str) -> Option<ConfigValue<'a>> {
        self.known.borrow_mut().push(key);
        self.mapping.member(key)
    }

    /// The value of a key that must be there.
    pub(crate) fn required<P: ValueParser>(
        &self,
        key: &'static str,
        parser: &P,
        fix: &str,
    ) -> Option<P::Output> {
        let Some(value) = self.value(key) else {
            self.mapping.fault(format!("the key `{key}` is missing"), fix);
            return None;
        };
        value.parse(parser)
    }

    /// The keys that were asked for, whether they are there or not.
    pub(crate) fn known(&self) -> Vec<&'static str> {
        self.known.borrow().clone()
    }

    /// The keys that are there and were not asked for.
    pub(crate) fn unknown(&self) -> impl Iterator<Item = (&'a Key, ConfigValue<'a>)> {
        let (known, file) = (self.known(), self.mapping.file);
        let unknown = move |(key, _): &&(Key, Node)| !known.contains(&key.text.as_str());
        let entries = self.entries.iter().filter(unknown);
        entries.map(move |(key, node)| (key, ConfigValue { file, node }))
    }

    fn report_unknown(&self) {
        let known = self.known();
        for (key, _) in self.unknown() {
            let message = format!("unknown key `{}`", shorten(&key.text));
            let near = || match nearest_name(&key.text, known.iter().copied()) {
                Some(near) => format!("did you mean `{near}`?"),
                None => format!("known are {}", known.join(", ")),
            };
            let fix = elsewhere(&key.text, &known).unwrap_or_else(near);
            self.mapping.fault_at(key.place, message, &fix);
        }
    }
}

/// What belongs to a source and stands beside them: the files of tools and of other programs begin so.
fn elsewhere(key: &str, known: &[&str]) -> Option<String> {
    let source = match key {
        "tools" | "module" | "mcp" => format!("{{ name: NAME, {key}: … }}"),
        "mcp_servers" | "mcpServers" => "{ mcp_servers: FILE }".to_owned(),
        _ => return None,
    };
    known.contains(&"sources").then(|| format!("that is for a source: `sources: [{source}]`"))
}

/// Descriptions of the keys of one section.
pub(crate) struct Properties<'a> {
    pub(crate) all: Map<String, Value>,
    pub(crate) required: Vec<&'static str>,
    pub(crate) definitions: &'a mut Definitions,
}

impl Properties<'_> {
    pub(crate) fn require(&mut self, key: &'static str, _fix: &str) {
        self.required.push(key);
    }

    pub(crate) fn add<P: ValueParser>(&mut self, key: &str, description: &str, parser: &P) {
        let schema = parser.schema(self.definitions);
        let mut property = Map::new();
        property.insert("description".to_owned(), description.trim().into());
        extend(&mut property, schema);
        self.all.insert(key.to_owned(), property.into());
    }
}

/// Definitions of the schema by name, in the order in which they are first mentioned.
#[derive(Default)]
pub(crate) struct Definitions(pub(crate) Map<String, Value>);

impl Definitions {
    /// A reference to a definition, which is made where it is not there yet.
    pub(crate) fn refer(&mut self, name: &str, make: impl FnOnce(&mut Self) -> Value) -> Value {
        if !self.0.contains_key(name) {
            self.0.insert(name.to_owned(), Value::Null);
            let made = make(self);
            self.0.insert(name.to_owned(), made);
        }
        json!({ "$ref": format!("#/$defs/{name}") })
    }

    /// The schema of a section itself.
    pub(crate) fn object<T: Section>(&mut self) -> Map<String, Value> {
        let mut keys = Properties { all: Map::new(), required: Vec::new(), definitions: self };
        T::describe(&mut keys);
        let (all, required) = (keys.all, keys.required);
        let mut object = Map::new();
        object.insert("description".to_owned(), T::DESCRIPTION.trim().into());
        extend(
            &mut object,
            json!({ "type": "object", "properties": all, "additionalProperties": false }),
        );
        if !required.is_empty() {
            object.insert("required".to_owned(), json!(required));
        }
        if let Value::Array(all) = T::constraints() {
            for constraint in all {
                extend(&mut object, constraint);
            }
        }
        object
    }
}

fn extend(object: &mut Map<String, Value>, with: Value) {
    if let Value::Object(members) = with {
        object.extend(members);
    }
}

/// Reads a section.
pub(crate) struct SectionParser<T>(PhantomData<fn() -> T>);

/// The parser of a section. Keys that it does not know are faults.
pub(crate) fn subsection<T: Section>() -> SectionParser<T> {
    SectionParser(PhantomData)
}

impl<T: Section> ValueParser for SectionParser<T> {
    type Output = T;

    fn parse(&self, value: ConfigValue<'_>) -> Option<T> {
        let keys = Keys::of(value)?;
        let section = T::read(&keys);
        keys.report_unknown();
        section
    }
    fn schema(&self, definitions: &mut Definitions) -> Value {
        definitions.refer(T::NAME, |definitions| definitions.object::<T>().into())
    }
}

/// Reads keys that stand in the section itself, and have a type of their own.
pub(crate) struct Flattened<T>(PhantomData<fn() -> T>);

/// The parser of keys of another type that stand in the section itself. The field is `as ".."`.
pub(crate) fn flattened<T: Section>() -> Flattened<T> {
    Flattened(PhantomData)
}

impl<T: Section> ValueParser for Flattened<T> {
    type Output = T;

    fn parse(&self, _: ConfigValue<'_>) -> Option<T> {
        None
    }
    fn schema(&self, _: &mut Definitions) -> Value {
        Value::Null
    }
    fn read_key<'a>(&self, keys: &Keys<'a>, _: &'static str) -> Option<(ConfigValue<'a>, T)> {
        Some((keys.mapping, T::read(keys)?))
    }
    fn describe_key(&self, _: &'static str, _: &str, properties: &mut Properties<'_>) {
        T::describe(properties);
    }
}

/// A value, or the default of the key's type.
pub(crate) fn value_or_default<T, V: From<T> + Default>(value: Option<T>) -> V {
    value.map(V::from).unwrap_or_default()
}

/// Declares a section: see the module. `for TYPE as "NAME"` declares the keys of a type that is there already.
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
        $crate::section::section!(@Section $type [$($about)*] $name $constraints $body);
        $($crate::section::section!(@$trait $type $body);)*
    };
    (@struct [$($head:tt)*] {
        $($(#[doc = $doc:literal])* $vis:vis $field:ident $(as $key:literal)?: $kind:ty = $parser:expr
            $(, default $default:expr)? $(, required $fix:literal)? $(, shown $shown:expr)?;)*
    }) => {
        $($head)* { $($(#[doc = $doc])* $vis $field: $kind),* }
    };
    (@Section $type:ty [$($about:literal)*] $name:literal [$($constraints:tt)?] {
        $($(#[doc = $doc:literal])* $vis:vis $field:ident $(as $key:literal)?: $kind:ty = $parser:expr
            $(, default $default:expr)? $(, required $fix:literal)? $(, shown $shown:expr)?;)*
    }) => {
        impl $crate::section::Section for $type {
            const NAME: &'static str = $name;
            const DESCRIPTION: &'static str = concat!($($about),*);
            fn read(keys: &$crate::section::Keys<'_>) -> Option<Self> {
                let ($($field,)*) =
                    ($($crate::section::section!(@read keys ($field $($key)?) ($parser) $($fix)?),)*);
                // One after the other: a default may name a key before it.
                $(let $field: $kind = $crate::section::section!(@value $field $(default $default)? $(required $fix)?);)*
                Some(Self { $($field),* })
            }
            fn describe(properties: &mut $crate::section::Properties<'_>) {
                $(
                    let key = $crate::section::section!(@key $field $($key)?);
                    $crate::value::ValueParser::describe_key(&$parser, key, concat!($($doc),*), properties);
                    $(properties.require(key, $fix);)?
                )*
            }
            fn constraints() -> serde_json::Value {
                serde_json::json!([$($constraints)?])
            }
        }
    };
    (@Default $type:ty {
        $($(#[doc = $doc:literal])* $vis:vis $field:ident $(as $key:literal)?: $kind:ty = $parser:expr
            $(, default $default:expr)? $(, shown $shown:expr)?;)*
    }) => {
        impl Default for $type {
            fn default() -> Self {
                Self { $($field: $crate::section::section!(@default $($default)?)),* }
            }
        }
    };
    (@Show $type:ty {
        $($(#[doc = $doc:literal])* $vis:vis $field:ident $(as $key:literal)?: $kind:ty = $parser:expr
            $(, default $default:expr)? $(, required $fix:literal)? $(, shown $shown:expr)?;)*
    }) => {
        impl $crate::shown::Show for $type {
            fn show(&self) -> serde_json::Value {
                // Taken apart, so that a field without a key does not compile.
                let Self { $($field),* } = self;
                let mut members = serde_json::Map::new();
                $($crate::shown::insert(
                    &mut members,
                    $crate::section::section!(@key $field $($key)?),
                    $crate::section::section!(@show $field $($shown)?),
                );)*
                members.into()
            }
        }
    };
    (@key $field:ident) => { stringify!($field) };
    (@key $field:ident $key:literal) => { $key };
    (@read $keys:ident ($($key:tt)*) ($parser:expr)) => {
        $crate::value::ValueParser::read_key(&$parser, $keys, $crate::section::section!(@key $($key)*))
            .map(|(_, value)| value)
    };
    (@read $keys:ident ($($key:tt)*) ($parser:expr) $fix:literal) => {
        $keys.required($crate::section::section!(@key $($key)*), &$parser, $fix)
    };
    (@value $field:ident) => { $crate::section::value_or_default($field) };
    (@value $field:ident default $default:expr) => { $field.unwrap_or_else(|| $default) };
    (@value $field:ident required $fix:literal) => { $field? };
    (@default) => { Default::default() };
    (@default $default:expr) => { $default };
    (@show $field:ident) => { $crate::shown::Show::show($field) };
    (@show $field:ident $shown:expr) => {{
        let _value = $field;
        $shown
    }};
}

pub(crate) use section;
