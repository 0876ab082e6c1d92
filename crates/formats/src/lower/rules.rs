//! What each provider takes of JSON Schema: one table each.
//!
//! None of them takes `anyOf`, `oneOf`, `allOf`, `not`, `enum` or `const` at the root.
//!
//! Facts are of the providers' SDKs and servers of November 2026 and of the errors their services
//! answer with.

/// What a provider takes.
#[derive(Debug)]
pub(crate) struct Rules {
    /// The keywords it takes; `None` where it takes whatever stands there.
    pub(crate) accepts: Option<&'static [&'static str]>,
    /// Whether it follows `$ref`.
    pub(crate) references: bool,
    /// What it wants of every schema.
    pub(crate) shape: Shape,
    /// What an `enum` may list.
    pub(crate) enums: Enums,
    /// Formats it knows: type and format; `None` for any.
    pub(crate) formats: Option<&'static [(&'static str, &'static str)]>,
    /// Whether a list must say its `items`, and the root its `properties`.
    pub(crate) complete: bool,
    /// The names that arguments may have.
    pub(crate) arguments: Names,
    /// The names that properties further inside may have.
    pub(crate) inside: Names,
    /// Why a keyword that it does not take is not there.
    pub(crate) why: &'static str,
}

/// What a provider wants of every schema.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Shape {
    /// Nothing.
    Any,
    /// One type, with `nullable` beside it, and what is in it.
    OneType,
    /// A type; of an object all that may be in it, and that all of it must be.
    Closed,
}

/// What an `enum` may list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Enums {
    Any,
    /// Texts and numbers.
    Scalars,
    /// Texts that are not empty.
    Texts,
}

/// Names of properties.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Names {
    Any,
    /// `^[a-zA-Z0-9_.-]{1,64}$`.
    Dotted,
    /// `^[a-zA-Z_][a-zA-Z0-9_]{0,63}$`.
    Identifier,
}

impl Rules {
    pub(crate) fn one_type(&self) -> bool {
        self.shape == Shape::OneType
    }

    pub(crate) fn closed(&self) -> bool {
        self.shape == Shape::Closed
    }
}

impl Names {
    pub(crate) fn takes(self, name: &str) -> bool {
        let length = (1..=crate::names::MAX).contains(&name.len());
        match self {
            Self::Any => true,
            Self::Dotted => length && name.bytes().all(|b| self.takes_byte(b)),
            Self::Identifier => {
                let first = name.bytes().next().is_some_and(|b| !b.is_ascii_digit());
                length && first && name.bytes().all(|b| self.takes_byte(b))
            }
        }
    }

    fn takes_byte(self, byte: u8) -> bool {
        let more = self == Self::Dotted && matches!(byte, b'.' | b'-');
        byte.is_ascii_alphanumeric() || byte == b'_' || more
    }

    /// `name` with what is not taken replaced; it may be taken by another, or too long.
    pub(crate) fn replaced(self, name: &str) -> String {
        let one = |c: char| match u8::try_from(c) {
            Ok(byte) if self.takes_byte(byte) => c,
            _ => '_',
        };
        let name: String = name.chars().map(one).collect();
        let digit = name.is_empty() || name.starts_with(|c: char| c.is_ascii_digit());
        if digit && self == Self::Identifier { format!("_{name}") } else { name }
    }
}

/// Chat Completions and Responses, not strict. "schema must have type 'object' and not have
/// 'oneOf'/'anyOf'/'allOf'/'enum'/'not' at the top level"; "array schema missing items"; "object schema missing properties".
pub(crate) const OPENAI: Rules = Rules {
    accepts: None,
    references: true,
    shape: Shape::Any,
    enums: Enums::Any,
    formats: None,
    complete: true,
    arguments: Names::Any,
    inside: Names::Any,
    why: "OpenAI takes no such keyword here",
};

/// The same, strict: the subset of its structured outputs.
pub(crate) const OPENAI_STRICT: Rules = Rules {
    accepts: Some(&[
        "type",
        "title",
        "description",
        "enum",
        "properties",
        "required",
        "additionalProperties",
        "items",
        "anyOf",
        "pattern",
        "format",
        "minimum",
        "maximum",
        "exclusiveMinimum",
        "exclusiveMaximum",
        "multipleOf",
        "minItems",
        "maxItems",
    ]),
    references: false,
    shape: Shape::Closed,
    formats: Some(&[
        ("string", "date-time"),
        ("string", "time"),
        ("string", "date"),
        ("string", "duration"),
        ("string", "email"),
        ("string", "hostname"),
        ("string", "ipv4"),
        ("string", "ipv6"),
        ("string", "uuid"),
    ]),
    why: "OpenAI's strict schemas have no such keyword",
    ..OPENAI
};

/// "input_schema does not support oneOf, allOf, or anyOf at the top level"; "Property keys should match
/// pattern '^[a-zA-Z0-9_.-]{1,64}$'", which is asked of the arguments only.
pub(crate) const ANTHROPIC: Rules = Rules {
    complete: false,
    arguments: Names::Dotted,
    why: "Anthropic takes no such keyword here",
    ..OPENAI
};

/// Gemini's `parameters`: its own Schema, after OpenAPI 3.0. "only 'enum' and 'date-time' are supported
/// for STRING type"; "properties: should be non-empty for OBJECT type"; "enum: only allowed for STRING
/// type".
pub(crate) const GEMINI: Rules = Rules {
    accepts: Some(&[
        "type",
        "format",
        "title",
        "description",
        "nullable",
        "enum",
        "items",
        "minItems",
        "maxItems",
        "properties",
        "required",
        "minProperties",
        "maxProperties",
        "minLength",
        "maxLength",
        "pattern",
        "example",
        "anyOf",
        "propertyOrdering",
        "default",
        "minimum",
        "maximum",
    ]),
    references: false,
    shape: Shape::OneType,
    enums: Enums::Texts,
    formats: Some(&[
        ("string", "enum"),
        ("string", "date-time"),
        ("number", "float"),
        ("number", "double"),
        ("integer", "int32"),
        ("integer", "int64"),
    ]),
    complete: true,
    arguments: Names::Identifier,
    inside: Names::Identifier,
    why: "Gemini's Schema has no such keyword",
};

/// Gemini's `parametersJsonSchema`: the list of its SDK. References are resolved all the same, because
/// beside them it takes nothing.
pub(crate) const GEMINI_JSON: Rules = Rules {
    accepts: Some(&[
        "type",
        "format",
        "title",
        "description",
        "enum",
        "items",
        "prefixItems",
        "minItems",
        "maxItems",
        "minimum",
        "maximum",
        "anyOf",
        "properties",
        "additionalProperties",
        "required",
        "propertyOrdering",
    ]),
    references: false,
    shape: Shape::Any,
    enums: Enums::Scalars,
    formats: None,
    complete: true,
    arguments: Names::Any,
    inside: Names::Any,
    why: "Gemini's JSON Schema has no such keyword",
};

/// What Ollama's server keeps of a property; all else it drops without a word.
pub(crate) const OLLAMA: Rules = Rules {
    accepts: Some(&["type", "items", "required", "properties", "anyOf", "description", "enum"]),
    references: false,
    shape: Shape::Any,
    enums: Enums::Any,
    formats: None,
    complete: false,
    arguments: Names::Any,
    inside: Names::Any,
    why: "Ollama's server drops such a keyword",
};
