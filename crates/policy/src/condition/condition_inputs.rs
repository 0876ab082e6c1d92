//! CEL variables of a condition, built from one call.

use std::collections::{BTreeSet, HashMap};

use cel::Context;
use cel::common::types::{
    CelBool, CelDouble, CelInt, CelList, CelMap, CelMapKey, CelNull, CelString, CelUInt,
};
use cel::common::value::Val;
use jiff::Timestamp;
use jiff::tz::TimeZone;
use serde_json::Value as Json;
use tool::{CallArguments, WallTime};

use super::referenced_fields::{FieldSet, ReferencedFields};
use super::{EvaluationError, empty_context};
use crate::{PolicyRequest, SessionTaint, time_window};

/// Maximum number of members of a list or object in the arguments.
pub(super) const MAX_LIST_ITEMS: usize = 1_000;
/// Maximum number of values that a condition may read from the arguments.
const MAX_VALUES: usize = 10_000;
/// Maximum number of bytes of all strings in these values.
const MAX_TEXT_BYTES: usize = 64 << 10;
/// Maximum size of the arguments as received, in bytes.
const MAX_ARGUMENT_BYTES: usize = 1 << 20;

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
pub(crate) struct ConditionInputs<'v>(Context<'v, 'v>);

type BoxedCelValue<'v> = Box<dyn Val + 'v>;

impl<'v> ConditionInputs<'v> {
    /// Builds the referenced variables of a call.
    ///
    /// # Errors
    /// If the referenced arguments exceed the limits of a condition.
    pub(crate) fn from_request(
        request: &PolicyRequest<'v>,
        references: &ReferencedFields,
    ) -> Result<Self, EvaluationError> {
        let mut given = empty_context();
        let mut add =
            |name: &str, fields: &FieldSet, value: &dyn Fn(&FieldSet) -> BoxedCelValue<'v>| {
                if *fields != FieldSet::None {
                    given.add_variable_as_val(name, value(fields));
                }
            };
        check_argument_limits(request.arguments, references)?;
        add("principal", &references.principal, &|fields| principal_value(request, fields));
        add("tool", &references.tool, &|fields| tool_value(request, fields));
        add("now", &references.now, &|fields| time_value(request.now, fields));
        add("taint", &references.taint, &|fields| taint_value(request.taint, fields));
        add("via", &references.via, &|_| {
            text_value(match request.caller_type {
                tool::CallerType::Direct => "direct",
                tool::CallerType::Chain => "chain",
            })
        });
        add("args", &references.args, &|fields| arguments_value(request.arguments, fields));
        Ok(Self(given))
    }

    /// Builds the variables of a rule example: only arguments, taint and `via` have defaults.
    ///
    /// # Errors
    /// If it exceeds the limits of a condition, or names an unknown variable.
    pub(crate) fn from_example(
        args: &'v Json,
        facts: &'v serde_json::Map<String, Json>,
    ) -> Result<Self, EvaluationError> {
        let mut given = empty_context();
        let whole = |json| {
            InputBudget::default().charge_value(json)?;
            Ok(json_value(json))
        };
        given.add_variable_as_val("args", whole(args)?);
        given.add_variable_as_val("taint", taint_value(SessionTaint::default(), &FieldSet::All));
        given.add_variable_as_val("via", text_value("direct"));
        for (name, json) in facts {
            let known = VARIABLES.iter().find(|(known, _)| known == name && *known != "args");
            let (name, fields) =
                known.ok_or_else(|| EvaluationError(format!("unknown variable `{name}`")))?;
            if let Json::Object(said) = json
                && !said.keys().all(|key| fields.contains(&key.as_str()))
            {
                return Err(EvaluationError(format!("`{name}` has only {}", fields.join(", "))));
            }
            let made = match (*name, json.as_str()) {
                ("now", Some(text)) => {
                    let moment = time_window::parse_rfc3339(text);
                    time_value(
                        moment.ok_or_else(|| {
                            EvaluationError(
                                "`now` is not a valid \
                            time"
                                    .to_owned(),
                            )
                        })?,
                        &FieldSet::All,
                    )
                }
                _ => whole(json)?,
            };
            given.add_variable_as_val(*name, made);
        }
        Ok(Self(given))
    }

    pub(crate) fn cel_context(&self) -> &Context<'v, 'v> {
        &self.0
    }
}

