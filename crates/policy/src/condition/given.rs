//! What a condition can ask for.

use std::collections::HashMap;
use std::sync::Arc;

use cel::objects::{Key, Map};
use cel::{Context, Value};
use jiff::Timestamp;
use jiff::tz::TimeZone;
use serde_json::Value as Json;
use tool::{Args, Wall};

use super::{Fault, context};
use crate::{Asking, Taint, hours};

/// The most members that a list or an object of the arguments may have.
pub(super) const ITEMS: usize = 1_000;
/// The most values that the arguments may have in all.
const VALUES: usize = 10_000;
/// The most bytes of all texts in the arguments.
const TEXT: usize = 64 << 10;
/// The most bytes of the arguments as they came, with space and escapes.
const LONGEST: usize = 1 << 20;

/// The variables, and the fields of those that have settled ones.
pub(super) const VARIABLES: &[(&str, &[&str])] = &[
    ("args", &[]),
    ("principal", &["org", "subject", "key", "level", "roles", "persona", "agent"]),
    (
        "tool",
        &["name", "source", "level", "safety", "categories", "scopes", "effects", "destructive"],
    ),
    ("now", &["unix", "year", "month", "day", "hour", "minute", "weekday"]),
    ("taint", &["untrusted", "private"]),
    ("via", &[]),
];

/// The facts of one call, as conditions see them.
pub(crate) struct Given(Context<'static, 'static>);

impl Given {
    /// Of a call.
    ///
    /// # Errors
    /// Where the arguments are more than a condition may look at.
    pub(crate) fn of(asking: &Asking<'_>) -> Result<Self, Fault> {
        let mut given = context();
        given.add_variable_from_value("args", of_call(asking.args)?);
        given.add_variable_from_value("principal", principal(asking));
        given.add_variable_from_value("tool", tool(asking));
        given.add_variable_from_value("now", now(asking.now));
        given.add_variable_from_value("taint", taint(asking.taint));
        let via = match asking.by {
            tool::CallerType::Direct => "direct",
            tool::CallerType::Chain => "chain",
        };
        given.add_variable_from_value("via", via);
        Ok(Self(given))
    }

    /// Of an example: what it does not say is not there, but for the arguments and the usual rest.
    ///
    /// # Errors
    /// Where it is more than a condition may look at, or names what there is not.
    pub(crate) fn example(
        args: &Json,
        facts: &serde_json::Map<String, Json>,
    ) -> Result<Self, Fault> {
        let mut given = context();
        given.add_variable_from_value("args", arguments(args)?);
        given.add_variable_from_value("taint", taint(Taint::default()));
        given.add_variable_from_value("via", "direct");
        for (name, value) in facts {
            let known = VARIABLES.iter().find(|(known, _)| known == name && *known != "args");
            let (name, fields) =
                known.ok_or_else(|| Fault(format!("there is no variable `{name}`")))?;
            let value =
                match (*name, value.as_str()) {
                    ("now", Some(text)) => now(hours::read_moment(text)
                        .ok_or_else(|| Fault("`now` is no time".to_owned()))?),
                    _ => arguments(value)?,
                };
            let known =
                |key: &Key| matches!(key, Key::String(key) if fields.contains(&key.as_str()));
            if let Value::Map(map) = &value
                && !map.map.keys().all(known)
            {
                return Err(Fault(format!("`{name}` has only {}", fields.join(", "))));
            }
            given.add_variable_from_value(*name, value);
        }
        Ok(Self(given))
    }

    pub(crate) fn context(&self) -> &Context<'static, 'static> {
        &self.0
    }
}

fn principal(asking: &Asking<'_>) -> Value {
    let Asking { caller, rights, .. } = asking;
    let persona = rights.persona().map_or(Value::Null, |persona| text(&persona.name));
    object([
        ("org", text(caller.org.as_str())),
        ("subject", text(&caller.subject)),
        ("key", text(&caller.key)),
        ("level", text(rights.level().as_str())),
        ("roles", texts(rights.roles().iter().map(String::as_str))),
        ("persona", persona),
        ("agent", rights.agent().into()),
    ])
}

