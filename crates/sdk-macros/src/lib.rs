//! The `#[tool]` attribute of the crate `sdk`: turns a function into a constructor of a tool.
//!
//! The expansion uses only the public API of `sdk::Tool`: there is no global registry, and
//! compiling a tool in does not register it.

mod expand;
mod parse;

use proc_macro::TokenStream;

/// Turns a function into a constructor of the [`sdk::Tool`] that runs it, without parameters.
///
/// `#[tool(name = "…", description = "…", metadata = …, input_spec = …)]`; all are optional. The
/// defaults are the function's name and its doc comment. `metadata` and `input_spec` are
/// expressions of type `serde_json::Value`.
///
/// - Parameters are the fields of the input; their types define the schema. A field of type
///   `Option<…>` may be absent.
/// - A single parameter named `input` is the input itself. If its type is `Bytes`, it is passed
///   unparsed, and the result is `Bytes`: the cluster tools' form.
/// - A parameter of type `Call` is the call.
/// - The function may be `async`, and returns a value or a `Result`.
///
/// [`sdk::Tool`]: https://docs.rs/sdk
#[proc_macro_attribute]
pub fn tool(arguments: TokenStream, item: TokenStream) -> TokenStream {
    let written = parse::ToolFunction::parse_tool(arguments.into(), item.into())
        .map(|asked| expand::expand_tool(&asked));
    written.unwrap_or_else(|error| error.to_compile_error()).into()
}