fn principal_value<'v>(asking: &PolicyRequest<'v>, fields: &FieldSet) -> BoxedCelValue<'v> {
    let PolicyRequest { caller, rights, .. } = *asking;
    CelObjectBuilder::with_fields(fields)
        .add_field("org", || text_value(caller.org.as_str()))
        .add_field("subject", || text_value(&caller.subject))
        .add_field("key", || text_value(&caller.key_id))
        .add_field("level", || text_value(rights.level().as_str()))
        .add_field("roles", || text_list(rights.roles().iter().map(String::as_str)))
        .add_field("persona", || match rights.persona() {
            Some(persona) => text_value(&persona.name),
            None => Box::new(CelNull),
        })
        .add_field("agent", || bool_value(rights.is_agent()))
        .build_value()
}

fn tool_value<'v>(asking: &PolicyRequest<'v>, fields: &FieldSet) -> BoxedCelValue<'v> {
    let (tool, traits) = (asking.tool, asking.tool.traits);
    CelObjectBuilder::with_fields(fields)
        .add_field("name", || text_value(tool.name))
        .add_field("source", || text_value(tool.source))
        .add_field("level", || text_value(traits.min_level.as_str()))
        .add_field("safety", || text_value(traits.safety.as_str()))
        .add_field("categories", || text_list(traits.categories.iter().map(String::as_str)))
        .add_field("scopes", || text_list(traits.scopes.iter().map(|scope| scope.as_str())))
        .add_field("effects", || text_list(traits.effects.effect_names().into_iter()))
        .add_field("destructive", || bool_value(traits.is_destructive))
        .build_value()
}

/// Builds the variable `now` in UTC.
fn time_value<'v>(now: WallTime, fields: &FieldSet) -> BoxedCelValue<'v> {
    let millis = i64::try_from(now.0).unwrap_or(i64::MAX);
    let moment = Timestamp::from_millisecond(millis).unwrap_or(Timestamp::MAX);
    let local = moment.to_zoned(TimeZone::UTC);
    CelObjectBuilder::with_fields(fields)
        .add_field("unix", || integer_value(moment.as_second()))
        .add_field("year", || integer_value(local.year().into()))
        .add_field("month", || integer_value(local.month().into()))
        .add_field("day", || integer_value(local.day().into()))
        .add_field("hour", || integer_value(local.hour().into()))
        .add_field("minute", || integer_value(local.minute().into()))
        .add_field("weekday", || text_value(time_window::weekday_name(local.weekday())))
        .build_value()
}

fn taint_value<'v>(taint: SessionTaint, fields: &FieldSet) -> BoxedCelValue<'v> {
    CelObjectBuilder::with_fields(fields)
        .add_field("untrusted", || bool_value(taint.has_untrusted))
        .add_field("private", || bool_value(taint.has_private))
        .build_value()
}

/// Builds a CEL object of the referenced fields.
struct CelObjectBuilder<'v, 'f> {
    fields: &'f FieldSet,
    members: HashMap<CelMapKey<'v>, BoxedCelValue<'v>>,
}

impl<'v, 'f> CelObjectBuilder<'v, 'f> {
    fn with_fields(fields: &'f FieldSet) -> Self {
        Self { fields, members: HashMap::new() }
    }

    fn add_field(mut self, name: &'static str, value: impl FnOnce() -> BoxedCelValue<'v>) -> Self {
        if self.fields.contains_field(name) {
            self.members.insert(name.into(), value());
        }
        self
    }

    fn build_value(self) -> BoxedCelValue<'v> {
        Box::new(CelMap::from(self.members))
    }
}

fn text_value(text: &str) -> BoxedCelValue<'_> {
    Box::new(CelString::from(text))
}

fn text_list<'v>(all: impl Iterator<Item = &'v str>) -> BoxedCelValue<'v> {
    Box::new(CelList::from(all.map(text_value).collect::<Vec<_>>()))
}

fn bool_value<'v>(truth: bool) -> BoxedCelValue<'v> {
    Box::new(CelBool::from(truth))
}

fn integer_value<'v>(number: i64) -> BoxedCelValue<'v> {
    Box::new(CelInt::from(number))
}