fn tool(asking: &Asking<'_>) -> Value {
    let (tool, traits) = (&asking.tool, asking.tool.traits);
    object([
        ("name", text(tool.name)),
        ("source", text(tool.source)),
        ("level", text(traits.level.as_str())),
        ("safety", text(traits.safety.as_str())),
        ("categories", texts(traits.categories.iter().map(String::as_str))),
        ("scopes", texts(traits.scopes.iter().map(|scope| scope.as_str()))),
        ("effects", texts(traits.effects.words().into_iter())),
        ("destructive", traits.destructive.into()),
    ])
}

/// In UTC.
fn now(now: Wall) -> Value {
    let millis = i64::try_from(now.0).unwrap_or(i64::MAX);
    let moment = Timestamp::from_millisecond(millis).unwrap_or(Timestamp::MAX);
    let local = moment.to_zoned(TimeZone::UTC);
    let number = |number: i8| Value::Int(number.into());
    object([
        ("unix", Value::Int(moment.as_second())),
        ("year", Value::Int(local.year().into())),
        ("month", number(local.month())),
        ("day", number(local.day())),
        ("hour", number(local.hour())),
        ("minute", number(local.minute())),
        ("weekday", text(hours::word(local.weekday()))),
    ])
}

fn taint(taint: Taint) -> Value {
    object([("untrusted", taint.untrusted.into()), ("private", taint.private.into())])
}

fn text(text: &str) -> Value {
    Value::String(Arc::new(text.to_owned()))
}

fn texts<'a>(all: impl Iterator<Item = &'a str>) -> Value {
    Value::List(Arc::new(all.map(text).collect()))
}

fn object<const N: usize>(fields: [(&str, Value); N]) -> Value {
    let fields = fields.into_iter().map(|(name, value)| (key(name), value));
    Value::Map(Map { map: Arc::new(fields.collect::<HashMap<_, _>>()) })
}

fn key(name: &str) -> Key {
    Key::String(Arc::new(name.to_owned()))
}

/// What is left of the bounds.
struct Left {
    values: usize,
    text: usize,
}

/// No tree is made of a text that is longer than all its parts may be together.
fn of_call(args: &Args) -> Result<Value, Fault> {
    if args.raw().bytes().len() > LONGEST {
        return Err(Fault("the arguments are larger than a condition may look at".to_owned()));
    }
    arguments(args.value())
}

fn arguments(json: &Json) -> Result<Value, Fault> {
    value(json, &mut Left { values: VALUES, text: TEXT })
}

fn value(json: &Json, left: &mut Left) -> Result<Value, Fault> {
    let large = || Fault("the arguments are larger than a condition may look at".to_owned());
    left.values = left.values.checked_sub(1).ok_or_else(large)?;
    let mut count = |text: &str| {
        left.text = left.text.checked_sub(text.len()).ok_or_else(large)?;
        Ok(Arc::new(text.to_owned()))
    };
    Ok(match json {
        Json::Null => Value::Null,
        Json::Bool(truth) => Value::Bool(*truth),
        Json::Number(number) => match (number.as_i64(), number.as_u64(), number.as_f64()) {
            (Some(number), ..) => Value::Int(number),
            (None, Some(number), _) => Value::UInt(number),
            (None, None, Some(number)) => Value::Float(number),
            (None, None, None) => return Err(large()),
        },
        Json::String(text) => Value::String(count(text)?),
        Json::Array(items) if items.len() <= ITEMS => {
            let items = items.iter().map(|item| value(item, left));
            Value::List(Arc::new(items.collect::<Result<_, _>>()?))
        }
        Json::Object(fields) if fields.len() <= ITEMS => {
            let mut map = HashMap::with_capacity(fields.len());
            for (name, field) in fields {
                left.text = left.text.checked_sub(name.len()).ok_or_else(large)?;
                map.insert(key(name), value(field, left)?);
            }
            Value::Map(Map { map: Arc::new(map) })
        }
        Json::Array(_) | Json::Object(_) => return Err(large()),
    })
}
