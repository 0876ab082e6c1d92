//! Provider rules: one table for each provider with the subset of JSON Schema that it accepts.
//!
//! No provider accepts `anyOf`, `oneOf`, `allOf`, `not`, `enum` or `const` at the root.
//!
//! Sources: the providers' SDKs and servers of November 2026, and the errors of their services.

/// Subset of JSON Schema that a provider accepts.
#[derive(Debug)]
pub(crate) struct ProviderRules {
    /// Accepted keywords; `None` if all are accepted.
    pub(crate) accepted_keywords: Option<&'static [&'static str]>,
    /// Whether it follows `$ref`.
    pub(crate) follows_refs: bool,
    /// Required shape of every schema.
    pub(crate) schema_shape: SchemaShape,
    /// Allowed values of an `enum`.
    pub(crate) enum_values: EnumValues,
    /// Accepted formats as pairs of type and format; `None` if all are accepted.
    pub(crate) known_formats: Option<&'static [(&'static str, &'static str)]>,
    /// Whether an array requires `items`, and the root requires `properties`.
    pub(crate) requires_items_and_properties: bool,
    /// Rule for the names of arguments.
    pub(crate) argument_names: NameRule,
    /// Rule for the names of nested properties.
    pub(crate) nested_property_names: NameRule,
    /// Reason that is reported for keywords that are not accepted.
    pub(crate) unsupported_reason: &'static str,
}

/// Shape that a provider requires of every schema.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SchemaShape {
    /// No requirement.
    Any,
    /// One type, with `nullable` as a separate keyword, and its content.
    SingleType,
    /// A type; for an object, all properties, and all of them as required.
    StrictObject,
}

/// Values that a provider accepts in an `enum`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum EnumValues {
    Any,
    /// Strings and numbers.
    Scalars,
    /// Non-empty strings.
    NonEmptyStrings,
}

/// Rule for names: of properties, and of tools.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NameRule {
    Any,
    /// `^[a-zA-Z0-9_.-]{1,64}$`.
    Dotted,
    /// `^[a-zA-Z_][a-zA-Z0-9_]{0,63}$`.
    Identifier,
    /// `^[a-zA-Z_][a-zA-Z0-9_-]{0,63}$`, which every provider accepts as the name of a tool.
    ToolAlias,
}

impl ProviderRules {
    pub(crate) fn is_single_type(&self) -> bool {
        self.schema_shape == SchemaShape::SingleType
    }

    pub(crate) fn is_strict(&self) -> bool {
        self.schema_shape == SchemaShape::StrictObject
    }
}

impl NameRule {
    pub(crate) fn accepts_name(self, name: &str) -> bool {
        let length = (1..=crate::aliases::MAX_ALIAS_LEN).contains(&name.len());
        self == Self::Any
            || (length && self.accepts_start(name) && name.bytes().all(|b| self.accepts_byte(b)))
    }

    /// Returns whether the first character of `name` may be the first.
    fn accepts_start(self, name: &str) -> bool {
        match self {
            Self::Any | Self::Dotted => true,
            Self::Identifier | Self::ToolAlias => {
                name.bytes().next().is_some_and(|b| !b.is_ascii_digit() && b != b'-')
            }
        }
    }

    fn accepts_byte(self, byte: u8) -> bool {
        let more = match self {
            Self::Any | Self::Identifier => false,
            Self::Dotted => matches!(byte, b'.' | b'-'),
            Self::ToolAlias => byte == b'-',
        };
        byte.is_ascii_alphanumeric() || byte == b'_' || more
    }

    /// Replaces invalid characters of `name`. The result can be too long or already taken.
    pub(crate) fn sanitize_name(self, name: &str) -> String {
        let one = |c: char| match u8::try_from(c) {
            Ok(byte) if self.accepts_byte(byte) => c,
            _ => '_',
        };
        let name: String = name.chars().map(one).collect();
        if self.accepts_start(&name) { name } else { format!("_{name}") }
    }
}

/// Chat Completions and Responses, not strict. "schema must have type 'object' and not have
/// 'oneOf'/'anyOf'/'allOf'/'enum'/'not' at the top level"; "array schema missing items"; "object schema missing properties".
pub(crate) const OPENAI: ProviderRules = ProviderRules {
    accepted_keywords: None,
    follows_refs: true,
    schema_shape: SchemaShape::Any,
    enum_values: EnumValues::Any,
    known_formats: None,
    requires_items_and_properties: true,
    argument_names: NameRule::Any,
    nested_property_names: NameRule::Any,
    unsupported_reason: "OpenAI does not support this keyword here",
};

/// OpenAI's strict mode: the subset of its structured outputs.
pub(crate) const OPENAI_STRICT: ProviderRules = ProviderRules {
    accepted_keywords: Some(&[
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
    follows_refs: false,
    schema_shape: SchemaShape::StrictObject,
    known_formats: Some(&[
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
    unsupported_reason: "OpenAI's strict schemas do not support this keyword",
    ..OPENAI
};

/// "input_schema does not support oneOf, allOf, or anyOf at the top level"; "Property keys should
/// match pattern '^[a-zA-Z0-9_.-]{1,64}$'", which applies to arguments only.
pub(crate) const ANTHROPIC: ProviderRules = ProviderRules {
    requires_items_and_properties: false,
    argument_names: NameRule::Dotted,
    unsupported_reason: "Anthropic does not support this keyword here",
    ..OPENAI
};

/// Gemini's `parameters`: its own Schema, after OpenAPI 3.0. "only 'enum' and 'date-time' are supported
/// for STRING type"; "properties: should be non-empty for OBJECT type"; "enum: only allowed for STRING
/// type".
pub(crate) const GEMINI: ProviderRules = ProviderRules {
    accepted_keywords: Some(&[
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
    follows_refs: false,
    schema_shape: SchemaShape::SingleType,
    enum_values: EnumValues::NonEmptyStrings,
    known_formats: Some(&[
        ("string", "enum"),
        ("string", "date-time"),
        ("number", "float"),
        ("number", "double"),
        ("integer", "int32"),
        ("integer", "int64"),
    ]),
    requires_items_and_properties: true,
    argument_names: NameRule::Identifier,
    nested_property_names: NameRule::Identifier,
    unsupported_reason: "Gemini's Schema does not support this keyword",
};

/// Gemini's `parametersJsonSchema`, with the keywords of its SDK. References are resolved
/// nevertheless, because it accepts no keywords next to `$ref`.
pub(crate) const GEMINI_JSON: ProviderRules = ProviderRules {
    accepted_keywords: Some(&[
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
    follows_refs: false,
    schema_shape: SchemaShape::Any,
    enum_values: EnumValues::Scalars,
    known_formats: None,
    requires_items_and_properties: true,
    argument_names: NameRule::Any,
    nested_property_names: NameRule::Any,
    unsupported_reason: "Gemini's JSON Schema does not support this keyword",
};

/// Subset that Ollama's server accepts in a property. It drops other keywords without an error.
pub(crate) const OLLAMA: ProviderRules = ProviderRules {
    accepted_keywords: Some(&[
        "type",
        "items",
        "required",
        "properties",
        "anyOf",
        "description",
        "enum",
    ]),
    follows_refs: false,
    schema_shape: SchemaShape::Any,
    enum_values: EnumValues::Any,
    known_formats: None,
    requires_items_and_properties: false,
    argument_names: NameRule::Any,
    nested_property_names: NameRule::Any,
    unsupported_reason: "Ollama's server drops this keyword",
};
