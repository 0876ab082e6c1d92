//! Direct evaluation of simple conditions, without the CEL interpreter: comparisons of a field of
//! the call with a constant, and their combinations with `&&`, `||` and `!`.
//!
//! It decides only where its result is certainly that of CEL. A missing field, another type or any
//! other expression is left to CEL, so that results and errors are the same. As in CEL, an operand
//! that is `false` decides `&&`, and one that is `true` decides `||`, whatever the other one is.

use std::sync::Arc;

use cel::common::ast::{CallExpr, Expr, IdedExpr, LiteralValue, operators};

use super::condition_inputs::VARIABLES;
use super::operand::{Operand, OperandCache, OperandTable, OperandValue};
use crate::PolicyRequest;

/// A condition that can be decided directly.
#[derive(Debug)]
pub(super) enum SimpleCondition {
    All(Box<[Self]>),
    Any(Box<[Self]>),
    Not(Box<Self>),
    Constant(bool),
    Compare(Arc<Operand>, Comparison),
    HasField(Arc<Operand>),
    HasRole(Box<str>),
    /// Left to CEL.
    Undecided,
}

/// Comparison of an operand with constants.
#[derive(Debug)]
pub(super) enum Comparison {
    IsTrue,
    EqualsText(Box<str>),
    EqualsInteger(i64),
    EqualsBoolean(bool),
    Above(i64),
    Below(i64),
    OneOf(Box<[Box<str>]>),
    StartsWith(Box<str>),
    EndsWith(Box<str>),
    Contains(Box<str>),
}

impl SimpleCondition {
    /// Compiles a condition whose depth was bounded before; `None` if nothing of it can be decided.
    pub(super) fn from_expression(
        expression: &IdedExpr,
        operands: &mut OperandTable,
    ) -> Option<Self> {
        Some(Self::compile(expression, operands)).filter(|it| !matches!(it, Self::Undecided))
    }

    fn compile(expression: &IdedExpr, operands: &mut OperandTable) -> Self {
        let compiled = match &expression.expr {
            Expr::Call(call) => Self::compile_call(call, operands),
            Expr::Literal(LiteralValue::Boolean(is)) => Some(Self::Constant(*is.inner())),
            Expr::Select(select) if select.test => {
                // Fields of other variables always exist, or are not known here.
                let of = path_of(&select.operand).filter(|of| of.variable == "args");
                of.map(|mut of| {
                    of.fields.push(select.field.clone());
                    Self::HasField(operands.intern_operand(of))
                })
            }
            _ => operand_of(expression, operands)
                .map(|operand| Self::Compare(operand, Comparison::IsTrue)),
        };
        compiled.unwrap_or(Self::Undecided)
    }

    fn compile_call(call: &CallExpr, operands: &mut OperandTable) -> Option<Self> {
        let name = call.func_name.as_str();
        match (name, call.args.as_slice()) {
            (operators::LOGICAL_AND, [left, right]) => {
                let parts = [left, right].map(|part| Self::compile(part, operands));
                Some(Self::All(flatten_parts(parts, |part| match part {
                    Self::All(parts) => Ok(parts),
                    part => Err(part),
                })))
            }
            (operators::LOGICAL_OR, [left, right]) => {
                let parts = [left, right].map(|part| Self::compile(part, operands));
                Some(Self::Any(flatten_parts(parts, |part| match part {
                    Self::Any(parts) => Ok(parts),
                    part => Err(part),
                })))
            }
            (operators::LOGICAL_NOT, [part]) => {
                Some(Self::Not(Box::new(Self::compile(part, operands))))
            }
            (operators::IN, [left, right]) => Self::compile_membership(left, right, operands),
            (_, [argument]) => {
                let target = operand_of(call.target.as_deref()?, operands)?;
                let text = text_of(argument)?;
                Some(Self::Compare(
                    target,
                    match name {
                        "startsWith" => Comparison::StartsWith(text),
                        "endsWith" => Comparison::EndsWith(text),
                        "contains" => Comparison::Contains(text),
                        _ => return None,
                    },
                ))
            }
            (_, [left, right]) if call.target.is_none() => {
                Self::compile_comparison(name, left, right, operands)
            }
            _ => None,
        }
    }

    fn compile_comparison(
        name: &str,
        left: &IdedExpr,
        right: &IdedExpr,
        operands: &mut OperandTable,
    ) -> Option<Self> {
        let (operand, literal, is_flipped) = match (&left.expr, &right.expr) {
            (_, Expr::Literal(literal)) => (operand_of(left, operands)?, literal, false),
            (Expr::Literal(literal), _) => (operand_of(right, operands)?, literal, true),
            _ => return None,
        };
        let compare = |comparison| Self::Compare(operand, comparison);
        let not = |condition| Self::Not(Box::new(condition));
        if matches!(name, operators::EQUALS | operators::NOT_EQUALS) {
            let equal = compare(match literal {
                LiteralValue::String(text) => Comparison::EqualsText(text.inner().into()),
                LiteralValue::Int(number) => Comparison::EqualsInteger(*number.inner()),
                LiteralValue::Boolean(is) => Comparison::EqualsBoolean(*is.inner()),
                _ => return None,
            });
            return Some(if name == operators::EQUALS { equal } else { not(equal) });
        }
        let LiteralValue::Int(number) = literal else { return None };
        let number = *number.inner();
        Some(match (name, is_flipped) {
            (operators::GREATER, false) | (operators::LESS, true) => {
                compare(Comparison::Above(number))
            }
            (operators::LESS, false) | (operators::GREATER, true) => {
                compare(Comparison::Below(number))
            }
            (operators::GREATER_EQUALS, false) | (operators::LESS_EQUALS, true) => {
                not(compare(Comparison::Below(number)))
            }
            (operators::LESS_EQUALS, false) | (operators::GREATER_EQUALS, true) => {
                not(compare(Comparison::Above(number)))
            }
            _ => return None,
        })
    }

