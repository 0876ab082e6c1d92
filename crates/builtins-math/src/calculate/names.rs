//! Name resolution: the module of a name, and suggestions for an unknown one.

use std::fmt;

use ruff_python_ast::Expr;

use super::functions::{self, CalculateFunction};
use super::{math_functions, python_functions};

/// Module in which a name is looked up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Module {
    /// Python's own functions.
    Python,
    /// `math`.
    Math,
    /// `np`, `numpy`.
    Numpy,
}

/// Name with or without its module.
#[derive(Debug, Clone)]
pub(super) struct FunctionPath<'a> {
    /// `None` for a bare name.
    pub(super) module: Option<Module>,
    /// Function name, such as `sqrt` or `linalg.norm`.
    pub(super) name: String,
    /// Module prefix as written.
    pub(super) prefix: &'a str,
}

impl fmt::Display for FunctionPath<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name: String = self.name.chars().take(32).collect();
        if self.prefix.is_empty() {
            write!(f, "{name}")
        } else {
            write!(f, "{}.{name}", self.prefix)
        }
    }
}

/// Parses `sqrt`, `np.sqrt` or `np.linalg.norm`; `None` for other expressions.
pub(super) fn parse_path(expr: &Expr) -> Option<FunctionPath<'_>> {
    match expr {
        Expr::Name(name) => {
            Some(FunctionPath { module: None, name: name.id.as_str().to_owned(), prefix: "" })
        }
        Expr::Attribute(attribute) => {
            let own = attribute.attr.as_str();
            match &*attribute.value {
                Expr::Name(base) => {
                    let prefix = base.id.as_str();
                    let module = named_module(prefix)?;
                    Some(FunctionPath { module: Some(module), name: own.to_owned(), prefix })
                }
                Expr::Attribute(inner) => {
                    let Expr::Name(base) = &*inner.value else { return None };
                    let prefix = base.id.as_str();
                    let module = named_module(prefix)?;
                    let name = format!("{}.{own}", inner.attr.as_str());
                    Some(FunctionPath { module: Some(module), name, prefix })
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

/// Returns the value of a named constant.
pub(super) fn constant_value(path: &FunctionPath<'_>) -> Option<f64> {
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

/// Error message for a name without a value.
pub(super) fn unknown_value(path: &FunctionPath<'_>) -> String {
    let modules = [Module::Python, Module::Math, Module::Numpy];
    let is_function = match path.module {
        Some(module) => functions::find_function(module, &path.name).is_some(),
        None => {
            modules.iter().any(|module| functions::find_function(*module, &path.name).is_some())
        }
    };
    if is_function {
        return format!("`{path}` is a function; call it with its values in parentheses");
    }
    unknown_message(path, "the constants are pi, e, tau, inf, nan, True, False and None")
}

/// Error message for a call of an unknown function.
pub(super) fn unknown_function(path: &FunctionPath<'_>) -> String {
    let names = |functions: &mut dyn Iterator<Item = &CalculateFunction>| {
        let mut names: Vec<_> = functions.map(|function| function.name).collect();
        names.sort_unstable();
        names.join(", ")
    };
    let known = match path.module {
        Some(Module::Math) => names(&mut math_functions::FUNCTIONS.iter()),
        Some(Module::Numpy) => names(&mut functions::numpy_functions()),
        _ => format!(
            "{}; and those of math. and np., such as sqrt, median and clip",
            names(&mut python_functions::FUNCTIONS.iter())
        ),
    };
    unknown_message(path, &format!("there are {known}"))
}

fn unknown_message(path: &FunctionPath<'_>, known: &str) -> String {
    let bare = FunctionPath { module: None, prefix: "", name: path.name.clone() };
    let elsewhere = [("math.", Module::Math), ("np.", Module::Numpy)];
    let found = elsewhere
        .iter()
        .find(|(_, module)| functions::find_function(*module, &bare.name).is_some());
    if let (Some(_), Some((prefix, _))) = (path.module, found) {
        return format!("unknown name `{path}`; did you mean `{prefix}{}`?", bare.name);
    }
    let constants = ["pi", "e", "tau", "inf", "nan"];
    let all = python_functions::FUNCTIONS
        .iter()
        .chain(math_functions::FUNCTIONS)
        .chain(functions::numpy_functions());
    let names = all.map(|function| function.name).chain(constants);
    match tool::find_nearest_name(&path.name, names) {
        Some(near) => format!("unknown name `{path}`; did you mean `{near}`?"),
        None => format!("unknown name `{path}`; {known}"),
    }
}
