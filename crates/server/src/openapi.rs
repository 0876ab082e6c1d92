//! Generator of the OpenAPI 3.1 document from the route table and the Rust types.

use schemars::generate::SchemaSettings;
use serde_json::{Map, Value, json};

use crate::route_table::{authenticated_routes, public_routes};
use server_core::error::ApiError;
use server_core::route::{ApiRoute, QueryParam, schema_of};

/// Generates the OpenAPI document of all routes.
pub fn openapi_document() -> Value {
    let settings = SchemaSettings::draft2020_12()
        .with(|settings| settings.definitions_path = "/components/schemas".into());
    let mut generator = settings.into_generator();
    let fault = error_response(schema_of::<ApiError>(&mut generator).as_value());
    let mut paths = Map::new();
    for route in public_routes().into_iter().chain(authenticated_routes()) {
        let operation = describe_operation(&route, &mut generator);
        let path = paths.entry(route.path).or_insert_with(|| json!({}));
        if let Some(path) = path.as_object_mut() {
            path.insert(route.method.to_owned(), operation);
        }
    }
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Toolkeep",
            "version": env!("CARGO_PKG_VERSION"),
            "description": "Lists and calls the tools that an agent may use, and records every call.",
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "paths": paths,
        "components": {
            "responses": {"fault": fault},
            "schemas": generator.take_definitions(true),
            "securitySchemes": {"key": {"type": "http", "scheme": "bearer"}},
        },
    })
}

fn describe_operation(route: &ApiRoute, generator: &mut schemars::SchemaGenerator) -> Value {
    let mut parameters: Vec<Value> = route.query.iter().map(query_parameter).collect();
    parameters.extend(path_parameters(route.path));
    let mut reply = json!({"description": "done"});
    if let Some(schema) = route.reply {
        reply = with_content("done", schema(generator).as_value());
    }
    let mut operation = json!({
        "summary": route.summary,
        "parameters": parameters,
        "responses": {"200": reply, "default": {"$ref": "#/components/responses/fault"}},
    });
    let fields = operation.as_object_mut();
    if let Some(fields) = fields {
        if let Some(body) = route.body {
            let body = with_content("the request", body(generator).as_value());
            fields.insert("requestBody".to_owned(), body);
        }
        if route.requires_key {
            fields.insert("security".to_owned(), json!([{"key": []}]));
        }
    }
    operation
}

/// Describes the error response of every operation, including 405 for a wrong method.
fn error_response(schema: &Value) -> Value {
    let header = |what: &str| json!({"description": what, "schema": {"type": "string"}});
    let mut fault = with_content("error", schema);
    if let Some(fields) = fault.as_object_mut() {
        let headers = json!({
            "Allow": header("for 405: the allowed methods"),
            "Retry-After": header("for 429 and 503: seconds to wait before a retry"),
            "WWW-Authenticate": header("for 401: how to authenticate"),
        });
        fields.insert("headers".to_owned(), headers);
    }
    fault
}

fn with_content(description: &str, schema: &Value) -> Value {
    json!({"description": description, "content": {"application/json": {"schema": schema}}})
}

fn query_parameter(param: &QueryParam) -> Value {
    json!({
        "name": param.name, "in": "query", "description": param.description,
        "required": false, "schema": {"type": param.schema_type},
    })
}

fn path_parameters(path: &str) -> impl Iterator<Item = Value> + '_ {
    let named = path.split('/').filter_map(|part| part.strip_prefix('{')?.strip_suffix('}'));
    named.map(
        |name| json!({"name": name, "in": "path", "required": true, "schema": {"type": "string"}}),
    )
}
