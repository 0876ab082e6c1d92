//! The parser of the `#[tool]` attribute and the function it annotates.

use proc_macro2::{Span, TokenStream};
use syn::meta::ParseNestedMeta;
use syn::parse::{Parse, Parser as _};
use syn::spanned::Spanned as _;
use syn::{
    Attribute, Error, Expr, ExprLit, FnArg, Ident, ItemFn, Lit, LitStr, Meta, Pat, ReturnType, Type,
};

/// Parsed function and arguments of the `#[tool]` attribute.
pub(crate) struct ToolFunction {
    pub(crate) function: ItemFn,
    pub(crate) name: LitStr,
    pub(crate) description: String,
    pub(crate) metadata: Option<Expr>,
    pub(crate) input_spec: Option<Expr>,
    pub(crate) input: InputKind,
    /// Parameters of the function, in its own order.
    pub(crate) parameters: Vec<ParameterKind>,
    /// Whether it returns a `Result`.
    pub(crate) returns_result: bool,
}

/// Form of the tool's input.
pub(crate) enum InputKind {
    /// Bytes, passed unparsed.
    Bytes,
    /// One value.
    Single(Box<Type>),
    /// Fields, one for each parameter.
    Fields(Vec<InputField>),
}

/// Field of an input that is declared by parameters.
pub(crate) struct InputField {
    pub(crate) name: Ident,
    pub(crate) ty: Type,
    pub(crate) attributes: Vec<Attribute>,
}

/// Kind of a function parameter.
pub(crate) enum ParameterKind {
    Input,
    Field(Ident),
    Call,
}

impl ToolFunction {
    pub(crate) fn parse_tool(arguments: TokenStream, item: TokenStream) -> Result<Self, Error> {
        let function: ItemFn = syn::parse2(item)?;
        check_signature(&function)?;
        let (mut name, mut description) = (None::<LitStr>, None::<LitStr>);
        let (mut metadata, mut input_spec) = (None::<Expr>, None::<Expr>);
        syn::meta::parser(|meta| {
            if meta.path.is_ident("name") {
                set_once(&mut name, &meta)
            } else if meta.path.is_ident("description") {
                set_once(&mut description, &meta)
            } else if meta.path.is_ident("metadata") {
                set_once(&mut metadata, &meta)
            } else if meta.path.is_ident("input_spec") {
                set_once(&mut input_spec, &meta)
            } else {
                Err(meta.error("use `name`, `description`, `metadata` or `input_spec`"))
            }
        })
        .parse2(arguments)?;
        let name = name.unwrap_or_else(|| {
            LitStr::new(&function.sig.ident.to_string(), function.sig.ident.span())
        });
        check_tool_name(&name)?;
        let description = description.map_or_else(|| doc_comment(&function.attrs), |it| it.value());
        let (input, passed) = parse_parameters(&function)?;
        let fails = returns_result(&function.sig.output);
        Ok(Self {
            function,
            name,
            description,
            metadata,
            input_spec,
            input,
            parameters: passed,
            returns_result: fails,
        })
    }
}

/// Parses the value of an argument, which may be given once.
fn set_once<T: Parse>(slot: &mut Option<T>, meta: &ParseNestedMeta<'_>) -> Result<(), Error> {
    match slot.replace(meta.value()?.parse()?) {
        None => Ok(()),
        Some(_) => Err(meta.error("this is given twice")),
    }
}

/// Checks the tool name as every registry does.
fn check_tool_name(name: &LitStr) -> Result<(), Error> {
    let text = name.value();
    let known = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '-');
    if (1..=128).contains(&text.len()) && text.chars().all(known) {
        return Ok(());
    }
    Err(Error::new(name.span(), "a tool's name must be 1 to 128 letters, digits, `_`, `.` and `-`"))
}

fn check_signature(function: &ItemFn) -> Result<(), Error> {
    let sig = &function.sig;
    let odd = [
        (sig.unsafety.map(|it| it.span()), "an unsafe function"),
        (sig.abi.as_ref().map(syn::spanned::Spanned::span), "a function with a foreign ABI"),
        (sig.generics.params.first().map(syn::spanned::Spanned::span), "a generic function"),
        (
            sig.variadic.as_ref().map(syn::spanned::Spanned::span),
            "a function with variadic parameters",
        ),
    ];
    match odd.into_iter().find_map(|(span, what)| Some((span?, what))) {
        Some((span, what)) => Err(Error::new(span, format!("a tool cannot be {what}"))),
        None => Ok(()),
    }
}

/// Joins the doc comment of the function into one text.
fn doc_comment(attributes: &[Attribute]) -> String {
    let line = |attribute: &Attribute| match &attribute.meta {
        Meta::NameValue(pair) if pair.path.is_ident("doc") => match &pair.value {
            Expr::Lit(ExprLit { lit: Lit::Str(text), .. }) => Some(text.value().trim().to_owned()),
            _ => None,
        },
        _ => None,
    };
    let lines: Vec<_> = attributes.iter().filter_map(line).collect();
    lines.join("\n").trim().to_owned()
}

fn parse_parameters(function: &ItemFn) -> Result<(InputKind, Vec<ParameterKind>), Error> {
    let (mut fields, mut whole, mut passed) = (Vec::new(), None::<Type>, Vec::new());
    for argument in &function.sig.inputs {
        let FnArg::Typed(argument) = argument else {
            return Err(Error::new(argument.span(), "a tool cannot be a method"));
        };
        let Pat::Ident(pattern) = argument.pat.as_ref() else {
            return Err(Error::new(argument.pat.span(), "a parameter of a tool must have a name"));
        };
        let (name, ty) = (&pattern.ident, argument.ty.as_ref());
        if is_path_ending_with(ty, "Call") {
            passed.push(ParameterKind::Call);
        } else if name == "input" {
            whole = Some(ty.clone());
            passed.push(ParameterKind::Input);
        } else {
            fields.push(InputField {
                name: name.clone(),
                ty: ty.clone(),
                attributes: argument.attrs.clone(),
            });
            passed.push(ParameterKind::Field(name.clone()));
        }
    }
    match (whole, fields.first()) {
        (Some(_), Some(field)) => Err(Error::new(
            field.name.span(),
            "`input` is the whole input; rename it, or make it the only parameter",
        )),
        (Some(ty), None) if is_path_ending_with(&ty, "Bytes") => Ok((InputKind::Bytes, passed)),
        (Some(ty), None) => Ok((InputKind::Single(Box::new(ty)), passed)),
        (None, _) => Ok((InputKind::Fields(fields), passed)),
    }
}

fn returns_result(output: &ReturnType) -> bool {
    matches!(output, ReturnType::Type(_, ty) if is_path_ending_with(ty, "Result"))
}

/// Whether the path of a type ends in this name, with any generic arguments.
fn is_path_ending_with(ty: &Type, name: &str) -> bool {
    match ty {
        Type::Path(path) => path.path.segments.last().is_some_and(|last| last.ident == name),
        _ => false,
    }
}

/// Fallback span if no better one is known.
pub(crate) fn call_site() -> Span {
    Span::call_site()
}
