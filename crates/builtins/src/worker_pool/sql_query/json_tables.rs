//! Streaming import of JSON rows into SQLite tables. Only one batch of rows is buffered before it
//! is inserted.
//!
//! Columns have no declared type, so that each value keeps its JSON type: 2 is a number, "2" is
//! text. Booleans become 1 and 0, arrays and objects become JSON text.

mod table_writer;

use std::borrow::Cow;
use std::fmt;

use rusqlite::types::{ToSqlOutput, Value as SqlValue};
use rusqlite::{Connection, ToSql};
use serde::Deserialize;
use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value};
use tool::display_text::truncate_and_escape_debug;

use super::error_message;
use table_writer::TableWriter;

/// Largest number of tables in a call.
const MAX_TABLES: usize = 100;
/// Longest name of a table or column, in bytes.
const MAX_NAME_BYTES: usize = 200;

/// Creates the tables and returns the query.
pub(super) fn import_tables(connection: &Connection, args: &[u8]) -> Result<String, String> {
    let args = std::str::from_utf8(args).map_err(|error| error.to_string())?;
    let mut reader = serde_json::Deserializer::from_str(args);
    let begun = connection.execute_batch("BEGIN");
    begun.map_err(|error| error_message(&error))?;
    let query = reader
        .deserialize_map(QueryArgsVisitor(connection))
        .map_err(|error| json_error_message(&error))?;
    connection.execute_batch("COMMIT").map_err(|error| error_message(&error))?;
    Ok(query)
}

/// Formats a JSON error without its position, because the caller did not write this text by hand.
fn json_error_message(error: &serde_json::Error) -> String {
    let text = error.to_string();
    text.split(" at line ").next().unwrap_or_default().replace('\n', " ")
}

fn sqlite_error<E: Error>(error: &rusqlite::Error) -> E {
    E::custom(error_message(error))
}

/// Visitor of the call's arguments.
struct QueryArgsVisitor<'c>(&'c Connection);

impl<'de> Visitor<'de> for QueryArgsVisitor<'_> {
    type Value = String;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object with `query`")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<String, A::Error> {
        let mut query = String::new();
        while let Some(ColumnKey(key)) = map.next_key()? {
            match &*key {
                "query" => query = map.next_value()?,
                "tables" => map.next_value_seed(TablesVisitor(self.0))?,
                _ => drop(map.next_value::<serde::de::IgnoredAny>()?),
            }
        }
        Ok(query)
    }
}

/// Visitor of `tables`: rows by table name.
struct TablesVisitor<'c>(&'c Connection);

impl<'de> DeserializeSeed<'de> for TablesVisitor<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<(), D::Error> {
        from.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for TablesVisitor<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("tables: expected an object of lists of rows")
    }

    fn visit_unit<E: Error>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let mut count = 0;
        while let Some(name) = map.next_key::<String>()? {
            count += 1;
            if count > MAX_TABLES {
                return Err(A::Error::custom(format!("tables: more than {MAX_TABLES} tables")));
            }
            map.next_value_seed(RowsVisitor {
                connection: self.0,
                name: quote_table_name(&name)?,
            })?;
        }
        Ok(())
    }
}

/// Validates a table name and quotes it for SQL.
fn quote_table_name<E: Error>(name: &str) -> Result<String, E> {
    let shown = truncate_and_escape_debug(name, 80);
    if name.is_empty() || name.len() > MAX_NAME_BYTES || name.contains('\0') {
        return Err(E::custom(format!("tables: `{shown}` is not a valid name")));
    }
    if name.to_ascii_lowercase().starts_with("sqlite_") {
        return Err(E::custom(format!("tables: the name `{shown}` is reserved by SQLite")));
    }
    Ok(format!("\"{}\"", name.replace('"', "\"\"")))
}

/// Visitor of the rows of one table.
struct RowsVisitor<'c> {
    connection: &'c Connection,
    name: String,
}

impl<'de> DeserializeSeed<'de> for RowsVisitor<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<(), D::Error> {
        from.deserialize_seq(self)
    }
}

impl<'de> Visitor<'de> for RowsVisitor<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "tables: {}: expected a list of rows", self.name)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut rows: A) -> Result<(), A::Error> {
        let mut table = TableWriter::new(self.connection, self.name);
        while rows.next_element_seed(RowVisitor(&mut table))?.is_some() {}
        let made = table.ensure_created().and_then(|()| table.flush());
        made.map_err(|error| sqlite_error(&error))
    }
}

