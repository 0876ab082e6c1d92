//! Rules with conditions, time windows and approvals.

use policy::{
    LocatedName, PolicyRule, RuleEffect, RuleExample, TimeWindow, TimeWindowError, TimeWindowField,
    TimeWindowSpec, ToolPattern,
};
use serde_json::{Map, Value};

use super::policy_layer::tool_patterns;
use super::{located_name, policy_position};
use crate::config_value::{ConfigValue, ValueParser as _};
use crate::section::{section, subsection};
use crate::value_parsers::{boolean, bounded_list, json_value, keywords, list, text};
use crate::yaml_tree::shorten_text;

/// The most characters of a rule's name.
const MAX_NAME_CHARS: usize = 64;
/// The most examples of one rule.
const MAX_EXAMPLES: usize = 100;

section! {
    /// A rule of the policy.
    pub(super) struct RuleKeys as "Rule" {
        /// The name of the rule: 1 to 64 characters. Explanations of decisions show it.
        name: String = text().map(rule_name),
            required "name the rule: explanations of decisions show it";
        /// The effect on a call that the rule applies to. `deny` without `when` also hides the tool.
        effect: RuleEffect = rule_effect(), required "write `deny` or `hold`";
        /// Patterns of the tools it applies to, as in `deny`. Default: all.
        tools: Option<Vec<ToolPattern>> = tool_patterns();
        /// A condition in CEL over `args`, `principal`, `tool`, `now`, `taint` and `via`. If it cannot be evaluated, the
        /// call is denied. Default: true.
        when: Option<LocatedName> = text().map(located_name);
        /// The time window in which the rule applies. Default: always.
        time: Option<TimeWindow> = subsection::<TimeWindowKeys>().and_then(time_window);
        /// Example calls that test the condition when the file is loaded. At most 100.
        examples: Vec<RuleExample> =
            bounded_list(MAX_EXAMPLES, subsection::<ExampleKeys>().map(rule_example));
    }
}

keywords! {
    /// The effect of a rule.
    fn rule_effect as "EffectWord" -> RuleEffect {
        /// The call is denied.
        "deny" = RuleEffect::Deny,
        /// The call needs an approval.
        "hold" = RuleEffect::RequireApproval,
    }
}

section! {
    /// A time window. An absent key sets no limit.
    struct TimeWindowKeys as "Time" {
        /// Days of the week: `mon` to `sun`.
        days: Vec<String> = list(text());
        /// Hours of the day, such as `09:00-17:30` or `22:00-06:00`.
        hours: Option<String> = text();
        /// The time zone, such as `Europe/Berlin`. Default: UTC.
        zone: Option<String> = text();
        /// The start of the window, such as `2026-12-24T18:00:00Z`.
        since: Option<String> = text();
        /// The end of the window, such as `2026-12-27T06:00:00Z`.
        until: Option<String> = text();
    }
}

section! {
    /// An example call that tests a condition.
    struct ExampleKeys as "Example" {
        /// The arguments of the call. Default: none.
        args: Value = json_value(), default Value::Object(Map::new());
        /// The caller: `org`, `subject`, `key`, `level`, `roles`, `persona`, `agent`.
        principal: Option<Value> = json_value();
        /// The tool: `name`, `source`, `level`, `safety`, `categories`, `scopes`, `effects`, `destructive`.
        tool: Option<Value> = json_value();
        /// The time of the call, such as `2026-12-24T18:00:00Z`.
        now: Option<Value> = json_value();
        /// Data that the session has read: `untrusted`, `private`.
        taint: Option<Value> = json_value();
        /// The way of the call: `direct`, or `chain` for a program.
        via: Option<Value> = json_value();
        /// Whether the rule must apply to this call.
        applies: bool = boolean(), required "write `applies: true` or `applies: false`";
    }
}

pub(super) fn policy_rule(value: ConfigValue<'_>, keys: RuleKeys) -> PolicyRule {
    let RuleKeys { name, effect, tools, when, time, examples } = keys;
    PolicyRule {
        name,
        effect,
        tools,
        condition: when,
        time_window: time,
        examples,
        position: policy_position(value),
    }
}

fn rule_name(value: ConfigValue<'_>, name: String) -> String {
    let fits = |c: char| c.is_alphanumeric() || "_.- ".contains(c);
    if !(1..=MAX_NAME_CHARS).contains(&name.chars().count()) || !name.chars().all(fits) {
        let message = format!("invalid rule name `{}`", shorten_text(&name));
        let help = format!(
            "use letters, digits, `_`, `.`, `-` and spaces, at most {MAX_NAME_CHARS} characters"
        );
        value.report(message, &help);
    }
    name
}

fn time_window(value: ConfigValue<'_>, keys: TimeWindowKeys) -> Option<TimeWindow> {
    let TimeWindowKeys { days, hours, zone, since, until } = keys;
    let window = TimeWindow::parse_window(TimeWindowSpec {
        days: &days.iter().map(String::as_str).collect::<Vec<_>>(),
        hours: hours.as_deref(),
        zone: zone.as_deref(),
        since: since.as_deref(),
        until: until.as_deref(),
    });
    let member = |field: TimeWindowField| match field {
        TimeWindowField::Day(day) => value.find_member("days")?.list_items().nth(day),
        TimeWindowField::Hours => value.find_member("hours"),
        TimeWindowField::Zone => value.find_member("zone"),
        TimeWindowField::Since => value.find_member("since"),
        TimeWindowField::Until => value.find_member("until"),
    };
    let report = |errors: Vec<TimeWindowError>| {
        for error in errors {
            member(error.part).unwrap_or(value).report(error.message, &error.help);
        }
    };
    window.map_err(report).ok()
}

fn rule_example(value: ConfigValue<'_>, keys: ExampleKeys) -> RuleExample {
    let ExampleKeys { args, principal, tool, now, taint, via, applies } = keys;
    let facts =
        [("principal", principal), ("tool", tool), ("now", now), ("taint", taint), ("via", via)];
    let facts = facts.into_iter().filter_map(|(name, fact)| Some((name.to_owned(), fact?)));
    RuleExample {
        arguments: args,
        facts: facts.collect(),
        should_apply: applies,
        position: policy_position(value),
    }
}
