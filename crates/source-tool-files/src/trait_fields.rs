//! Parser of a tool's traits from the fields of its entry.
//!
//! An unknown word rejects the tool. It is a mistake of the operator, and the default could grant
//! more access than intended.

use std::time::Duration;

use tool::tool_traits::UnknownValueError;
use tool::{
    AccessScope, CallerType, Json, PermissionLevel, SafetyLevel, SideEffect, SideEffects,
    ToolTraits,
};

use super::field_reader::{EntryError, EntryFields, EntryResult, type_error};

/// Fields that are traits.
pub(super) const TRAIT_FIELDS: &[&str] = &[
    "required_permission",
    "safety",
    "safety_level",
    "side_effects",
    "destructive",
    "permissions",
    "category",
    "categories",
    "allowed_callers",
    "timeout_ms",
    "idempotent",
];

/// Maximum time limit in milliseconds: one day.
const MAX_TIMEOUT_MS: u64 = 86_400_000;
/// Maximum characters of a category.
const MAX_CATEGORY_CHARS: usize = 64;

/// Returns `base` with the values of the fields; `default_timeout` is the file's default in
/// milliseconds.
pub(super) fn parse_traits(
    fields: &EntryFields,
    base: ToolTraits,
    default_timeout: Option<&Json>,
) -> EntryResult<ToolTraits> {
    let effects = fields.keyword_list::<SideEffect>("side_effects")?.map(SideEffects::Declared);
    let limit = match fields.get("timeout_ms") {
        Some(own) => Some(parse_timeout("timeout_ms", own)?),
        None => default_timeout.map(|own| parse_timeout("default_timeout_ms", own)).transpose()?,
    };
    Ok(ToolTraits {
        min_level: fields
            .keyword_field::<PermissionLevel>("required_permission")?
            .unwrap_or(base.min_level),
        scopes: fields.keyword_list::<AccessScope>("permissions")?.unwrap_or(base.scopes),
        safety: parse_safety(fields)?.unwrap_or(base.safety),
        categories: parse_categories(fields)?.unwrap_or(base.categories),
        effects: effects.unwrap_or(base.effects),
        is_idempotent: fields.bool_field("idempotent")?.unwrap_or(base.is_idempotent),
        is_destructive: fields.bool_field("destructive")?.unwrap_or(base.is_destructive),
        allowed_callers: parse_callers(fields)?.unwrap_or(base.allowed_callers),
        timeout: limit.or(base.timeout),
        max_argument_bytes: base.max_argument_bytes,
        requires_approval: base.requires_approval,
        allowed_paths: base.allowed_paths,
        base_folders: base.base_folders,
        trusted_annotations: base.trusted_annotations,
    })
}

/// Combines the traits of a file with those of a built-in tool; the stricter value wins.
pub(super) fn combine_stricter(declared: ToolTraits, builtin: &ToolTraits) -> ToolTraits {
    let effects = match (declared.effects, &builtin.effects) {
        (SideEffects::Declared(mut all), SideEffects::Declared(own)) => {
            all.extend(
                own.iter().filter(|effect| !all.contains(effect)).copied().collect::<Vec<_>>(),
            );
            SideEffects::Declared(all)
        }
        _ => SideEffects::Unknown,
    };
    let mut scopes = declared.scopes;
    scopes.extend(
        builtin.scopes.iter().filter(|scope| !scopes.contains(scope)).copied().collect::<Vec<_>>(),
    );
    let mut callers = declared.allowed_callers;
    callers.retain(|caller| builtin.allowed_callers.contains(caller));
    ToolTraits {
        min_level: declared.min_level.max(builtin.min_level),
        safety: declared.safety.max(builtin.safety),
        is_idempotent: declared.is_idempotent && builtin.is_idempotent,
        is_destructive: declared.is_destructive || builtin.is_destructive,
        timeout: [declared.timeout, builtin.timeout].into_iter().flatten().min(),
        effects,
        scopes,
        allowed_callers: callers,
        ..declared
    }
}

/// Returns the error of an unknown category. Roles get tools by category, and an unknown one would
/// match no role.
pub(super) fn check_categories(
    traits: &ToolTraits,
    own_categories: &[String],
) -> Option<EntryError> {
    let known = |word: &&String| {
        tool::tool_traits::CATEGORIES.contains(&word.as_str()) || own_categories.contains(word)
    };
    let unknown = traits.categories.iter().find(|word| !known(word))?;
    let known = tool::tool_traits::CATEGORIES.join(", ");
    let message = format!("`category`: unknown category `{unknown}`");
    Some(
        EntryError::new(message)
            .with_help(format!("use one of {known}, or add it to `policy.own_categories`")),
    )
}

fn parse_safety(fields: &EntryFields) -> EntryResult<Option<SafetyLevel>> {
    let (short, long) =
        (fields.keyword_field::<SafetyLevel>("safety")?, fields.keyword_field("safety_level")?);
    match (short, long) {
        (Some(short), Some(long)) if short != long => {
            Err(EntryError::new(format!("`safety` is {short}, but `safety_level` is {long}"))
                .with_help("keep one of the two"))
        }
        (short, long) => Ok(short.or(long)),
    }
}

fn parse_categories(fields: &EntryFields) -> EntryResult<Option<Vec<String>>> {
    let (one, many) = (fields.string_list("category")?, fields.string_list("categories")?);
    if one.is_none() && many.is_none() {
        return Ok(None);
    }
    let mut categories = Vec::new();
    for word in one.into_iter().chain(many).flatten() {
        let word = word.trim().to_lowercase();
        let fits = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-');
        if word.is_empty() || word.chars().count() > MAX_CATEGORY_CHARS || !word.chars().all(fits) {
            let word: String = word.chars().take(MAX_CATEGORY_CHARS).collect();
            return Err(EntryError::new(format!(
                "`category`: invalid name `{}`",
                word.escape_debug()
            ))
            .with_help(format!(
                "use letters, digits, `_` and `-`, at most {MAX_CATEGORY_CHARS} \
                characters"
            )));
        }
        if !categories.contains(&word) {
            categories.push(word);
        }
    }
    Ok(Some(categories))
}

/// Field type of [`CallerType`].
#[derive(PartialEq)]
struct CallerTypeField(CallerType);

impl std::str::FromStr for CallerTypeField {
    type Err = UnknownValueError;
    fn from_str(word: &str) -> std::result::Result<Self, UnknownValueError> {
        match word {
            "direct" => Ok(Self(CallerType::Direct)),
            "chain" => Ok(Self(CallerType::Chain)),
            _ => Err(UnknownValueError {
                field: "caller",
                value: word.to_owned(),
                allowed: "direct, chain",
            }),
        }
    }
}

fn parse_callers(fields: &EntryFields) -> EntryResult<Option<Vec<CallerType>>> {
    let words = fields.keyword_list::<CallerTypeField>("allowed_callers")?;
    Ok(words.map(|words| words.into_iter().map(|word| word.0).collect()))
}

pub(super) fn parse_timeout(key: &str, json: &Json) -> EntryResult<Duration> {
    let ms = json.decode::<u64>().ok().filter(|ms| (100..=MAX_TIMEOUT_MS).contains(ms));
    ms.map(Duration::from_millis).ok_or_else(|| match json.kind() {
        "number" => EntryError::new(format!("`{key}` is {}", json.as_str()))
            .with_help(format!("use a whole number of milliseconds from 100 to {MAX_TIMEOUT_MS}")),
        _ => type_error(key, json, "a number of milliseconds"),
    })
}
