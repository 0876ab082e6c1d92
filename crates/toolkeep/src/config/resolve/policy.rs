//! The operator's rules. Here a value that was left empty is a fault, while it is as no key at all
//! elsewhere: nobody shall believe in a rule that is none.

use policy::{Pattern, Rules};
use tool::Safety;

use super::Resolver;
use crate::config::Place;
use crate::config::field::Field;
use crate::config::low;
use crate::config::node::{Kind, Node, shorten};

/// The most rules of one list: each is tried on every tool.
const RULES: usize = 1_000;
/// Characters of a category: the most that a tool file gives one.
const CATEGORY: usize = 64;

impl Resolver<'_> {
    /// The rules. Whether they may be used is for the faults to say.
    pub(super) fn policy(&self, low: &low::Policy) -> Rules {
        let limit = low.safety_limit.get().map(|word| match word {
            low::SafetyWord::Safe => Safety::Safe,
            low::SafetyWord::Cautious | low::SafetyWord::Moderate => Safety::Cautious,
            low::SafetyWord::Dangerous => Safety::Dangerous,
        });
        Rules {
            safety_limit: limit,
            categories: self.rules(&low.categories, category),
            allow: self.rules(&low.allow, pattern),
            deny: self.rules(&low.deny, pattern).unwrap_or_default(),
        }
    }

    fn rules<T>(
        &self,
        list: &Field<Vec<Field<String>>>,
        read: impl Fn(&str) -> Result<T, (String, String)>,
    ) -> Option<Vec<T>> {
        let (list, place) = list.given()?;
        if list.len() > RULES {
            let message = format!("these are {} rules; {RULES} are allowed", list.len());
            self.sink.tell(place, message, "`*` stands for many names at once");
        }
        let one = |(text, place): (&String, Place)| {
            let told = |(message, fix): (String, String)| self.sink.tell(place, message, &fix);
            read(text).map_err(told).ok()
        };
        Some(list.iter().take(RULES).filter_map(Field::given).filter_map(one).collect())
    }

    /// Tells of every rule that holds nothing, after the variables are in.
    pub(in crate::config) fn empty_rules(&self, file: &Node) {
        let Some(policy) = file.get("policy") else { return };
        let tell = |place, what: &str, fix: &str| {
            self.sink.tell(place, format!("{what} holds nothing"), fix);
        };
        let entries = match &policy.kind {
            Kind::Map(entries) => entries,
            Kind::Null => return tell(policy.place, "`policy`", "remove it, or say a rule"),
            Kind::Broken | Kind::Scalar(_) | Kind::List(_) => return,
        };
        for (key, value) in entries {
            let fix = match key.text.as_str() {
                "safety_limit" => "remove it, or say `safe`, `cautious` or `dangerous`",
                _ => "remove it, or write `[]` for an empty list",
            };
            match &value.kind {
                Kind::Null => tell(key.place, &format!("`{}`", shorten(&key.text)), fix),
                Kind::List(items) => {
                    let empty = items.iter().filter(|item| item.kind == Kind::Null);
                    empty.for_each(|item| tell(item.place, "this item", "remove it"));
                }
                Kind::Broken | Kind::Scalar(_) | Kind::Map(_) => {}
            }
        }
    }
}

fn pattern(text: &str) -> Result<Pattern, (String, String)> {
    Pattern::new(text).map_err(|told| {
        let (what, fix) = told.split_once(": use ").unwrap_or((&told, ""));
        (what.to_owned(), format!("use {fix}"))
    })
}

/// As tool files write them, in lower case.
fn category(text: &str) -> Result<String, (String, String)> {
    let word = text.trim().to_lowercase();
    let fits = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-');
    if (1..=CATEGORY).contains(&word.chars().count()) && word.chars().all(fits) {
        return Ok(word);
    }
    let fix = format!("use letters, digits, `_` and `-`, at most {CATEGORY}");
    Err((format!("`{}` is no category", shorten(text)), fix))
}

#[cfg(test)]
mod tests;
