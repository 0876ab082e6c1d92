//! The expansion of a parsed function into a tool constructor.

use proc_macro2::TokenStream;
use quote::quote;
use syn::Ident;

use crate::read::{Asked, Input, Passed, here};

pub(crate) fn tool(asked: &Asked) -> TokenStream {
    let Asked { function, description, .. } = asked;
    let (visible, ident) = (&function.vis, &function.sig.ident);
    let mut inner = function.clone();
    inner.sig.ident = Ident::new("run", ident.span());
    inner.vis = syn::Visibility::Inherited;
    // What stands at a field is not for a parameter.
    for argument in &mut inner.sig.inputs {
        if let syn::FnArg::Typed(argument) = argument {
            argument.attrs.clear();
        }
    }
    let attributes = std::mem::take(&mut inner.attrs);
    let comments = attributes.iter().filter(|attribute| attribute.path().is_ident("doc"));
    let others = attributes.iter().filter(|attribute| !attribute.path().is_ident("doc"));
    let (declared, made) = made(asked);
    let metadata = asked.metadata.iter().map(|metadata| quote! { .metadata(#metadata) });
    let spec = asked.input_spec.iter().map(|spec| quote! { .input_spec(#spec) });
    quote! {
        #(#comments)*
        #visible fn #ident() -> ::sdk::Tool {
            #(#others)*
            #inner
            #declared
            #made.description(#description) #(#metadata)* #(#spec)*
        }
    }
}

/// What must stand before, and the tool without its description.
fn made(asked: &Asked) -> (TokenStream, TokenStream) {
    let name = &asked.name;
    let passed = asked.passed.iter().map(|passed| match passed {
        Passed::Input => quote! { input },
        Passed::Field(field) => quote! { input.#field },
        Passed::Call => quote! { call },
    });
    let mut run = quote! { run(#(#passed),*) };
    if asked.function.sig.asyncness.is_some() {
        run = quote! { #run.await };
    }
    if !asked.fails {
        run = quote! { ::core::result::Result::<_, ::sdk::Failure>::Ok(#run) };
    }
    match &asked.input {
        Input::Bytes => (
            TokenStream::new(),
            quote! { ::sdk::Tool::bytes_with_call(#name, |input, call| async move {
                let _ = &call;
                #run
            }) },
        ),
        Input::Whole(ty) => (
            TokenStream::new(),
            quote! { ::sdk::Tool::with_call(#name, |input: #ty, call| async move {
                let _ = &call;
                #run
            }) },
        ),
        Input::Fields(fields) => {
            let input = Ident::new("Input", here());
            let declared = fields.iter().map(|(name, ty, attributes)| {
                quote! { #(#attributes)* #name: #ty }
            });
            (
                quote! {
                    #[derive(::sdk::macros::serde::Deserialize, ::sdk::macros::schemars::JsonSchema)]
                    #[serde(crate = "::sdk::macros::serde")]
                    #[schemars(crate = "::sdk::macros::schemars")]
                    struct #input { #(#declared),* }
                },
                quote! { ::sdk::Tool::with_call(#name, |input: #input, call| async move {
                    let _ = (&input, &call);
                    #run
                }) },
            )
        }
    }
}
