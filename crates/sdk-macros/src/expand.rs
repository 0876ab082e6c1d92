//! The expansion of a parsed function into a tool constructor.

use proc_macro2::TokenStream;
use quote::quote;
use syn::Ident;

use crate::parse::{InputField, InputKind, ParameterKind, ToolFunction, call_site};

pub(crate) fn expand_tool(parsed: &ToolFunction) -> TokenStream {
    let ToolFunction { function, description, .. } = parsed;
    let (visible, ident) = (&function.vis, &function.sig.ident);
    let mut inner = function.clone();
    inner.sig.ident = Ident::new("run", ident.span());
    inner.vis = syn::Visibility::Inherited;
    // Attributes of a field are not valid on a parameter.
    for argument in &mut inner.sig.inputs {
        if let syn::FnArg::Typed(argument) = argument {
            argument.attrs.clear();
        }
    }
    let attributes = std::mem::take(&mut inner.attrs);
    let comments = attributes.iter().filter(|attribute| attribute.path().is_ident("doc"));
    let others = attributes.iter().filter(|attribute| !attribute.path().is_ident("doc"));
    let ToolConstructor { items, tool } = expand_constructor(parsed);
    let metadata = parsed.metadata.iter().map(|metadata| quote! { .metadata(#metadata) });
    let spec = parsed.input_spec.iter().map(|spec| quote! { .input_spec(#spec) });
    quote! {
        #(#comments)*
        #visible fn #ident() -> ::sdk::Tool {
            #(#others)*
            #inner
            #items
            #tool.description(#description) #(#metadata)* #(#spec)*
        }
    }
}

/// Code that constructs a tool.
struct ToolConstructor {
    /// Items that the expression needs.
    items: TokenStream,
    /// Expression of the tool, without its description.
    tool: TokenStream,
}

fn expand_constructor(asked: &ToolFunction) -> ToolConstructor {
    let name = &asked.name;
    let passed = asked.parameters.iter().map(|passed| match passed {
        ParameterKind::Input => quote! { input },
        ParameterKind::Field(field) => quote! { input.#field },
        ParameterKind::Call => quote! { call },
    });
    let mut run = quote! { run(#(#passed),*) };
    if asked.function.sig.asyncness.is_some() {
        run = quote! { #run.await };
    }
    if !asked.returns_result {
        run = quote! { ::core::result::Result::<_, ::sdk::Failure>::Ok(#run) };
    }
    match &asked.input {
        InputKind::Bytes => ToolConstructor {
            items: TokenStream::new(),
            tool: quote! { ::sdk::Tool::bytes_with_call(#name, |input, call| async move {
                let _ = &call;
                #run
            }) },
        },
        InputKind::Single(ty) => ToolConstructor {
            items: TokenStream::new(),
            tool: quote! { ::sdk::Tool::with_call(#name, |input: #ty, call| async move {
                let _ = &call;
                #run
            }) },
        },
        InputKind::Fields(fields) => {
            let input = Ident::new("Input", call_site());
            let declared = fields.iter().map(|InputField { name, ty, attributes }| {
                quote! { #(#attributes)* #name: #ty }
            });
            ToolConstructor {
                items: quote! {
                    #[derive(::sdk::macros::serde::Deserialize, ::sdk::macros::schemars::JsonSchema)]
                    #[serde(crate = "::sdk::macros::serde")]
                    #[schemars(crate = "::sdk::macros::schemars")]
                    struct #input { #(#declared),* }
                },
                tool: quote! { ::sdk::Tool::with_call(#name, |input: #input, call| async move {
                    let _ = (&input, &call);
                    #run
                }) },
            }
        }
    }
}
