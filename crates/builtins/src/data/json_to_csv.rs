//! `json_to_csv`: converts JSON objects to the rows of a CSV text (RFC 4180).

use std::collections::BTreeSet;

use csv::{Terminator, WriterBuilder};
use serde_json::Value;
use tool::{CallArguments, Json};

use super::csv_to_json::delimiter_byte;
use tool_manifest::ManifestRegistry;
use tool_manifest::{BuiltinTool, ToolFunction};

pub(crate) fn build_tool(registry: &ManifestRegistry) -> Option<BuiltinTool> {
    Some(registry.find_tool("json_to_csv")?.with_blocking(JsonToCsv))
}

#[derive(Debug)]
struct JsonToCsv;

impl ToolFunction for JsonToCsv {
    fn compute_output(&self, args: &CallArguments) -> Result<Json, String> {
        let args = args.as_value();
        let rows = args.get("data").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
        let delimiter = args.get("delimiter").and_then(Value::as_str).unwrap_or(",");
        let columns = args.get("columns").and_then(Value::as_array);
        let columns = columns.map(|all| all.iter().filter_map(Value::as_str).collect());
        convert_rows(rows, columns, delimiter_byte(delimiter)?).map(|text| Json::encode(&text))
    }
}

fn convert_rows(
    rows: &[Value],
    columns: Option<Vec<&str>>,
    delimiter: u8,
) -> Result<String, String> {
    let objects = rows.iter().enumerate().map(|(at, row)| {
        row.as_object().ok_or_else(|| {
            format!(
                "data: row {at} is of type {}; each row must be an object",
                Json::encode(row).kind()
            )
        })
    });
    let objects = objects.collect::<Result<Vec<_>, _>>()?;
    if objects.is_empty() && columns.is_none() {
        return Ok(String::new());
    }
    let columns = columns.unwrap_or_else(|| {
        let keys = objects.iter().flat_map(|row| row.keys()).map(String::as_str);
        keys.collect::<BTreeSet<_>>().into_iter().collect()
    });
    let mut writer = WriterBuilder::new()
        .delimiter(delimiter)
        .terminator(Terminator::CRLF)
        .from_writer(Vec::new());
    let fault = |error: csv::Error| format!("data: {error}");
    writer.write_record(&columns).map_err(fault)?;
    for row in objects {
        let cells =
            columns.iter().map(|column| row.get(*column).map(cell_text).unwrap_or_default());
        writer.write_record(cells).map_err(fault)?;
    }
    let bytes = writer.into_inner().map_err(|error| format!("data: {error}"))?;
    String::from_utf8(bytes).map_err(|error| format!("data: {error}"))
}

/// Formats a cell: text unchanged, null as empty, arrays and objects as JSON.
fn cell_text(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::convert_rows;

    fn csv(data: &Value, columns: Option<Vec<&str>>) -> Result<String, String> {
        convert_rows(data.as_array().unwrap(), columns, b',')
    }

    #[test]
    fn keys_become_columns() {
        let data = json!([{"b": 1, "a": "x, y"}, {"c": null, "a": true}, {"b": [1, {"k": "v"}]}]);
        let all = "a,b,c\r\n\"x, y\",1,\r\ntrue,,\r\n,\"[1,{\"\"k\"\":\"\"v\"\"}]\",\r\n";
        assert_eq!(csv(&data, None).unwrap(), all);
        assert_eq!(
            csv(&data, Some(vec!["b", "z"])).unwrap(),
            "b,z\r\n1,\r\n,\r\n\"[1,{\"\"k\"\":\"\"v\"\"}]\",\r\n"
        );
    }

    #[test]
    fn nothing_is_no_text_and_what_is_no_row_is_told() {
        assert_eq!(csv(&json!([]), None).unwrap(), "");
        assert_eq!(csv(&json!([]), Some(vec!["a"])).unwrap(), "a\r\n");
        let told = csv(&json!([{}, "x"]), None).unwrap_err();
        assert_eq!(told, "data: row 1 is of type string; each row must be an object");
    }
}
