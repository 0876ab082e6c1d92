//! Converts registry records to MongoDB documents and back. A tool is stored as in the cluster
//! tools, with additional fields.

use bytes::Bytes;
use mongodb::bson::oid::ObjectId;
use mongodb::bson::{Bson, Document, doc};
use serde_json::Value;
use tool::node_registry::NodeTool;
use tool::{Json, JsonLimits, StoreError, Version, VersionedValue};

use super::bson_values::{from_bson_document, to_bson_document};
use nodes::{ToolRecord as Tool, tool_key};

pub(super) fn to_bson_integer(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

fn read_integer(document: &Document, key: &str) -> Result<u64, String> {
    let value = document.get_i64(key).ok().and_then(|value| u64::try_from(value).ok());
    value.ok_or_else(|| format!("it has no `{key}`"))
}

fn json_to_document(json: &Json) -> Result<Document, String> {
    match json.to_value() {
        Value::Object(members) => to_bson_document(members),
        _ => Err("it is not an object".to_owned()),
    }
}

/// Returns a tool as it will be read back: numbers may be written differently.
pub(super) fn normalize_tool(tool: NodeTool) -> Result<NodeTool, String> {
    let round_trip = |json: &Json, field: &str| {
        let with_field = |why| format!("`{field}`: {why}");
        let document = json_to_document(json).map_err(with_field)?;
        Ok::<_, String>(Json::encode(&from_bson_document(&document).map_err(with_field)?))
    };
    let (input_spec, metadata) =
        (round_trip(&tool.input_spec, "input_spec")?, round_trip(&tool.metadata, "metadata")?);
    Ok(NodeTool { input_spec, metadata, ..tool })
}

/// Converts the registry record of a tool to its document.
pub(super) fn encode_tool(bytes: &Bytes, version: Version) -> Result<Document, StoreError> {
    let invalid_record =
        |why: String| StoreError::Unavailable(format!("MongoDB cannot store this: {why}"));
    let json = Json::parse(bytes.clone(), JsonLimits::DOCUMENT)
        .map_err(|e| invalid_record(e.to_string()))?;
    let Tool { id, sequence, tool } = json.decode().map_err(|e| invalid_record(e.to_string()))?;
    Ok(doc! {
        "_id": ObjectId::parse_str(&id).map_err(|e| invalid_record(e.to_string()))?,
        "name": tool.name,
        "node_id": tool.node_id,
        "input_spec": json_to_document(&tool.input_spec).map_err(invalid_record)?,
        "metadata": json_to_document(&tool.metadata).map_err(invalid_record)?,
        "description": tool.description,
        "created": to_bson_integer(sequence),
        "version": to_bson_integer(version.0),
    })
}

/// Converts the document of a tool to its registry record.
pub(super) fn decode_tool(source: &Document) -> Result<VersionedValue, String> {
    let text = |key: &str| {
        source.get_str(key).map(str::to_owned).map_err(|_| format!("it has no string `{key}`"))
    };
    let part = |key: &str| match source.get(key) {
        Some(Bson::Document(document)) => Ok(Json::encode(&from_bson_document(document)?)),
        _ => Err(format!("it has no object `{key}`")),
    };
    let tool = NodeTool {
        name: text("name")?,
        node_id: text("node_id")?,
        input_spec: part("input_spec")?,
        metadata: part("metadata")?,
        description: text("description")?,
    };
    let id = source.get_object_id("_id").map_err(|_| "its `_id` has another type")?.to_hex();
    let (sequence, version) =
        (read_integer(source, "created")?, Version(read_integer(source, "version")?));
    let key = tool_key(&tool.node_id, &tool.name);
    let bytes = Json::encode(&Tool { id, sequence, tool }).bytes().clone();
    Ok(VersionedValue { key, version, bytes, is_removal: false })
}

pub(super) fn encode_record(key: &str, bytes: &Bytes, version: Version) -> Document {
    let text = String::from_utf8_lossy(bytes).into_owned();
    doc! { "_id": key, "text": text, "version": to_bson_integer(version.0) }
}

pub(super) fn decode_record(source: &Document) -> Option<VersionedValue> {
    let key = source.get_str("_id").ok()?.to_owned();
    let (text, version) =
        (source.get_str("text").ok()?, Version(read_integer(source, "version").ok()?));
    Some(VersionedValue {
        key,
        version,
        bytes: Bytes::copy_from_slice(text.as_bytes()),
        is_removal: false,
    })
}
