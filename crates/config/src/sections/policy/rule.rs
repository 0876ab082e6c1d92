//! Rules that look at more than names.

use policy::{Effect, Example, Hours, HoursFault, HoursPart, HoursText, Pattern, Rule, Word};
use serde_json::{Map, Value};

use super::layer::patterns;
use super::{at, word};
use crate::node::shorten;
use crate::parsers::{any, list, list_of, text, truth, words};
use crate::section::{section, subsection};
use crate::value::{ConfigValue, ValueParser as _};

/// Characters of a rule's name.
const NAME: usize = 64;
/// Examples of one rule.
const EXAMPLES: usize = 100;

section! {
    /// A rule.
    pub(super) struct RuleKeys as "Rule" {
        /// Its name, for explanations.
        name: String = text().map(name), required "name the rule: explanations do";
        /// What becomes of a call that it applies to. `deny` without `when` takes the tool away.
        effect: Effect = effect(), required "say `deny` or `hold`";
        /// The tools it is for, as in `deny`; all where absent.
        tools: Option<Vec<Pattern>> = patterns();
        /// A condition in CEL over `args`, `principal`, `tool`, `now`, `taint` and `via`. Where it cannot be
        /// worked out, the call is denied.
        when: Option<Word> = text().map(word);
        /// When it holds; always where absent.
        time: Option<Hours> = subsection::<Time>().then(hours);
        /// Calls that the condition must be true of, or not; tried when the file is read.
        examples: Vec<Example> = list_of(EXAMPLES, subsection::<ExampleKeys>().map(example));
    }
}

words! {
    /// What a rule does.
    fn effect as "EffectWord" -> Effect {
        /// The call does not run.
        "deny" = Effect::Deny,
        /// The call needs an approval.
        "hold" = Effect::Hold,
    }
}

section! {
    /// Days and hours. What is absent is no limit.
    struct Time as "Time" {
        /// `mon` to `sun`.
        days: Vec<String> = list(text());
        /// Such as `09:00-17:30` or `22:00-06:00`.
        hours: Option<String> = text();
        /// Such as `Europe/Berlin`. Default: UTC.
        zone: Option<String> = text();
        /// From then on, such as `2026-12-24T18:00:00Z`.
        since: Option<String> = text();
        /// Up to then.
        until: Option<String> = text();
    }
}

section! {
    /// A call that a condition is tried on.
    struct ExampleKeys as "Example" {
        /// Its arguments.
        args: Value = any(), default Value::Object(Map::new());
        /// Who makes it: `org`, `subject`, `key`, `level`, `roles`, `persona`, `agent`.
        principal: Option<Value> = any();
        /// The tool: `name`, `source`, `level`, `safety`, `categories`, `scopes`, `effects`, `destructive`.
        tool: Option<Value> = any();
        /// When, such as `2026-12-24T18:00:00Z`.
        now: Option<Value> = any();
        /// What the session has seen: `untrusted`, `private`.
        taint: Option<Value> = any();
        /// `direct` or `chain`.
        via: Option<Value> = any();
        /// Whether the rule applies to it.
        applies: bool = truth(), required "say whether the rule applies: `applies: true` or `applies: false`";
    }
}

pub(super) fn rule(value: ConfigValue<'_>, keys: RuleKeys) -> Rule {
    let RuleKeys { name, effect, tools, when, time, examples } = keys;
    Rule { name, effect, tools, when, time, examples, at: at(value) }
}

fn name(value: ConfigValue<'_>, name: String) -> String {
    let fits = |c: char| c.is_alphanumeric() || "_.- ".contains(c);
    if !(1..=NAME).contains(&name.chars().count()) || !name.chars().all(fits) {
        let message = format!("`{}` is no name of a rule", shorten(&name));
        let fix = format!("use letters, digits, `_`, `.`, `-` and spaces, at most {NAME}");
        value.fault(message, &fix);
    }
    name
}

fn hours(value: ConfigValue<'_>, keys: Time) -> Option<Hours> {
    let Time { days, hours, zone, since, until } = keys;
    let read = Hours::read(HoursText {
        days: &days.iter().map(String::as_str).collect::<Vec<_>>(),
        hours: hours.as_deref(),
        zone: zone.as_deref(),
        since: since.as_deref(),
        until: until.as_deref(),
    });
    let part = |part: HoursPart| match part {
        HoursPart::Day(day) => value.member("days")?.list_items().nth(day),
        HoursPart::Hours => value.member("hours"),
        HoursPart::Zone => value.member("zone"),
        HoursPart::Since => value.member("since"),
        HoursPart::Until => value.member("until"),
    };
    let faults = |faults: Vec<HoursFault>| {
        for fault in faults {
            part(fault.part).unwrap_or(value).fault(fault.message, &fault.fix);
        }
    };
    read.map_err(faults).ok()
}

fn example(value: ConfigValue<'_>, keys: ExampleKeys) -> Example {
    let ExampleKeys { args, principal, tool, now, taint, via, applies } = keys;
    let facts =
        [("principal", principal), ("tool", tool), ("now", now), ("taint", taint), ("via", via)];
    let facts = facts.into_iter().filter_map(|(name, fact)| Some((name.to_owned(), fact?)));
    Example { args, facts: facts.collect(), applies, at: at(value) }
}
