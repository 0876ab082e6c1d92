//! Values of a call that simple conditions compare: read from the call itself, each once.

use std::collections::HashSet;
use std::sync::Arc;

use serde_json::Value as Json;
use tool::CallerType;

use crate::PolicyRequest;

/// Path to a value: a variable of conditions and the fields below it.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(super) struct Operand {
    pub(super) variable: String,
    pub(super) fields: Vec<String>,
}

/// Value of an operand in one call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum OperandValue<'v> {
    Text(&'v str),
    Integer(i64),
    Boolean(bool),
    /// The object that would hold it has no such field.
    Absent,
    /// It exists and is of another type.
    Other,
    /// It is not known here whether it exists.
    Unknown,
}

impl Operand {
    /// Reads the value from a call.
    fn read_value<'v>(&self, request: &PolicyRequest<'v>) -> OperandValue<'v> {
        let fields: &[String] = &self.fields;
        match (self.variable.as_str(), fields) {
            ("args", [_, ..]) => self.read_argument(request),
            ("via", []) => OperandValue::Text(match request.caller_type {
                CallerType::Direct => "direct",
                CallerType::Chain => "chain",
            }),
            (variable, [field]) => fixed_field(request, variable, field),
            _ => OperandValue::Unknown,
        }
    }

    fn read_argument<'v>(&self, request: &PolicyRequest<'v>) -> OperandValue<'v> {
        let mut value = Some(request.arguments.as_value());
        for field in &self.fields {
            let Some(Json::Object(object)) = value else { return OperandValue::Unknown };
            value = object.get(field);
        }
        match value {
            Some(Json::String(text)) => OperandValue::Text(text),
            Some(Json::Bool(is)) => OperandValue::Boolean(*is),
            Some(Json::Number(number)) => {
                number.as_i64().map_or(OperandValue::Other, OperandValue::Integer)
            }
            Some(Json::Null | Json::Array(_) | Json::Object(_)) => OperandValue::Other,
            None => OperandValue::Absent,
        }
    }
}

fn fixed_field<'v>(request: &PolicyRequest<'v>, variable: &str, field: &str) -> OperandValue<'v> {
    let PolicyRequest { caller, rights, tool, taint, .. } = *request;
    match (variable, field) {
        ("principal", "org") => OperandValue::Text(caller.org.as_str()),
        ("principal", "subject") => OperandValue::Text(&caller.subject),
        ("principal", "key") => OperandValue::Text(&caller.key_id),
        ("principal", "level") => OperandValue::Text(rights.level().as_str()),
        ("principal", "persona") => rights
            .persona()
            .map_or(OperandValue::Other, |persona| OperandValue::Text(&persona.name)),
        ("principal", "agent") => OperandValue::Boolean(rights.is_agent()),
        ("tool", "name") => OperandValue::Text(tool.name),
        ("tool", "source") => OperandValue::Text(tool.source),
        ("tool", "level") => OperandValue::Text(tool.traits.min_level.as_str()),
        ("tool", "safety") => OperandValue::Text(tool.traits.safety.as_str()),
        ("tool", "destructive") => OperandValue::Boolean(tool.traits.is_destructive),
        ("taint", "untrusted") => OperandValue::Boolean(taint.has_untrusted),
        ("taint", "private") => OperandValue::Boolean(taint.has_private),
        _ => OperandValue::Unknown,
    }
}

/// Operands of one policy: equal ones are one, so that their values can be cached by address.
#[derive(Debug, Default)]
pub(crate) struct OperandTable(HashSet<Arc<Operand>>);

impl OperandTable {
    pub(super) fn intern_operand(&mut self, operand: Operand) -> Arc<Operand> {
        if let Some(known) = self.0.get(&operand) {
            return Arc::clone(known);
        }
        let operand = Arc::new(operand);
        self.0.insert(Arc::clone(&operand));
        operand
    }
}

/// Number of operands whose values are remembered during one decision.
const CACHED_OPERANDS: usize = 8;

/// The values that were read last in one decision.
#[derive(Debug, Default)]
pub(super) struct OperandCache<'v> {
    entries: [Option<(usize, OperandValue<'v>)>; CACHED_OPERANDS],
}

impl<'v> OperandCache<'v> {
    /// Returns the value of an operand in a call.
    pub(super) fn read_value(
        &mut self,
        operand: &Arc<Operand>,
        request: &PolicyRequest<'v>,
    ) -> OperandValue<'v> {
        let address = Arc::as_ptr(operand).addr();
        // Operands are allocated in blocks of sixteen bytes at least.
        let Some(entry) = self.entries.get_mut((address >> 4) % CACHED_OPERANDS) else {
            return operand.read_value(request);
        };
        match *entry {
            Some((of, value)) if of == address => value,
            _ => entry.insert((address, operand.read_value(request))).1,
        }
    }
}