/// Visitor of one row.
struct RowVisitor<'t, 'c, 'de>(&'t mut TableWriter<'c, 'de>);

impl<'de> DeserializeSeed<'de> for RowVisitor<'_, '_, 'de> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<(), D::Error> {
        from.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for RowVisitor<'_, '_, 'de> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "tables: {}: a row must be an object of its columns", self.0.name)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let table = self.0;
        while let Some(ColumnKey(name)) = map.next_key()? {
            if name.is_empty() || name.len() > MAX_NAME_BYTES || name.contains('\0') {
                let told = format!("tables: {}: a column has an invalid name", table.name);
                return Err(A::Error::custom(told));
            }
            let place = table.column_index(&name)?;
            let value = map.next_value_seed(ColumnValueSeed)?;
            table.current_row.push((place, value));
        }
        table.push_row().map_err(|error| sqlite_error(&error))
    }
}

/// A value of a row in SQLite's types.
enum ColumnValue<'de> {
    Null,
    Integer(i64),
    Real(f64),
    Text(Cow<'de, str>),
}

impl ToSql for ColumnValue<'_> {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(match self {
            Self::Null => ToSqlOutput::Owned(SqlValue::Null),
            Self::Integer(whole) => ToSqlOutput::Owned(SqlValue::Integer(*whole)),
            Self::Real(real) => ToSqlOutput::Owned(SqlValue::Real(*real)),
            Self::Text(text) => ToSqlOutput::from(&**text),
        })
    }
}

struct ColumnValueSeed;

impl<'de> DeserializeSeed<'de> for ColumnValueSeed {
    type Value = ColumnValue<'de>;

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<ColumnValue<'de>, D::Error> {
        from.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for ColumnValueSeed {
    type Value = ColumnValue<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_unit<E: Error>(self) -> Result<ColumnValue<'de>, E> {
        Ok(ColumnValue::Null)
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<ColumnValue<'de>, E> {
        Ok(ColumnValue::Integer(value.into()))
    }

    fn visit_i64<E: Error>(self, whole: i64) -> Result<ColumnValue<'de>, E> {
        Ok(ColumnValue::Integer(whole))
    }

    fn visit_u64<E: Error>(self, whole: u64) -> Result<ColumnValue<'de>, E> {
        #[expect(clippy::cast_precision_loss, reason = "SQLite has no larger whole numbers")]
        Ok(i64::try_from(whole).map_or(ColumnValue::Real(whole as f64), ColumnValue::Integer))
    }

    fn visit_f64<E: Error>(self, real: f64) -> Result<ColumnValue<'de>, E> {
        Ok(ColumnValue::Real(real))
    }

    fn visit_borrowed_str<E: Error>(self, text: &'de str) -> Result<ColumnValue<'de>, E> {
        Ok(ColumnValue::Text(Cow::Borrowed(text)))
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<ColumnValue<'de>, E> {
        Ok(ColumnValue::Text(Cow::Owned(text.to_owned())))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<ColumnValue<'de>, A::Error> {
        let mut all = Vec::new();
        while let Some(item) = items.next_element::<Value>()? {
            all.push(item);
        }
        Ok(ColumnValue::Text(Cow::Owned(Value::Array(all).to_string())))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<ColumnValue<'de>, A::Error> {
        let mut all = Map::new();
        while let Some((key, value)) = fields.next_entry::<String, Value>()? {
            all.insert(key, value);
        }
        Ok(ColumnValue::Text(Cow::Owned(Value::Object(all).to_string())))
    }
}

/// A key that borrows from the input unless it contains escapes.
struct ColumnKey<'de>(Cow<'de, str>);

impl<'de> Deserialize<'de> for ColumnKey<'de> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct ColumnKeyVisitor;
        impl<'de> Visitor<'de> for ColumnKeyVisitor {
            type Value = ColumnKey<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a name")
            }

            fn visit_borrowed_str<E: Error>(self, text: &'de str) -> Result<ColumnKey<'de>, E> {
                Ok(ColumnKey(Cow::Borrowed(text)))
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<ColumnKey<'de>, E> {
                Ok(ColumnKey(Cow::Owned(text.to_owned())))
            }
        }
        from.deserialize_str(ColumnKeyVisitor)
    }
}