    fn compile_membership(
        left: &IdedExpr,
        right: &IdedExpr,
        operands: &mut OperandTable,
    ) -> Option<Self> {
        if let Expr::List(list) = &right.expr {
            let texts = list.elements.iter().map(text_of).collect::<Option<_>>()?;
            return Some(Self::Compare(operand_of(left, operands)?, Comparison::OneOf(texts)));
        }
        let of = path_of(right)?;
        let is_roles = of.variable == "principal" && of.fields == ["roles"];
        text_of(left).filter(|_| is_roles).map(Self::HasRole)
    }

    /// Decides the condition on a call; `None` if it is left to CEL.
    pub(super) fn decide<'v>(
        &self,
        request: &PolicyRequest<'v>,
        operands: &mut OperandCache<'v>,
    ) -> Option<bool> {
        let mut until = |parts: &[Self], decisive: bool| {
            let mut all_decided = true;
            for part in parts {
                match part.decide(request, operands) {
                    Some(result) if result == decisive => return Some(decisive),
                    Some(_) => {}
                    None => all_decided = false,
                }
            }
            all_decided.then_some(!decisive)
        };
        match self {
            Self::All(parts) => until(parts, false),
            Self::Any(parts) => until(parts, true),
            Self::Not(part) => part.decide(request, operands).map(|is| !is),
            Self::Constant(is) => Some(*is),
            Self::Compare(operand, comparison) => {
                comparison.decide(operands.read_value(operand, request))
            }
            Self::HasField(operand) => match operands.read_value(operand, request) {
                OperandValue::Absent => Some(false),
                OperandValue::Unknown => None,
                _ => Some(true),
            },
            Self::HasRole(role) => Some(request.rights.roles().iter().any(|own| **own == **role)),
            Self::Undecided => None,
        }
    }
}

impl Comparison {
    fn decide(&self, value: OperandValue<'_>) -> Option<bool> {
        match (self, value) {
            (Self::IsTrue, OperandValue::Boolean(is)) => Some(is),
            (Self::EqualsBoolean(wanted), OperandValue::Boolean(is)) => Some(is == *wanted),
            (Self::EqualsInteger(wanted), OperandValue::Integer(is)) => Some(is == *wanted),
            (Self::Above(limit), OperandValue::Integer(is)) => Some(is > *limit),
            (Self::Below(limit), OperandValue::Integer(is)) => Some(is < *limit),
            (Self::EqualsText(wanted), OperandValue::Text(is)) => Some(is == &**wanted),
            (Self::OneOf(wanted), OperandValue::Text(is)) => {
                Some(wanted.iter().any(|one| is == &**one))
            }
            (Self::StartsWith(start), OperandValue::Text(is)) => Some(is.starts_with(&**start)),
            (Self::EndsWith(end), OperandValue::Text(is)) => Some(is.ends_with(&**end)),
            (Self::Contains(part), OperandValue::Text(is)) => Some(is.contains(&**part)),
            _ => None,
        }
    }
}

/// Joins the parts of nested `&&` or `||` in their order.
fn flatten_parts(
    parts: [SimpleCondition; 2],
    split: impl Fn(SimpleCondition) -> Result<Box<[SimpleCondition]>, SimpleCondition>,
) -> Box<[SimpleCondition]> {
    let parts = parts.into_iter().flat_map(|part| match split(part) {
        Ok(parts) => parts.into_vec(),
        Err(part) => vec![part],
    });
    parts.collect()
}

fn operand_of(expression: &IdedExpr, operands: &mut OperandTable) -> Option<Arc<Operand>> {
    path_of(expression).map(|operand| operands.intern_operand(operand))
}

/// Returns the path that an expression spells: `args.a.b` or `args['a'].b`.
fn path_of(expression: &IdedExpr) -> Option<Operand> {
    let (below, field) = match &expression.expr {
        Expr::Ident(name) => {
            let is_known = VARIABLES.iter().any(|(known, _)| known == name);
            return is_known.then(|| Operand { variable: name.clone(), fields: Vec::new() });
        }
        Expr::Select(select) if !select.test => (&*select.operand, select.field.clone()),
        Expr::Call(CallExpr { func_name, target: None, args }) if func_name == operators::INDEX => {
            let [below, field] = args.as_slice() else { return None };
            (below, String::from(text_of(field)?))
        }
        _ => return None,
    };
    let mut path = path_of(below)?;
    path.fields.push(field);
    Some(path)
}

fn text_of(expression: &IdedExpr) -> Option<Box<str>> {
    match &expression.expr {
        Expr::Literal(LiteralValue::String(text)) => Some(text.inner().into()),
        _ => None,
    }
}
