//! Rules of one layer.

use std::collections::BTreeMap;

use policy::{Layer, Pattern, Permissions, Word};
use tool::Safety;

use super::super::Resolver;
use super::at;
use crate::Place;
use crate::field::Field;
use crate::low;
use crate::node::shorten;

/// The most rules of one list: each is tried on every tool.
const RULES: usize = 1_000;
/// Characters of a category: the most that a tool file gives one.
const CATEGORY: usize = 64;
/// Characters of a role, an organisation, a persona or a task type.
const NAME: usize = 64;

/// What is wrong, and what to do.
type Told = (String, String);

impl Resolver<'_> {
    pub(super) fn global(&self, low: &low::Policy) -> Layer {
        Layer {
            safety_limit: low.safety_limit.get().copied().map(safety),
            categories: self.categories(&low.categories),
            allow: self.patterns(&low.allow),
            deny: self.patterns(&low.deny).unwrap_or_default(),
            read_only: low.read_only.get().copied().unwrap_or_default(),
            no_web: low.no_web.get().copied().unwrap_or_default(),
            permissions: None,
            rules: self.conditional(&low.rules),
            at: policy::At::default(),
        }
    }

    /// Layers by the names they are for.
    pub(super) fn layers(
        &self,
        low: &Field<BTreeMap<String, Field<low::Layer>>>,
    ) -> BTreeMap<String, Layer> {
        let mut layers = BTreeMap::new();
        for (name, low, place) in self.named(low) {
            let fits = |c: char| c.is_alphanumeric() || "_.-".contains(c);
            if !(1..=NAME).contains(&name.chars().count()) || !name.chars().all(fits) {
                let told = format!("`{}` is no name", shorten(name));
                let fix = format!("use letters, digits, `_`, `.` and `-`, at most {NAME}");
                self.sink.tell(place, told, &fix);
            }
            layers.insert(name.clone(), self.layer(low, place));
        }
        layers
    }

    fn layer(&self, low: &low::Layer, place: Place) -> Layer {
        Layer {
            safety_limit: low.safety_limit.get().copied().map(safety),
            categories: self.categories(&low.categories),
            allow: self.patterns(&low.allow),
            deny: self.patterns(&low.deny).unwrap_or_default(),
            read_only: low.read_only.get().copied().unwrap_or_default(),
            no_web: low.no_web.get().copied().unwrap_or_default(),
            permissions: self.flat(low),
            rules: self.conditional(&low.rules),
            at: at(place),
        }
    }

    /// Spec 3's `ToolPermissions`, where any part of it stands.
    fn flat(&self, low: &low::Layer) -> Option<Permissions> {
        let none = low.web_access.is_absent()
            && low.allowed_categories.is_absent()
            && low.allowed_tools.is_absent()
            && low.forbidden_tools.is_absent();
        (!none).then(|| Permissions {
            web_access: low.web_access.get().copied().unwrap_or_default(),
            allowed_categories: self.categories(&low.allowed_categories).unwrap_or_default(),
            allowed_tools: self.patterns(&low.allowed_tools).unwrap_or_default(),
            forbidden_tools: self.patterns(&low.forbidden_tools).unwrap_or_default(),
        })
    }

    pub(super) fn patterns(&self, list: &Field<Vec<Field<String>>>) -> Option<Vec<Pattern>> {
        self.placed(list, |text, place| Ok(pattern(text)?.at(at(place))))
    }

    fn categories(&self, list: &Field<Vec<Field<String>>>) -> Option<Vec<Word>> {
        self.placed(list, |text, place| Ok(Word { text: category(text)?, at: at(place) }))
    }

    pub(super) fn rules<T>(
        &self,
        list: &Field<Vec<Field<String>>>,
        read: impl Fn(&str) -> Result<T, Told>,
    ) -> Option<Vec<T>> {
        self.placed(list, |text, _| read(text))
    }

    fn placed<T>(
        &self,
        list: &Field<Vec<Field<String>>>,
        read: impl Fn(&str, Place) -> Result<T, Told>,
    ) -> Option<Vec<T>> {
        let (list, place) = list.given()?;
        self.bounded(list.len(), place);
        let one = |(text, place): (&String, Place)| {
            let told = |(message, fix): Told| self.sink.tell(place, message, &fix);
            read(text, place).map_err(told).ok()
        };
        Some(list.iter().take(RULES).filter_map(Field::given).filter_map(one).collect())
    }

    pub(super) fn bounded(&self, count: usize, place: Place) {
        if count > RULES {
            let message = format!("these are {count} rules; {RULES} are allowed");
            self.sink.tell(place, message, "`*` stands for many names at once");
        }
    }
}

fn safety(word: low::SafetyWord) -> Safety {
    match word {
        low::SafetyWord::Safe => Safety::Safe,
        low::SafetyWord::Cautious | low::SafetyWord::Moderate => Safety::Cautious,
        low::SafetyWord::Dangerous => Safety::Dangerous,
    }
}

fn pattern(text: &str) -> Result<Pattern, Told> {
    Pattern::new(text).map_err(|told| {
        let (what, fix) = told.split_once(": use ").unwrap_or((&told, ""));
        (what.to_owned(), format!("use {fix}"))
    })
}

/// As tool files write them, in lower case.
pub(super) fn category(text: &str) -> Result<String, Told> {
    let word = text.trim().to_lowercase();
    let fits = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-');
    if (1..=CATEGORY).contains(&word.chars().count()) && word.chars().all(fits) {
        return Ok(word);
    }
    let fix = format!("use letters, digits, `_` and `-`, at most {CATEGORY}");
    Err((format!("`{}` is no category", shorten(text)), fix))
}
