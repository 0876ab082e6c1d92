//! Fields of a call that a condition references. Only these are materialised when the condition is
//! evaluated.

use std::collections::BTreeSet;

use cel::common::ast::{CallExpr, Expr, IdedExpr, LiteralValue};

/// Referenced fields of one variable.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) enum FieldSet {
    /// The variable is not referenced.
    #[default]
    None,
    /// Only these fields are referenced.
    Named(BTreeSet<String>),
    /// The variable is referenced as a whole.
    All,
}

impl FieldSet {
    /// Returns true if this field is referenced.
    pub(super) fn contains_field(&self, field: &str) -> bool {
        match self {
            Self::None => false,
            Self::Named(fields) => fields.contains(field),
            Self::All => true,
        }
    }

    fn add_field(&mut self, field: &str) {
        match self {
            Self::None => *self = Self::Named([field.to_owned()].into()),
            Self::Named(fields) if fields.contains(field) => {}
            Self::Named(fields) => drop(fields.insert(field.to_owned())),
            Self::All => {}
        }
    }

    fn merge_fields(&mut self, other: &Self) {
        match other {
            Self::None => {}
            Self::Named(fields) => fields.iter().for_each(|field| self.add_field(field)),
            Self::All => *self = Self::All,
        }
    }
}

/// References of one or more conditions to the variables.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct ReferencedFields {
    pub(super) args: FieldSet,
    pub(super) principal: FieldSet,
    pub(super) tool: FieldSet,
    pub(super) now: FieldSet,
    pub(super) taint: FieldSet,
    pub(super) via: FieldSet,
}

impl ReferencedFields {
    /// Collects the references of a condition whose depth was bounded before.
    pub(super) fn from_expression(expression: &IdedExpr) -> Self {
        let mut wants = Self::default();
        wants.visit_expression(expression);
        wants
    }

    #[cfg(test)]
    pub(super) fn all() -> Self {
        let all = || FieldSet::All;
        Self { args: all(), principal: all(), tool: all(), now: all(), taint: all(), via: all() }
    }

    /// Returns true if only arguments, and variables that examples have, are referenced.
    #[cfg(test)]
    pub(super) fn of_args_alone(&self) -> bool {
        [&self.principal, &self.tool, &self.now].into_iter().all(|fields| *fields == FieldSet::None)
    }

    /// Adds the references of another condition.
    pub(crate) fn merge_with(&mut self, other: &Self) {
        let Self { args, principal, tool, now, taint, via } = other;
        self.args.merge_fields(args);
        self.principal.merge_fields(principal);
        self.tool.merge_fields(tool);
        self.now.merge_fields(now);
        self.taint.merge_fields(taint);
        self.via.merge_fields(via);
    }

    /// A loop variable may have the same name: then more is built than needed, never less.
    fn variable_fields(&mut self, name: &str) -> Option<&mut FieldSet> {
        Some(match name {
            "args" => &mut self.args,
            "principal" => &mut self.principal,
            "tool" => &mut self.tool,
            "now" => &mut self.now,
            "taint" => &mut self.taint,
            "via" => &mut self.via,
            _ => return None,
        })
    }

    fn visit_field(&mut self, of: &IdedExpr, field: &str) {
        match &of.expr {
            Expr::Ident(name) => {
                if let Some(fields) = self.variable_fields(name) {
                    fields.add_field(field);
                }
            }
            _ => self.visit_expression(of),
        }
    }

    fn visit_expression(&mut self, expression: &IdedExpr) {
        match &expression.expr {
            Expr::Ident(name) => {
                if let Some(fields) = self.variable_fields(name) {
                    *fields = FieldSet::All;
                }
            }
            Expr::Select(select) => self.visit_field(&select.operand, &select.field),
            Expr::Call(call) => self.visit_call(call),
            Expr::List(list) => {
                list.elements.iter().for_each(|element| self.visit_expression(element));
            }
            Expr::Comprehension(over) => {
                let parts = [&over.accu_init, &over.loop_cond, &over.loop_step, &over.result];
                self.visit_expression(&over.iter_range);
                for part in parts {
                    self.visit_expression(part);
                }
            }
            // Other expressions are never allowed, except strings and numbers.
            Expr::Literal(_) | Expr::Map(_) | Expr::Struct(_) | Expr::Unspecified => {}
        }
    }

    fn visit_call(&mut self, call: &CallExpr) {
        if let ("_[_]", [of, at]) = (call.func_name.as_str(), call.args.as_slice())
            && let Expr::Literal(LiteralValue::String(field)) = &at.expr
        {
            return self.visit_field(of, field.inner());
        }
        let parts = call.target.iter().map(AsRef::as_ref).chain(&call.args);
        for part in parts {
            self.visit_expression(part);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{FieldSet, ReferencedFields};
    use crate::condition::{OperandTable, RuleCondition};

    fn these(names: &[&str]) -> FieldSet {
        FieldSet::Named(names.iter().map(|name| (*name).to_owned()).collect())
    }

    #[test]
    fn what_a_condition_names_is_all_that_it_wants() {
        let wants = |text: &str| {
            RuleCondition::parse(text, &mut OperandTable::default()).unwrap().referenced_fields
        };
        for (text, args) in [
            ("args.env == 'prod'", these(&["env"])),
            ("has(args.a) && args.b.c == 1", these(&["a", "b"])),
            ("args['a b'] == 1 || size(args.c) > 1", these(&["a b", "c"])),
            ("args.list.exists(x, x == args.y)", these(&["list", "y"])),
            ("args.list.all(args, args.z)", these(&["list", "z"])),
            ("args[args.which] == 1", FieldSet::All),
            ("size(args) > 1 && args.a == 1", FieldSet::All),
            ("'a' in args", FieldSet::All),
            ("args.exists(name, name == 'a')", FieldSet::All),
            ("true", FieldSet::None),
        ] {
            assert_eq!(wants(text).args, args, "{text}");
        }
        let both = wants("'ops' in principal.roles && now.hour < 6 && taint.private");
        let expected = ReferencedFields {
            principal: these(&["roles"]),
            now: these(&["hour"]),
            taint: these(&["private"]),
            ..ReferencedFields::default()
        };
        assert_eq!(both, expected);
    }

    #[test]
    fn several_conditions_want_what_any_of_them_names() {
        let wants = |text: &str| {
            RuleCondition::parse(text, &mut OperandTable::default()).unwrap().referenced_fields
        };
        let mut all = wants("args.a == 1 && now.hour < 6");
        all.merge_with(&wants("args.b == 1 && via == 'direct'"));
        assert_eq!((&all.args, &all.via), (&these(&["a", "b"]), &FieldSet::All));
        all.merge_with(&wants("size(args) == 1"));
        assert_eq!((&all.args, &all.now), (&FieldSet::All, &these(&["hour"])));
    }
}
