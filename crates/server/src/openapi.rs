//! The OpenAPI 3.1 document, made from the route table and the types.

use schemars::generate::SchemaSettings;
use serde_json::{Map, Value, json};

use crate::routes::{keyed, open};
use server_core::error::ApiError;
use server_core::route::{Param, Route, schema};

/// The document.
pub fn document() -> Value {
    let settings = SchemaSettings::draft2020_12()
        .with(|settings| settings.definitions_path = "/components/schemas".into());
    let mut generator = settings.into_generator();
    let fault = fault(schema::<ApiError>(&mut generator).as_value());
    let mut paths = Map::new();
    for route in open().into_iter().chain(keyed()) {
        let operation = operation(&route, &mut generator);
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
            "description": "Tools that an agent may use: listed, called, on record.",
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

fn operation(route: &Route, generator: &mut schemars::SchemaGenerator) -> Value {
    let mut parameters: Vec<Value> = route.query.iter().map(in_query).collect();
    parameters.extend(in_path(route.path));
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
        if route.keyed {
            fields.insert("security".to_owned(), json!([{"key": []}]));
        }
    }
    operation
}

/// What stands for every answer that is none, another method at a known path among them.
fn fault(schema: &Value) -> Value {
    let header = |what: &str| json!({"description": what, "schema": {"type": "string"}});
    let mut fault = with_content("not done", schema);
    if let Some(fields) = fault.as_object_mut() {
        let headers = json!({
            "Allow": header("of 405: the methods that the path has"),
            "Retry-After": header("of 429 and 503, where waiting helps: seconds"),
            "WWW-Authenticate": header("of 401: how to show a key"),
        });
        fields.insert("headers".to_owned(), headers);
    }
    fault
}

fn with_content(description: &str, schema: &Value) -> Value {
    json!({"description": description, "content": {"application/json": {"schema": schema}}})
}

fn in_query(param: &Param) -> Value {
    json!({
        "name": param.name, "in": "query", "description": param.what,
        "required": false, "schema": {"type": param.kind},
    })
}

fn in_path(path: &str) -> impl Iterator<Item = Value> + '_ {
    let named = path.split('/').filter_map(|part| part.strip_prefix('{')?.strip_suffix('}'));
    named.map(
        |name| json!({"name": name, "in": "path", "required": true, "schema": {"type": "string"}}),
    )
}