/// Remaining budget of values and bytes.
struct InputBudget {
    remaining_values: usize,
    remaining_text: usize,
}

impl Default for InputBudget {
    fn default() -> Self {
        Self { remaining_values: MAX_VALUES, remaining_text: MAX_TEXT_BYTES }
    }
}

impl InputBudget {
    /// Charges a value with all values in it.
    fn charge_value(&mut self, json: &Json) -> Result<(), EvaluationError> {
        self.remaining_values = self.remaining_values.checked_sub(1).ok_or_else(too_large)?;
        match json {
            Json::Null | Json::Bool(_) | Json::Number(_) => Ok(()),
            Json::String(text) => self.charge_text(text),
            Json::Array(items) if items.len() <= MAX_LIST_ITEMS => {
                items.iter().try_for_each(|item| self.charge_value(item))
            }
            Json::Object(fields) if fields.len() <= MAX_LIST_ITEMS => {
                fields.iter().try_for_each(|field| self.charge_field(field))
            }
            Json::Array(_) | Json::Object(_) => Err(too_large()),
        }
    }

    fn charge_field(&mut self, (name, value): (&String, &Json)) -> Result<(), EvaluationError> {
        self.charge_text(name)?;
        self.charge_value(value)
    }

    fn charge_text(&mut self, text: &str) -> Result<(), EvaluationError> {
        self.remaining_text = self.remaining_text.checked_sub(text.len()).ok_or_else(too_large)?;
        Ok(())
    }
}

/// Checks the referenced arguments against the limits of a condition. Text larger than the sum of
/// all limits is not parsed.
///
/// # Errors
/// If they exceed the limits.
pub(super) fn check_argument_limits(
    args: &CallArguments,
    references: &ReferencedFields,
) -> Result<(), EvaluationError> {
    if references.args == FieldSet::None {
        return Ok(());
    }
    if args.as_json().bytes().len() > MAX_ARGUMENT_BYTES {
        return Err(too_large());
    }
    let mut left = InputBudget::default();
    match (&references.args, args.as_value()) {
        (FieldSet::Named(names), Json::Object(object)) => {
            named_fields(object, names).into_iter().try_for_each(|field| left.charge_field(field))
        }
        (_, json) => left.charge_value(json),
    }
}

/// Builds the referenced arguments, whose limits were checked before.
fn arguments_value<'v>(args: &'v CallArguments, fields: &FieldSet) -> BoxedCelValue<'v> {
    match (fields, args.as_value()) {
        (FieldSet::Named(names), Json::Object(object)) => {
            map_value(named_fields(object, names).into_iter())
        }
        (_, json) => json_value(json),
    }
}

/// Returns the fields with these names, in time of the shorter of both lists.
fn named_fields<'v>(
    object: &'v serde_json::Map<String, Json>,
    names: &BTreeSet<String>,
) -> Vec<(&'v String, &'v Json)> {
    if object.len() < names.len() {
        return object.iter().filter(|(name, _)| names.contains(*name)).collect();
    }
    names.iter().filter_map(|name| object.get_key_value(name)).collect()
}

fn too_large() -> EvaluationError {
    EvaluationError("the arguments are too large for a condition".to_owned())
}

fn map_value<'v>(fields: impl Iterator<Item = (&'v String, &'v Json)>) -> BoxedCelValue<'v> {
    let fields = fields.map(|(name, field)| (name.as_str().into(), json_value(field)));
    let fields: HashMap<CelMapKey<'v>, BoxedCelValue<'v>> = fields.collect();
    Box::new(CelMap::from(fields))
}

fn json_value(json: &Json) -> BoxedCelValue<'_> {
    match json {
        Json::Null => Box::new(CelNull),
        Json::Bool(is) => bool_value(*is),
        Json::Number(of) => match (of.as_i64(), of.as_u64()) {
            (Some(of), _) => integer_value(of),
            (None, Some(of)) => Box::new(CelUInt::from(of)),
            // Numbers that are no integers are doubles.
            (None, None) => Box::new(CelDouble::from(of.as_f64().unwrap_or(f64::NAN))),
        },
        Json::String(of) => text_value(of),
        Json::Array(items) => {
            Box::new(CelList::from(items.iter().map(json_value).collect::<Vec<_>>()))
        }
        Json::Object(fields) => map_value(fields.iter()),
    }
}
