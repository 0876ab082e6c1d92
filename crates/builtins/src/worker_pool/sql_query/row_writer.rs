//! Writes query rows as JSON while they are read, within a limit of rows and bytes.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rusqlite::types::ValueRef;
use rusqlite::{Connection, Row};

use super::error_message;

/// Largest number of rows in a result.
const MAX_ROWS: usize = 10_000;
/// Largest size of a result, in bytes.
const MAX_RESULT_BYTES: usize = 8 << 20;

/// Runs the query and writes a JSON array of objects.
pub(super) fn write_rows(connection: &Connection, sql: &str) -> Result<Vec<u8>, String> {
    let mut statement = connection.prepare(sql).map_err(|error| error_message(&error))?;
    let names = unique_names(statement.column_names());
    if names.is_empty() {
        return Err("query: it returns no rows; use a SELECT".to_owned());
    }
    let keys: Vec<String> = names.iter().map(|name| serde_json::json!(name).to_string()).collect();
    let mut rows = statement.query([]).map_err(|error| error_message(&error))?;
    let (mut out, mut count) = (vec![b'['], 0);
    while let Some(row) = rows.next().map_err(|error| error_message(&error))? {
        if count == MAX_ROWS {
            return Err(format!(
                "query: it returns more than {MAX_ROWS} rows; add a LIMIT, or count and group"
            ));
        }
        if count > 0 {
            out.push(b',');
        }
        count += 1;
        write_row(&mut out, row, &keys).map_err(|error| error_message(&error))?;
        if out.len() > MAX_RESULT_BYTES {
            return Err(format!(
                "query: it returns more than {MAX_RESULT_BYTES} bytes; select \
                less"
            ));
        }
    }
    out.push(b']');
    Ok(out)
}

/// Makes column names unique: a repeated name gets a number, because object keys must differ.
fn unique_names<'a>(columns: impl Iterator<Item = &'a str>) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for column in columns {
        let mut name = column.to_owned();
        let mut number = 2;
        while names.contains(&name) {
            name = format!("{column}_{number}");
            number += 1;
        }
        names.push(name);
    }
    names
}

fn write_row(out: &mut Vec<u8>, row: &Row<'_>, keys: &[String]) -> rusqlite::Result<()> {
    for (place, key) in keys.iter().enumerate() {
        out.push(if place == 0 { b'{' } else { b',' });
        out.extend_from_slice(key.as_bytes());
        out.push(b':');
        let text = match row.get_ref(place)? {
            ValueRef::Null => "null".to_owned(),
            ValueRef::Integer(whole) => whole.to_string(),
            ValueRef::Real(real) => serde_json::json!(real).to_string(),
            ValueRef::Text(bytes) => serde_json::json!(String::from_utf8_lossy(bytes)).to_string(),
            ValueRef::Blob(bytes) => serde_json::json!(STANDARD.encode(bytes)).to_string(),
        };
        out.extend_from_slice(text.as_bytes());
    }
    out.push(b'}');
    Ok(())
}
