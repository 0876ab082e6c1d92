//! CEL variables of a condition, built from one call.

use std::collections::HashMap;

use cel::Context;
use cel::common::types::{
    CelBool, CelDouble, CelInt, CelList, CelMap, CelMapKey, CelNull, CelString, CelUInt,
};
use cel::common::value::Val;
use jiff::Timestamp;
use jiff::tz::TimeZone;
use serde_json::Value as Json;
use tool::{Args, Wall};

use super::wants::{Fields, Wants};
use super::{Fault, context};
use crate::{Asking, Taint, hours};

/// Maximum number of members of a list or object in the arguments.
pub(super) const ITEMS: usize = 1_000;
/// Maximum number of values that a condition may read from the arguments.
const VALUES: usize = 10_000;
/// Maximum number of bytes of all strings in these values.
const TEXT: usize = 64 << 10;
/// Maximum size of the arguments as received, in bytes.
const LONGEST: usize = 1 << 20;

/// Variables of conditions, and their fields if these are fixed.
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

/// Variables of one call for conditions. Strings are borrowed from the call.
pub(crate) struct Given<'v>(Context<'v, 'v>);

type Made<'v> = Box<dyn Val + 'v>;

impl<'v> Given<'v> {
    /// Builds the referenced variables of a call.
    ///
    /// # Errors
    /// If the referenced arguments exceed the limits of a condition.
    pub(crate) fn of(asking: &Asking<'v>, wants: &Wants) -> Result<Self, Fault> {
        let mut given = context();
        let mut add = |name: &str, fields: &Fields, value: &dyn Fn(&Fields) -> Made<'v>| {
            if *fields != Fields::None {
                given.add_variable_as_val(name, value(fields));
            }
        };
        let args = arguments(asking.args, &wants.args)?;
        add("principal", &wants.principal, &|fields| principal(asking, fields));
        add("tool", &wants.tool, &|fields| tool(asking, fields));
        add("now", &wants.now, &|fields| now(asking.now, fields));
        add("taint", &wants.taint, &|fields| taint(asking.taint, fields));
        add("via", &wants.via, &|_| {
            text(match asking.by {
                tool::CallerType::Direct => "direct",
                tool::CallerType::Chain => "chain",
            })
        });
        if let Some(args) = args {
            given.add_variable_as_val("args", args);
        }
        Ok(Self(given))
    }

    /// Builds the variables of a rule example: only arguments, taint and `via` have defaults.
    ///
    /// # Errors
    /// If it exceeds the limits of a condition, or names an unknown variable.
    pub(crate) fn example(
        args: &'v Json,
        facts: &'v serde_json::Map<String, Json>,
    ) -> Result<Self, Fault> {
        let mut given = context();
        let whole = |json| value(json, &mut Left::default());
        given.add_variable_as_val("args", whole(args)?);
        given.add_variable_as_val("taint", taint(Taint::default(), &Fields::All));
        given.add_variable_as_val("via", text("direct"));
        for (name, json) in facts {
            let known = VARIABLES.iter().find(|(known, _)| known == name && *known != "args");
            let (name, fields) =
                known.ok_or_else(|| Fault(format!("there is no variable `{name}`")))?;
            if let Json::Object(said) = json
                && !said.keys().all(|key| fields.contains(&key.as_str()))
            {
                return Err(Fault(format!("`{name}` has only {}", fields.join(", "))));
            }
            let made = match (*name, json.as_str()) {
                ("now", Some(text)) => {
                    let moment = hours::read_moment(text);
                    now(moment.ok_or_else(|| Fault("`now` is no time".to_owned()))?, &Fields::All)
                }
                _ => whole(json)?,
            };
            given.add_variable_as_val(*name, made);
        }
        Ok(Self(given))
    }

    pub(crate) fn context(&self) -> &Context<'v, 'v> {
        &self.0
    }
}

fn principal<'v>(asking: &Asking<'v>, fields: &Fields) -> Made<'v> {
    let Asking { caller, rights, .. } = *asking;
    Object::of(fields)
        .with("org", || text(caller.org.as_str()))
        .with("subject", || text(&caller.subject))
        .with("key", || text(&caller.key))
        .with("level", || text(rights.level().as_str()))
        .with("roles", || texts(rights.roles().iter().map(String::as_str)))
        .with("persona", || match rights.persona() {
            Some(persona) => text(&persona.name),
            None => Box::new(CelNull),
        })
        .with("agent", || truth(rights.agent()))
        .made()
}

fn tool<'v>(asking: &Asking<'v>, fields: &Fields) -> Made<'v> {
    let (tool, traits) = (asking.tool, asking.tool.traits);
    Object::of(fields)
        .with("name", || text(tool.name))
        .with("source", || text(tool.source))
        .with("level", || text(traits.level.as_str()))
        .with("safety", || text(traits.safety.as_str()))
        .with("categories", || texts(traits.categories.iter().map(String::as_str)))
        .with("scopes", || texts(traits.scopes.iter().map(|scope| scope.as_str())))
        .with("effects", || texts(traits.effects.words().into_iter()))
        .with("destructive", || truth(traits.destructive))
        .made()
}

