//! Fields of a call that a condition references. Only these are materialised when the condition is
//! evaluated.

use std::collections::BTreeSet;

use cel::common::ast::{CallExpr, Expr, IdedExpr, LiteralValue};

/// Referenced fields of one variable.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) enum Fields {
    /// The variable is not referenced.
    #[default]
    None,
    /// Only these fields are referenced.
    These(BTreeSet<String>),
    /// The variable is referenced as a whole.
    All,
}

impl Fields {
    /// Returns true if this field is referenced.
    pub(super) fn has(&self, field: &str) -> bool {
        match self {
            Self::None => false,
            Self::These(fields) => fields.contains(field),
            Self::All => true,
        }
    }

    fn add(&mut self, field: &str) {
        match self {
            Self::None => *self = Self::These([field.to_owned()].into()),
            Self::These(fields) => drop(fields.insert(field.to_owned())),
            Self::All => {}
        }
    }

    fn join(&mut self, other: &Self) {
        match other {
            Self::None => {}
            Self::These(fields) => fields.iter().for_each(|field| self.add(field)),
            Self::All => *self = Self::All,
        }
    }
}

/// References of one or more conditions to the variables.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Wants {
    pub(super) args: Fields,
    pub(super) principal: Fields,
    pub(super) tool: Fields,
    pub(super) now: Fields,
    pub(super) taint: Fields,
    pub(super) via: Fields,
}

impl Wants {
    /// Collects the references of a condition whose depth was bounded before.
    pub(super) fn of(expression: &IdedExpr) -> Self {
        let mut wants = Self::default();
        wants.walk(expression);
        wants
    }

    #[cfg(test)]
    pub(super) fn all() -> Self {
        let all = || Fields::All;
        Self { args: all(), principal: all(), tool: all(), now: all(), taint: all(), via: all() }
    }

    /// Returns true if only arguments, and variables that examples have, are referenced.
    #[cfg(test)]
    pub(super) fn of_args_alone(&self) -> bool {
        [&self.principal, &self.tool, &self.now].into_iter().all(|fields| *fields == Fields::None)
    }

    /// Adds the references of another condition.
    pub(crate) fn join(&mut self, other: &Self) {
        let Self { args, principal, tool, now, taint, via } = other;
        self.args.join(args);
        self.principal.join(principal);
        self.tool.join(tool);
        self.now.join(now);
        self.taint.join(taint);
        self.via.join(via);
    }

    /// A loop variable may have the same name: then more is built than needed, never less.
    fn variable(&mut self, name: &str) -> Option<&mut Fields> {
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

    fn field(&mut self, of: &IdedExpr, field: &str) {
        match &of.expr {
            Expr::Ident(name) => {
                if let Some(fields) = self.variable(name) {
                    fields.add(field);
                }
            }
            _ => self.walk(of),
        }
    }

    fn walk(&mut self, expression: &IdedExpr) {
        match &expression.expr {
            Expr::Ident(name) => {
                if let Some(fields) = self.variable(name) {
                    *fields = Fields::All;
                }
            }
            Expr::Select(select) => self.field(&select.operand, &select.field),
            Expr::Call(call) => self.call(call),
            Expr::List(list) => list.elements.iter().for_each(|element| self.walk(element)),
            Expr::Comprehension(over) => {
                let parts = [&over.accu_init, &over.loop_cond, &over.loop_step, &over.result];
                self.walk(&over.iter_range);
                for part in parts {
                    self.walk(part);
                }
            }
            // Other expressions are never allowed, except strings and numbers.
            Expr::Literal(_) | Expr::Map(_) | Expr::Struct(_) | Expr::Unspecified => {}
        }
    }

    fn call(&mut self, call: &CallExpr) {
        if let ("_[_]", [of, at]) = (call.func_name.as_str(), call.args.as_slice())
            && let Expr::Literal(LiteralValue::String(field)) = &at.expr
        {
            return self.field(of, field.inner());
        }
        let parts = call.target.iter().map(AsRef::as_ref).chain(&call.args);
        for part in parts {
            self.walk(part);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Fields, Wants};
    use crate::condition::Condition;

    fn these(names: &[&str]) -> Fields {
        Fields::These(names.iter().map(|name| (*name).to_owned()).collect())
    }

    #[test]
    fn what_a_condition_names_is_all_that_it_wants() {
        let wants = |text: &str| Condition::read(text).unwrap().wants;
        for (text, args) in [
            ("args.env == 'prod'", these(&["env"])),
            ("has(args.a) && args.b.c == 1", these(&["a", "b"])),
            ("args['a b'] == 1 || size(args.c) > 1", these(&["a b", "c"])),
            ("args.list.exists(x, x == args.y)", these(&["list", "y"])),
            ("args.list.all(args, args.z)", these(&["list", "z"])),
            ("args[args.which] == 1", Fields::All),
            ("size(args) > 1 && args.a == 1", Fields::All),
            ("'a' in args", Fields::All),
            ("args.exists(name, name == 'a')", Fields::All),
            ("true", Fields::None),
        ] {
            assert_eq!(wants(text).args, args, "{text}");
        }
        let both = wants("'ops' in principal.roles && now.hour < 6 && taint.private");
        let expected = Wants {
            principal: these(&["roles"]),
            now: these(&["hour"]),
            taint: these(&["private"]),
            ..Wants::default()
        };
        assert_eq!(both, expected);
    }

    #[test]
    fn several_conditions_want_what_any_of_them_names() {
        let wants = |text: &str| Condition::read(text).unwrap().wants;
        let mut all = wants("args.a == 1 && now.hour < 6");
        all.join(&wants("args.b == 1 && via == 'direct'"));
        assert_eq!((&all.args, &all.via), (&these(&["a", "b"]), &Fields::All));
        all.join(&wants("size(args) == 1"));
        assert_eq!((&all.args, &all.now), (&Fields::All, &these(&["hour"])));
    }
}
