//! Rules by which providers reject a schema, written apart from the tables of the crate.

use formats::ProviderFormat;
use serde_json::{Map, Value};

/// The declaration in what was rendered.
pub(crate) fn declaration(format: ProviderFormat, json: &Value) -> &Value {
    match format {
        ProviderFormat::OpenaiChat | ProviderFormat::OpenaiChatStrict | ProviderFormat::Ollama => {
            &json["function"]
        }
        ProviderFormat::GeminiPerTool => &json["functionDeclarations"][0],
        _ => json,
    }
}

/// The schema in what was rendered.
pub(crate) fn schema(format: ProviderFormat, json: &Value) -> Option<&Value> {
    let members = ["parameters", "parametersJsonSchema", "input_schema", "inputSchema"];
    members.into_iter().find_map(|member| declaration(format, json).get(member))
}

/// Fails where `format` would refuse the tool.
pub(crate) fn accepts(format: ProviderFormat, json: &Value) -> Result<(), String> {
    let declaration = declaration(format, json);
    let name = declaration["name"].as_str().ok_or("no name")?;
    let good = |b: u8| b.is_ascii_alphanumeric() || b == b'_' || b == b'-';
    if format != ProviderFormat::Mcp
        && !(name.len() <= 64 && !name.is_empty() && name.bytes().all(good))
    {
        return Err(format!("the name `{name}`"));
    }
    let Some(schema) = schema(format, json) else {
        let none = matches!(format, ProviderFormat::Gemini | ProviderFormat::GeminiPerTool);
        return none.then_some(()).ok_or_else(|| "no schema".to_owned());
    };
    if format == ProviderFormat::Mcp {
        return Ok(());
    }
    let root = schema.as_object().ok_or("the schema is no object")?;
    if root.get("type").is_none_or(|kind| kind != "object") {
        return Err("the root is no object".to_owned());
    }
    let words = ["anyOf", "oneOf", "allOf", "not", "enum", "const"];
    match words.iter().find(|word| root.contains_key(**word)) {
        Some(word) => Err(format!("`{word}` at the root")),
        None => inside(format, declaration, schema),
    }
}

fn inside(format: ProviderFormat, declaration: &Value, schema: &Value) -> Result<(), String> {
    let root = schema.as_object().ok_or("the schema is no object")?;
    match format {
        ProviderFormat::OpenaiChatStrict | ProviderFormat::OpenaiResponsesStrict
            if declaration["strict"] == true =>
        {
            each(schema, &mut strict)
        }
        ProviderFormat::OpenaiChat
        | ProviderFormat::OpenaiChatStrict
        | ProviderFormat::OpenaiResponses
        | ProviderFormat::OpenaiResponsesStrict => {
            if !root.contains_key("properties") {
                return Err("no properties".to_owned());
            }
            if declaration.get("strict").is_some_and(|strict| strict != false) {
                return Err("strict".to_owned());
            }
            each(schema, &mut |map| {
                let list = map.get("type").is_some_and(|kind| kind == "array");
                (!list || map.contains_key("items")).then_some(()).ok_or("a list without items")
            })
        }
        ProviderFormat::Anthropic => {
            let good = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'.' | b'-');
            let fits = |name: &String| (1..=64).contains(&name.len()) && name.bytes().all(good);
            let names = root.get("properties").and_then(Value::as_object);
            let bad = names.and_then(|names| names.keys().find(|name| !fits(name)));
            bad.map_or(Ok(()), |name| Err(format!("the argument `{name}`")))
        }
        ProviderFormat::Gemini | ProviderFormat::GeminiPerTool
            if declaration.get("parameters").is_some() =>
        {
            each(schema, &mut gemini)
        }
        ProviderFormat::Gemini | ProviderFormat::GeminiPerTool => each(schema, &mut |map| {
            only(
                map,
                "type format title description enum items prefixItems minItems maxItems minimum maximum anyOf properties additionalProperties required propertyOrdering",
            )
        }),
        ProviderFormat::Ollama => each(schema, &mut |map| {
            only(map, "type items required properties anyOf description enum")
        }),
        ProviderFormat::Mcp => Ok(()),
    }
}

fn only(map: &Map<String, Value>, words: &str) -> Result<(), &'static str> {
    let known = |keyword: &String| words.split(' ').any(|word| word == keyword);
    map.keys().all(known).then_some(()).ok_or("a keyword that is not known")
}

