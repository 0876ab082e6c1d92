//! Parser of a tool's traits from the fields of its entry.
//!
//! An unknown word rejects the tool. It is a mistake of the operator, and the default could grant
//! more access than intended.

use std::time::Duration;

use tool::traits::UnknownWord;
use tool::{CallerType, Effect, Effects, Json, Level, Safety, Scope, Traits};

use super::fields::{Fault, Fields, Result, kind};

/// Fields that are traits.
pub(super) const KEYS: &[&str] = &[
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
const MAX_TIMEOUT: u64 = 86_400_000;
/// Maximum characters of a category.
const MAX_CATEGORY: usize = 64;

/// Returns `base` with the values of the fields; `default_timeout` is the file's default in
/// milliseconds.
pub(super) fn read(
    fields: &Fields,
    base: Traits,
    default_timeout: Option<&Json>,
) -> Result<Traits> {
    let effects = fields.words::<Effect>("side_effects")?.map(Effects::Declared);
    let limit = match fields.get("timeout_ms") {
        Some(own) => Some(timeout("timeout_ms", own)?),
        None => default_timeout.map(|own| timeout("default_timeout_ms", own)).transpose()?,
    };
    Ok(Traits {
        level: fields.word::<Level>("required_permission")?.unwrap_or(base.level),
        scopes: fields.words::<Scope>("permissions")?.unwrap_or(base.scopes),
        safety: safety(fields)?.unwrap_or(base.safety),
        categories: categories(fields)?.unwrap_or(base.categories),
        effects: effects.unwrap_or(base.effects),
        idempotent: fields.flag("idempotent")?.unwrap_or(base.idempotent),
        destructive: fields.flag("destructive")?.unwrap_or(base.destructive),
        callers: callers(fields)?.unwrap_or(base.callers),
        timeout: limit.or(base.timeout),
        arguments: base.arguments,
        approval: base.approval,
        allowed_paths: base.allowed_paths,
        base_folders: base.base_folders,
        trusted_annotations: base.trusted_annotations,
    })
}

/// Combines the traits of a file with those of a built-in tool; the stricter value wins.
pub(super) fn stricter(said: Traits, own: &Traits) -> Traits {
    let effects = match (said.effects, &own.effects) {
        (Effects::Declared(mut all), Effects::Declared(own)) => {
            all.extend(
                own.iter().filter(|effect| !all.contains(effect)).copied().collect::<Vec<_>>(),
            );
            Effects::Declared(all)
        }
        _ => Effects::Unknown,
    };
    let mut scopes = said.scopes;
    scopes.extend(
        own.scopes.iter().filter(|scope| !scopes.contains(scope)).copied().collect::<Vec<_>>(),
    );
    let mut callers = said.callers;
    callers.retain(|caller| own.callers.contains(caller));
    Traits {
        level: said.level.max(own.level),
        safety: said.safety.max(own.safety),
        idempotent: said.idempotent && own.idempotent,
        destructive: said.destructive || own.destructive,
        timeout: [said.timeout, own.timeout].into_iter().flatten().min(),
        effects,
        scopes,
        callers,
        ..said
    }
}

/// Returns the error of an unknown category. Roles get tools by category, and an unknown one would
/// match no role.
pub(super) fn unknown_category(traits: &Traits, own: &[String]) -> Option<Fault> {
    let known =
        |word: &&String| tool::traits::CATEGORIES.contains(&word.as_str()) || own.contains(word);
    let unknown = traits.categories.iter().find(|word| !known(word))?;
    let known = tool::traits::CATEGORIES.join(", ");
    let told = format!("`category`: no category is called `{unknown}`");
    Some(
        Fault::new(told)
            .fix(format!("use one of {known}, or name it under `policy.own_categories`")),
    )
}

fn safety(fields: &Fields) -> Result<Option<Safety>> {
    let (short, long) = (fields.word::<Safety>("safety")?, fields.word("safety_level")?);
    match (short, long) {
        (Some(short), Some(long)) if short != long => {
            Err(Fault::new(format!("`safety` is {short} and `safety_level` is {long}"))
                .fix("keep one of the two"))
        }
        (short, long) => Ok(short.or(long)),
    }
}

fn categories(fields: &Fields) -> Result<Option<Vec<String>>> {
    let (one, many) = (fields.texts("category")?, fields.texts("categories")?);
    if one.is_none() && many.is_none() {
        return Ok(None);
    }
    let mut categories = Vec::new();
    for word in one.into_iter().chain(many).flatten() {
        let word = word.trim().to_lowercase();
        let fits = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-');
        if word.is_empty() || word.chars().count() > MAX_CATEGORY || !word.chars().all(fits) {
            let word: String = word.chars().take(MAX_CATEGORY).collect();
            return Err(Fault::new(format!("`category`: `{}` is no word", word.escape_debug()))
                .fix(format!("use letters, digits, `_` and `-`, at most {MAX_CATEGORY}")));
        }
        if !categories.contains(&word) {
            categories.push(word);
        }
    }
    Ok(Some(categories))
}

/// Field type of [`CallerType`].
#[derive(PartialEq)]
struct CallerWord(CallerType);

impl std::str::FromStr for CallerWord {
    type Err = UnknownWord;
    fn from_str(word: &str) -> std::result::Result<Self, UnknownWord> {
        match word {
            "direct" => Ok(Self(CallerType::Direct)),
            "chain" => Ok(Self(CallerType::Chain)),
            _ => {
                Err(UnknownWord { what: "caller", word: word.to_owned(), allowed: "direct, chain" })
            }
        }
    }
}

fn callers(fields: &Fields) -> Result<Option<Vec<CallerType>>> {
    let words = fields.words::<CallerWord>("allowed_callers")?;
    Ok(words.map(|words| words.into_iter().map(|word| word.0).collect()))
}

pub(super) fn timeout(key: &str, json: &Json) -> Result<Duration> {
    let ms = json.read::<u64>().ok().filter(|ms| (100..=MAX_TIMEOUT).contains(ms));
    ms.map(Duration::from_millis).ok_or_else(|| match json.kind() {
        "number" => Fault::new(format!("`{key}` is {}", json.as_str()))
            .fix(format!("use a whole number of milliseconds from 100 to {MAX_TIMEOUT}")),
        _ => kind(key, json, "a number of milliseconds"),
    })
}
