//! Names: which module they belong to, and what may have been meant by an unknown one.

use std::fmt;

use ruff_python_ast::Expr;

use super::functions::{self, Function};
use super::{math_functions, python_functions};

/// Where a name is looked up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Module {
    /// Python's own functions.
    Python,
    /// `math`.
    Math,
    /// `np`, `numpy`.
    Numpy,
}

/// A name with or without its module.
#[derive(Debug, Clone)]
pub(super) struct Path<'a> {
    /// `None` for a bare name.
    pub(super) module: Option<Module>,
    /// Such as `sqrt` or `linalg.norm`.
    pub(super) name: String,
    /// The module as it was written.
    pub(super) prefix: &'a str,
}

impl fmt::Display for Path<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name: String = self.name.chars().take(32).collect();
        if self.prefix.is_empty() {
            write!(f, "{name}")
        } else {
            write!(f, "{}.{name}", self.prefix)
        }
    }
}

/// `sqrt`, `np.sqrt`, `np.linalg.norm`; nothing for other expressions.
pub(super) fn path(expr: &Expr) -> Option<Path<'_>> {
    match expr {
        Expr::Name(name) => {
            Some(Path { module: None, name: name.id.as_str().to_owned(), prefix: "" })
        }
        Expr::Attribute(attribute) => {
            let own = attribute.attr.as_str();
            match &*attribute.value {
                Expr::Name(base) => {
                    let prefix = base.id.as_str();
                    let module = named_module(prefix)?;
                    Some(Path { module: Some(module), name: own.to_owned(), prefix })
                }
                Expr::Attribute(inner) => {
                    let Expr::Name(base) = &*inner.value else { return None };
                    let prefix = base.id.as_str();
                    let module = named_module(prefix)?;
                    let name = format!("{}.{own}", inner.attr.as_str());
                    Some(Path { module: Some(module), name, prefix })
                }
                _ => None,
            }
        }
        _ => None,
    }
}

fn named_module(name: &str) -> Option<Module> {
    match name {
        "math" => Some(Module::Math),
        "np" | "numpy" => Some(Module::Numpy),
        _ => None,
    }
}

/// What a name stands for without a call.
pub(super) fn constant(path: &Path<'_>) -> Option<f64> {
    Some(match (path.module, path.name.as_str()) {
        (_, "pi") => std::f64::consts::PI,
        (_, "e") => std::f64::consts::E,
        (None | Some(Module::Math), "tau") => std::f64::consts::TAU,
        (_, "inf") => f64::INFINITY,
        (_, "nan") => f64::NAN,
        (Some(Module::Numpy), "euler_gamma") => 0.577_215_664_901_532_9,
        _ => return None,
    })
}

/// The words for a name without a value.
pub(super) fn unknown_value(path: &Path<'_>) -> String {
    let modules = [Module::Python, Module::Math, Module::Numpy];
    let is_function = match path.module {
        Some(module) => functions::find(module, &path.name).is_some(),
        None => modules.iter().any(|module| functions::find(*module, &path.name).is_some()),
    };
    if is_function {
        return format!("`{path}` is a function; call it with its values in parentheses");
    }
    unknown(path, "the constants are pi, e, tau, inf, nan, True, False and None")
}

/// The words for a call of an unknown function.
pub(super) fn unknown_function(path: &Path<'_>) -> String {
    let names = |functions: &mut dyn Iterator<Item = &Function>| {
        let mut names: Vec<_> = functions.map(|function| function.name).collect();
        names.sort_unstable();
        names.join(", ")
    };
    let known = match path.module {
        Some(Module::Math) => names(&mut math_functions::FUNCTIONS.iter()),
        Some(Module::Numpy) => names(&mut functions::all_of_numpy()),
        _ => format!(
            "{}; and those of math. and np., such as sqrt, median and clip",
            names(&mut python_functions::FUNCTIONS.iter())
        ),
    };
    unknown(path, &format!("there are {known}"))
}

fn unknown(path: &Path<'_>, known: &str) -> String {
    let bare = Path { module: None, prefix: "", name: path.name.clone() };
    let elsewhere = [("math.", Module::Math), ("np.", Module::Numpy)];
    let found = elsewhere.iter().find(|(_, module)| functions::find(*module, &bare.name).is_some());
    if let (Some(_), Some((prefix, _))) = (path.module, found) {
        return format!("unknown name `{path}`; did you mean `{prefix}{}`?", bare.name);
    }
    let constants = ["pi", "e", "tau", "inf", "nan"];
    let all = python_functions::FUNCTIONS
        .iter()
        .chain(math_functions::FUNCTIONS)
        .chain(functions::all_of_numpy());
    let names = all.map(|function| function.name).chain(constants);
    match tool::nearest_name(&path.name, names) {
        Some(near) => format!("unknown name `{path}`; did you mean `{near}`?"),
        None => format!("unknown name `{path}`; {known}"),
    }
}
