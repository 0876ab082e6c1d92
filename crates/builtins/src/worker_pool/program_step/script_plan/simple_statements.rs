//! Statements that consist of a call, or of one name assigned from a call, with literal arguments.

use std::collections::BTreeSet;

use ruff_python_ast::{Expr, ExprCall, ModModule, Number, Stmt, UnaryOp};
use serde::Serialize;
use serde_json::{Value, json};

use super::{CALL_BY_NAME_FUNCTIONS, ScriptAnalysisRequest};

/// Largest nesting depth of an argument.
const MAX_VALUE_DEPTH: usize = 40;

/// A literal value with placeholders for names.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum LiteralTemplate {
    Value(Value),
    Name(String),
    List(Vec<Self>),
    /// Keys are text, as in JSON.
    Dict(Vec<(String, Self)>),
}

/// Tool call that the planner found in a script.
#[derive(Debug, Serialize)]
pub(super) struct PlannedCall {
    pub(super) function: String,
    args: Vec<LiteralTemplate>,
    kwargs: Vec<(String, LiteralTemplate)>,
    /// The name to which its value is assigned.
    pub(super) name: Option<String>,
    #[serde(skip)]
    pub(super) needed_names: BTreeSet<String>,
}

/// The calls of a script, and its final value if it ends with an expression.
pub(super) struct SimpleScript {
    pub(super) steps: Vec<PlannedCall>,
    pub(super) value: Option<LiteralTemplate>,
    /// Whether the value of the last call is the value of the script.
    pub(super) last: bool,
}

/// Parses all statements; `None` if any has another form.
pub(super) fn parse_statements(
    module: &ModModule,
    request: &ScriptAnalysisRequest,
) -> Option<SimpleScript> {
    let mut known: BTreeSet<String> = request.inputs.iter().cloned().collect();
    let mut all = SimpleScript { steps: Vec::new(), value: None, last: false };
    for statement in &module.body {
        // Only the last statement may be a value.
        if all.value.is_some() {
            return None;
        }
        let (name, value) = match statement {
            Stmt::Expr(it) => (None, &*it.value),
            Stmt::Assign(it) => match it.targets.as_slice() {
                [Expr::Name(name)] => (Some(name.id.to_string()), &*it.value),
                _ => return None,
            },
            _ => return None,
        };
        all.last = name.is_none();
        match (value, name) {
            (Expr::Call(call), name) => {
                let mut step = parse_call(call, (&known, request))?;
                // A name that is assigned twice is ambiguous unless the calls run in order.
                if name.iter().any(|name| !known.insert(name.clone())) {
                    return None;
                }
                step.name = name;
                all.steps.push(step);
            }
            (value, None) => all.value = Some(parse_value(value, &known, 0)?),
            (_, Some(_)) => return None,
        }
    }
    Some(all)
}

fn parse_call(
    call: &ExprCall,
    (known, asked): (&BTreeSet<String>, &ScriptAnalysisRequest),
) -> Option<PlannedCall> {
    let Expr::Name(function) = &*call.func else { return None };
    let mut args = call.arguments.args.iter();
    let mut function = function.id.as_str();
    if CALL_BY_NAME_FUNCTIONS.contains(&function) {
        let Some(Expr::StringLiteral(text)) = args.next() else { return None };
        function = text.value.to_str();
    }
    if !asked.functions.contains_key(function) {
        return None;
    }
    let args = args.map(|it| parse_value(it, known, 0)).collect::<Option<Vec<_>>>()?;
    let keyword = |it: &ruff_python_ast::Keyword| {
        Some((it.arg.as_ref()?.to_string(), parse_value(&it.value, known, 0)?))
    };
    let kwargs = call.arguments.keywords.iter().map(keyword).collect::<Option<Vec<_>>>()?;
    let mut wants = BTreeSet::new();
    args.iter().chain(kwargs.iter().map(|(_, it)| it)).for_each(|it| it.collect_names(&mut wants));
    Some(PlannedCall {
        function: function.to_owned(),
        args,
        kwargs,
        name: None,
        needed_names: wants,
    })
}

impl LiteralTemplate {
    fn collect_names(&self, into: &mut BTreeSet<String>) {
        match self {
            Self::Value(_) => {}
            Self::Name(name) => drop(into.insert(name.clone())),
            Self::List(items) => items.iter().for_each(|it| it.collect_names(into)),
            Self::Dict(items) => items.iter().for_each(|(_, it)| it.collect_names(into)),
        }
    }
}

fn parse_value(expr: &Expr, known: &BTreeSet<String>, depth: usize) -> Option<LiteralTemplate> {
    if depth > MAX_VALUE_DEPTH {
        return None;
    }
    let list = |items: &[Expr]| {
        items
            .iter()
            .map(|it| parse_value(it, known, depth + 1))
            .collect::<Option<_>>()
            .map(LiteralTemplate::List)
    };
    Some(match expr {
        Expr::StringLiteral(text) => LiteralTemplate::Value(json!(text.value.to_str())),
        Expr::BooleanLiteral(it) => LiteralTemplate::Value(json!(it.value)),
        Expr::NoneLiteral(_) => LiteralTemplate::Value(Value::Null),
        Expr::NumberLiteral(it) => LiteralTemplate::Value(parse_number(&it.value, false)?),
        Expr::UnaryOp(it) if it.op == UnaryOp::USub => match &*it.operand {
            Expr::NumberLiteral(it) => LiteralTemplate::Value(parse_number(&it.value, true)?),
            _ => return None,
        },
        Expr::Name(name) if known.contains(name.id.as_str()) => {
            LiteralTemplate::Name(name.id.to_string())
        }
        Expr::List(it) => list(&it.elts)?,
        Expr::Tuple(it) => list(&it.elts)?,
        Expr::Dict(it) => {
            let pair = |item: &ruff_python_ast::DictItem| match &item.key {
                Some(Expr::StringLiteral(key)) => Some((
                    key.value.to_str().to_owned(),
                    parse_value(&item.value, known, depth + 1)?,
                )),
                _ => None,
            };
            LiteralTemplate::Dict(it.items.iter().map(pair).collect::<Option<_>>()?)
        }
        _ => return None,
    })
}

fn parse_number(number: &Number, negative: bool) -> Option<Value> {
    match number {
        Number::Int(whole) => {
            let whole = whole.as_i64()?;
            Some(json!(if negative { whole.checked_neg()? } else { whole }))
        }
        Number::Float(real) => Some(json!(if negative { -real } else { *real })),
        Number::Complex { .. } => None,
    }
}
