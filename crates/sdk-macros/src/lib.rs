//! The `#[tool]` attribute of the crate `sdk`: turns a function into a constructor of a tool.
//!
//! Only writes what a person would write with `sdk::Tool`: there is no registry behind it, and nothing
//! is registered by being compiled in.

mod read;
mod write;

use proc_macro::TokenStream;

/// Makes a function without parameters of a function: it answers the [`sdk::Tool`] that runs it.
///
/// `#[tool(name = "…", description = "…", metadata = …, input_spec = …)]`; all may be left out. The name
/// is the function's then, and the description its comment. `metadata` and `input_spec` are expressions
/// of type `serde_json::Value`.
///
/// - Parameters are the fields of the input; their schema is made of their types. One of type
///   `Option<…>` may be absent.
/// - One parameter that is called `input` is the input itself. Of type `Bytes` it is unread, and the
///   answer is `Bytes`: spec 4's form.
/// - A parameter of type `Call` is the call.
/// - The function may be `async`, and answers a value or a `Result`.
///
/// [`sdk::Tool`]: https://docs.rs/sdk
#[proc_macro_attribute]
pub fn tool(arguments: TokenStream, item: TokenStream) -> TokenStream {
    let written = read::Asked::read(arguments.into(), item.into()).map(|asked| write::tool(&asked));
    written.unwrap_or_else(|error| error.to_compile_error()).into()
}
