//! Rules that look at more than names.

use policy::{Effect, Example, Hours, HoursFault, HoursPart, HoursText, Rule, Word};
use serde_json::{Map, Value};

use super::super::Resolver;
use super::at;
use crate::Place;
use crate::field::Field;
use crate::low;
use crate::node::shorten;

/// Characters of a rule's name.
const NAME: usize = 64;
/// Examples of one rule.
const EXAMPLES: usize = 100;

impl Resolver<'_> {
    pub(super) fn conditional(&self, low: &Field<Vec<Field<low::Rule>>>) -> Vec<Rule> {
        let Some((list, place)) = low.given() else { return Vec::new() };
        self.bounded(list.len(), place);
        let rules = list.iter().filter_map(Field::given);
        rules.filter_map(|(rule, place)| self.conditional_rule(rule, place)).collect()
    }

    fn conditional_rule(&self, low: &low::Rule, place: Place) -> Option<Rule> {
        let missing = |key: &str, fix: &str| {
            self.sink.tell(place, format!("the key `{key}` is missing"), fix);
            None
        };
        let name = match low.name.given() {
            Some((name, place)) => {
                self.rule_name(name, place);
                name.clone()
            }
            None if low.name.is_absent() => {
                return missing("name", "name the rule: explanations do");
            }
            None => return None,
        };
        let effect = match low.effect.get() {
            Some(low::EffectWord::Deny) => Effect::Deny,
            Some(low::EffectWord::Hold) => Effect::Hold,
            None if low.effect.is_absent() => return missing("effect", "say `deny` or `hold`"),
            None => return None,
        };
        let when = low.when.given().map(|(text, place)| Word { text: text.clone(), at: at(place) });
        let examples = low.examples.get().into_iter().flatten().filter_map(Field::given);
        let examples: Vec<_> = examples
            .take(EXAMPLES)
            .filter_map(|(example, place)| self.example(example, place))
            .collect();
        let (tools, time) = (self.patterns(&low.tools), self.time(&low.time));
        Some(Rule { name, effect, tools, when, time, examples, at: at(place) })
    }

    fn rule_name(&self, name: &str, place: Place) {
        let fits = |c: char| c.is_alphanumeric() || "_.- ".contains(c);
        if !(1..=NAME).contains(&name.chars().count()) || !name.chars().all(fits) {
            let told = format!("`{}` is no name of a rule", shorten(name));
            let fix = format!("use letters, digits, `_`, `.`, `-` and spaces, at most {NAME}");
            self.sink.tell(place, told, &fix);
        }
    }

    fn time(&self, low: &Field<low::Time>) -> Option<Hours> {
        let (low, place) = low.given()?;
        let days: Vec<_> = low.days.get().into_iter().flatten().filter_map(Field::given).collect();
        let words: Vec<&str> = days.iter().map(|(day, _)| day.as_str()).collect();
        let text = |field: &'_ Field<String>| field.get().cloned();
        let (hours, zone) = (text(&low.hours), text(&low.zone));
        let (since, until) = (text(&low.since), text(&low.until));
        let read = Hours::read(HoursText {
            days: &words,
            hours: hours.as_deref(),
            zone: zone.as_deref(),
            since: since.as_deref(),
            until: until.as_deref(),
        });
        let at = |part: HoursPart| {
            let field = match part {
                HoursPart::Day(day) => return days.get(day).map(|(_, place)| *place),
                HoursPart::Hours => &low.hours,
                HoursPart::Zone => &low.zone,
                HoursPart::Since => &low.since,
                HoursPart::Until => &low.until,
            };
            field.given().map(|(_, place)| place)
        };
        let faults = |faults: Vec<HoursFault>| {
            for HoursFault { part, message, fix } in faults {
                self.sink.tell(at(part).unwrap_or(place), message, &fix);
            }
        };
        read.map_err(faults).ok()
    }

    fn example(&self, low: &low::Example, place: Place) -> Option<Example> {
        let Some(applies) = low.applies.get().copied() else {
            if low.applies.is_absent() {
                let fix = "say whether the rule applies: `applies: true` or `applies: false`";
                self.sink.tell(place, "the key `applies` is missing", fix);
            }
            return None;
        };
        let args = low.args.get().map_or_else(|| Value::Object(Map::new()), |args| args.0.clone());
        let facts = [
            ("principal", &low.principal),
            ("tool", &low.tool),
            ("now", &low.now),
            ("taint", &low.taint),
            ("via", &low.via),
        ];
        let facts = facts
            .into_iter()
            .filter_map(|(name, fact)| Some((name.to_owned(), fact.get()?.0.clone())));
        Some(Example { args, facts: facts.collect(), applies, at: at(place) })
    }
}