/// OpenAI's strict schemas.
fn strict(map: &Map<String, Value>) -> Result<(), &'static str> {
    only(
        map,
        "type title description enum properties required additionalProperties items anyOf pattern format minimum maximum exclusiveMinimum exclusiveMaximum multipleOf minItems maxItems",
    )?;
    if !map.contains_key("type") && !map.contains_key("anyOf") {
        return Err("no type");
    }
    let is = |kind: &str| {
        map.get("type").is_some_and(|found| {
            *found == kind || found.as_array().is_some_and(|all| all.contains(&kind.into()))
        })
    };
    if is("array") && !map.contains_key("items") {
        return Err("a list without items");
    }
    if !is("object") {
        return Ok(());
    }
    let properties: Vec<_> = map["properties"].as_object().ok_or("no properties")?.keys().collect();
    let required = map["required"].as_array().ok_or("nothing required")?;
    let all = required.len() == properties.len()
        && properties.iter().all(|name| required.contains(&name.as_str().into()));
    if map.get("additionalProperties") != Some(&Value::Bool(false)) || !all {
        return Err("an object that is not closed");
    }
    Ok(())
}

/// Gemini's own Schema.
fn gemini(map: &Map<String, Value>) -> Result<(), &'static str> {
    only(
        map,
        "type format title description nullable enum items minItems maxItems properties required minProperties maxProperties minLength maxLength pattern example anyOf propertyOrdering default minimum maximum",
    )?;
    let Some(kind) = map.get("type") else {
        let alone = map.len() == 1 && map.get("anyOf").is_some_and(Value::is_array);
        return alone.then_some(()).ok_or("neither a type nor alternatives alone");
    };
    let kind = kind.as_str().ok_or("a type that is no word")?;
    if !["string", "number", "integer", "boolean", "array", "object"].contains(&kind) {
        return Err("an unknown type");
    }
    if map.contains_key("anyOf") {
        return Err("alternatives beside a type");
    }
    let texts = |list: &Value| {
        list.as_array()
            .is_some_and(|list| list.iter().all(|v| v.as_str().is_some_and(|t| !t.is_empty())))
    };
    if map.get("enum").is_some_and(|list| kind != "string" || !texts(list)) {
        return Err("an enum that is not of texts");
    }
    if kind == "array" && !map.contains_key("items") {
        return Err("a list without items");
    }
    if kind == "object"
        && map.get("properties").and_then(Value::as_object).is_none_or(Map::is_empty)
    {
        return Err("an object without properties");
    }
    if kind == "string" && map.get("format").is_some_and(|f| f != "enum" && f != "date-time") {
        return Err("a format of texts that is not known");
    }
    let properties = map.get("properties").and_then(Value::as_object);
    let there = |name: &Value| {
        name.as_str().is_some_and(|name| properties.is_some_and(|p| p.contains_key(name)))
    };
    if map.get("required").and_then(Value::as_array).is_some_and(|list| !list.iter().all(there)) {
        return Err("something required that is not there");
    }
    let good = |b: u8| b.is_ascii_alphanumeric() || b == b'_';
    let fits = |name: &String| {
        (1..=64).contains(&name.len())
            && name.bytes().all(good)
            && !name.as_bytes()[0].is_ascii_digit()
    };
    if properties.is_some_and(|all| !all.keys().all(fits)) {
        return Err("a name of a property");
    }
    Ok(())
}

/// Looks at every schema in a schema.
fn each(
    schema: &Value,
    look: &mut impl FnMut(&Map<String, Value>) -> Result<(), &'static str>,
) -> Result<(), String> {
    let Value::Object(map) = schema else { return Ok(()) };
    look(map).map_err(|what| format!("{what}: {schema}"))?;
    for (keyword, value) in map {
        match (keyword.as_str(), value) {
            ("properties" | "$defs" | "definitions" | "patternProperties", Value::Object(all)) => {
                all.values().try_for_each(|schema| each(schema, look))?;
            }
            ("anyOf" | "oneOf" | "allOf" | "prefixItems", Value::Array(all)) => {
                all.iter().try_for_each(|schema| each(schema, look))?;
            }
            (
                "items" | "additionalProperties" | "not" | "if" | "then" | "else" | "contains",
                value,
            ) => {
                each(value, look)?;
            }
            _ => {}
        }
    }
    Ok(())
}
