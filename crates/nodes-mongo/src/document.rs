//! The documents: a tool as spec 4 has it, with what the registry needs beside it.

use bytes::Bytes;
use mongodb::bson::oid::ObjectId;
use mongodb::bson::{Bson, Document, doc};
use serde_json::Value;
use tool::node::NodeTool;
use tool::{Json, Limits, StoreError, Version, Versioned};

use super::value::{kept_object, read_object};
use nodes::{Document as Tool, tool_key};

pub(super) fn number(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

fn back(document: &Document, key: &str) -> Result<u64, String> {
    let value = document.get_i64(key).ok().and_then(|value| u64::try_from(value).ok());
    value.ok_or_else(|| format!("it has no `{key}`"))
}

fn object(json: &Json) -> Result<Document, String> {
    match json.value() {
        Value::Object(members) => kept_object(members),
        _ => Err("it is no object".to_owned()),
    }
}

/// A tool as it will be read again: numbers may be written otherwise then.
pub(super) fn as_kept(tool: NodeTool) -> Result<NodeTool, String> {
    let again = |json: &Json, field: &str| {
        let told = |why| format!("`{field}`: {why}");
        let document = object(json).map_err(told)?;
        Ok::<_, String>(Json::of(&read_object(&document).map_err(told)?))
    };
    let (input_spec, metadata) =
        (again(&tool.input_spec, "input_spec")?, again(&tool.metadata, "metadata")?);
    Ok(NodeTool { input_spec, metadata, ..tool })
}

/// A tool's document, of the registry's record.
pub(super) fn tool_document(bytes: &Bytes, version: Version) -> Result<Document, StoreError> {
    let unfit = |why: String| StoreError::Unavailable(format!("MongoDB cannot keep this: {why}"));
    let json = Json::check(bytes.clone(), Limits::DOCUMENT).map_err(|e| unfit(e.to_string()))?;
    let Tool { id, created, tool } = json.read().map_err(|e| unfit(e.to_string()))?;
    Ok(doc! {
        "_id": ObjectId::parse_str(&id).map_err(|e| unfit(e.to_string()))?,
        "name": tool.name,
        "node_id": tool.node_id,
        "input_spec": object(&tool.input_spec).map_err(unfit)?,
        "metadata": object(&tool.metadata).map_err(unfit)?,
        "description": tool.description,
        "created": number(created),
        "version": number(version.0),
    })
}

/// The registry's record, of a tool's document.
pub(super) fn tool_row(read: &Document) -> Result<Versioned, String> {
    let text = |key: &str| {
        read.get_str(key).map(str::to_owned).map_err(|_| format!("it has no text `{key}`"))
    };
    let part = |key: &str| match read.get(key) {
        Some(Bson::Document(document)) => Ok(Json::of(&read_object(document)?)),
        _ => Err(format!("it has no object `{key}`")),
    };
    let tool = NodeTool {
        name: text("name")?,
        node_id: text("node_id")?,
        input_spec: part("input_spec")?,
        metadata: part("metadata")?,
        description: text("description")?,
    };
    let id = read.get_object_id("_id").map_err(|_| "it has an id of another kind")?.to_hex();
    let (created, version) = (back(read, "created")?, Version(back(read, "version")?));
    let key = tool_key(&tool.node_id, &tool.name);
    let bytes = Json::of(&Tool { id, created, tool }).bytes().clone();
    Ok(Versioned { key, version, bytes, removed: false })
}

pub(super) fn record_document(key: &str, bytes: &Bytes, version: Version) -> Document {
    let text = String::from_utf8_lossy(bytes).into_owned();
    doc! { "_id": key, "text": text, "version": number(version.0) }
}

pub(super) fn record(read: &Document) -> Option<Versioned> {
    let key = read.get_str("_id").ok()?.to_owned();
    let (text, version) = (read.get_str("text").ok()?, Version(back(read, "version").ok()?));
    Some(Versioned { key, version, bytes: Bytes::copy_from_slice(text.as_bytes()), removed: false })
}