/// Builds the variable `now` in UTC.
fn now<'v>(now: Wall, fields: &Fields) -> Made<'v> {
    let millis = i64::try_from(now.0).unwrap_or(i64::MAX);
    let moment = Timestamp::from_millisecond(millis).unwrap_or(Timestamp::MAX);
    let local = moment.to_zoned(TimeZone::UTC);
    Object::of(fields)
        .with("unix", || number(moment.as_second()))
        .with("year", || number(local.year().into()))
        .with("month", || number(local.month().into()))
        .with("day", || number(local.day().into()))
        .with("hour", || number(local.hour().into()))
        .with("minute", || number(local.minute().into()))
        .with("weekday", || text(hours::word(local.weekday())))
        .made()
}

fn taint<'v>(taint: Taint, fields: &Fields) -> Made<'v> {
    Object::of(fields)
        .with("untrusted", || truth(taint.untrusted))
        .with("private", || truth(taint.private))
        .made()
}

/// Builds a CEL object of the referenced fields.
struct Object<'v, 'f> {
    fields: &'f Fields,
    made: HashMap<CelMapKey<'v>, Made<'v>>,
}

impl<'v, 'f> Object<'v, 'f> {
    fn of(fields: &'f Fields) -> Self {
        Self { fields, made: HashMap::new() }
    }

    fn with(mut self, name: &'static str, value: impl FnOnce() -> Made<'v>) -> Self {
        if self.fields.has(name) {
            self.made.insert(name.into(), value());
        }
        self
    }

    fn made(self) -> Made<'v> {
        Box::new(CelMap::from(self.made))
    }
}

fn text(text: &str) -> Made<'_> {
    Box::new(CelString::from(text))
}

fn texts<'v>(all: impl Iterator<Item = &'v str>) -> Made<'v> {
    Box::new(CelList::from(all.map(text).collect::<Vec<_>>()))
}

fn truth<'v>(truth: bool) -> Made<'v> {
    Box::new(CelBool::from(truth))
}

fn number<'v>(number: i64) -> Made<'v> {
    Box::new(CelInt::from(number))
}

/// Remaining budget of values and bytes.
struct Left {
    values: usize,
    text: usize,
}

impl Default for Left {
    fn default() -> Self {
        Self { values: VALUES, text: TEXT }
    }
}

/// Builds the referenced arguments; `None` if none are referenced. Text larger than the sum of all
/// limits is not parsed.
fn arguments<'v>(args: &'v Args, fields: &Fields) -> Result<Option<Made<'v>>, Fault> {
    if *fields == Fields::None {
        return Ok(None);
    }
    if args.raw().bytes().len() > LONGEST {
        return Err(large());
    }
    let mut left = Left::default();
    Ok(Some(match (fields, args.value()) {
        (Fields::These(names), Json::Object(object)) => {
            let there = names.iter().filter_map(|name| object.get_key_value(name));
            map(there, &mut left)?
        }
        (_, json) => value(json, &mut left)?,
    }))
}

fn large() -> Fault {
    Fault("the arguments are larger than a condition may look at".to_owned())
}

fn map<'v>(
    fields: impl Iterator<Item = (&'v String, &'v Json)>,
    left: &mut Left,
) -> Result<Made<'v>, Fault> {
    let mut map = HashMap::with_capacity(fields.size_hint().1.unwrap_or(0));
    for (name, field) in fields {
        left.text = left.text.checked_sub(name.len()).ok_or_else(large)?;
        map.insert(name.as_str().into(), value(field, left)?);
    }
    Ok(Box::new(CelMap::from(map)))
}

fn value<'v>(json: &'v Json, left: &mut Left) -> Result<Made<'v>, Fault> {
    left.values = left.values.checked_sub(1).ok_or_else(large)?;
    Ok(match json {
        Json::Null => Box::new(CelNull),
        Json::Bool(is) => truth(*is),
        Json::Number(of) => match (of.as_i64(), of.as_u64(), of.as_f64()) {
            (Some(of), ..) => number(of),
            (None, Some(of), _) => Box::new(CelUInt::from(of)),
            (None, None, Some(of)) => Box::new(CelDouble::from(of)),
            (None, None, None) => return Err(large()),
        },
        Json::String(of) => {
            left.text = left.text.checked_sub(of.len()).ok_or_else(large)?;
            text(of)
        }
        Json::Array(items) if items.len() <= ITEMS => {
            let items = items.iter().map(|item| value(item, left));
            Box::new(CelList::from(items.collect::<Result<Vec<_>, _>>()?))
        }
        Json::Object(fields) if fields.len() <= ITEMS => map(fields.iter(), left)?,
        Json::Array(_) | Json::Object(_) => return Err(large()),
    })
}
