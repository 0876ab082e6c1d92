//! Streaming import of JSON rows into SQLite tables. Only one batch of rows is buffered before it
//! is inserted.
//!
//! Columns have no declared type, so that each value keeps its JSON type: 2 is a number, "2" is
//! text. Booleans become 1 and 0, arrays and objects become JSON text.

mod table;

use std::borrow::Cow;
use std::fmt;

use rusqlite::types::{ToSqlOutput, Value as SqlValue};
use rusqlite::{Connection, ToSql};
use serde::Deserialize;
use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value};

use super::told;
use table::Table;

/// Largest number of tables in a call.
const TABLES: usize = 100;
/// Longest name of a table or column, in bytes.
const NAME: usize = 200;

/// Creates the tables and returns the query.
pub(super) fn tables(connection: &Connection, args: &[u8]) -> Result<String, String> {
    let args = std::str::from_utf8(args).map_err(|error| error.to_string())?;
    let mut reader = serde_json::Deserializer::from_str(args);
    let begun = connection.execute_batch("BEGIN");
    begun.map_err(|error| told(&error))?;
    let query = reader.deserialize_map(Call(connection)).map_err(|error| words(&error))?;
    connection.execute_batch("COMMIT").map_err(|error| told(&error))?;
    Ok(query)
}

/// Formats a JSON error without its position, because the caller did not write this text by hand.
fn words(error: &serde_json::Error) -> String {
    let text = error.to_string();
    text.split(" at line ").next().unwrap_or_default().replace('\n', " ")
}

fn fault<E: Error>(error: &rusqlite::Error) -> E {
    E::custom(told(error))
}

/// Visitor of the call's arguments.
struct Call<'c>(&'c Connection);

impl<'de> Visitor<'de> for Call<'_> {
    type Value = String;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object with `query`")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<String, A::Error> {
        let mut query = String::new();
        while let Some(Key(key)) = map.next_key()? {
            match &*key {
                "query" => query = map.next_value()?,
                "tables" => map.next_value_seed(Tables(self.0))?,
                _ => drop(map.next_value::<serde::de::IgnoredAny>()?),
            }
        }
        Ok(query)
    }
}

/// Visitor of `tables`: rows by table name.
struct Tables<'c>(&'c Connection);

impl<'de> DeserializeSeed<'de> for Tables<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<(), D::Error> {
        from.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Tables<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("tables: an object of lists of rows")
    }

    fn visit_unit<E: Error>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let mut count = 0;
        while let Some(name) = map.next_key::<String>()? {
            count += 1;
            if count > TABLES {
                return Err(A::Error::custom(format!("tables: there are more than {TABLES}")));
            }
            map.next_value_seed(Rows { connection: self.0, name: named(&name)? })?;
        }
        Ok(())
    }
}

/// Validates a table name and quotes it for SQL.
fn named<E: Error>(name: &str) -> Result<String, E> {
    let shown: String = name.chars().take(80).flat_map(char::escape_debug).collect();
    if name.is_empty() || name.len() > NAME || name.contains('\0') {
        return Err(E::custom(format!("tables: `{shown}` cannot be a name")));
    }
    if name.to_ascii_lowercase().starts_with("sqlite_") {
        return Err(E::custom(format!("tables: `{shown}` is a name that SQLite keeps for itself")));
    }
    Ok(format!("\"{}\"", name.replace('"', "\"\"")))
}

/// Visitor of the rows of one table.
struct Rows<'c> {
    connection: &'c Connection,
    name: String,
}

impl<'de> DeserializeSeed<'de> for Rows<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<(), D::Error> {
        from.deserialize_seq(self)
    }
}

impl<'de> Visitor<'de> for Rows<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "tables: {}: a list of rows", self.name)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut rows: A) -> Result<(), A::Error> {
        let mut table = Table::new(self.connection, self.name);
        while rows.next_element_seed(Row(&mut table))?.is_some() {}
        let made = table.made().and_then(|()| table.flush());
        made.map_err(|error| fault(&error))
    }
}

/// Visitor of one row.
struct Row<'t, 'c, 'de>(&'t mut Table<'c, 'de>);

impl<'de> DeserializeSeed<'de> for Row<'_, '_, 'de> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<(), D::Error> {
        from.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for Row<'_, '_, 'de> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "tables: {}: a row is an object of its columns", self.0.name)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let table = self.0;
        while let Some(Key(name)) = map.next_key()? {
            if name.is_empty() || name.len() > NAME || name.contains('\0') {
                let told = format!("tables: {}: a column has no name that can be", table.name);
                return Err(A::Error::custom(told));
            }
            let place = table.place(&name)?;
            let value = map.next_value_seed(AsCell)?;
            table.row.push((place, value));
        }
        table.add().map_err(|error| fault(&error))
    }
}

/// A value of a row in SQLite's types.
enum Cell<'de> {
    Null,
    Whole(i64),
    Real(f64),
    Text(Cow<'de, str>),
}

impl ToSql for Cell<'_> {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(match self {
            Self::Null => ToSqlOutput::Owned(SqlValue::Null),
            Self::Whole(whole) => ToSqlOutput::Owned(SqlValue::Integer(*whole)),
            Self::Real(real) => ToSqlOutput::Owned(SqlValue::Real(*real)),
            Self::Text(text) => ToSqlOutput::from(&**text),
        })
    }
}

struct AsCell;

impl<'de> DeserializeSeed<'de> for AsCell {
    type Value = Cell<'de>;

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<Cell<'de>, D::Error> {
        from.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for AsCell {
    type Value = Cell<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_unit<E: Error>(self) -> Result<Cell<'de>, E> {
        Ok(Cell::Null)
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<Cell<'de>, E> {
        Ok(Cell::Whole(value.into()))
    }

    fn visit_i64<E: Error>(self, whole: i64) -> Result<Cell<'de>, E> {
        Ok(Cell::Whole(whole))
    }

    fn visit_u64<E: Error>(self, whole: u64) -> Result<Cell<'de>, E> {
        #[expect(clippy::cast_precision_loss, reason = "SQLite has no larger whole numbers")]
        Ok(i64::try_from(whole).map_or(Cell::Real(whole as f64), Cell::Whole))
    }

    fn visit_f64<E: Error>(self, real: f64) -> Result<Cell<'de>, E> {
        Ok(Cell::Real(real))
    }

    fn visit_borrowed_str<E: Error>(self, text: &'de str) -> Result<Cell<'de>, E> {
        Ok(Cell::Text(Cow::Borrowed(text)))
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Cell<'de>, E> {
        Ok(Cell::Text(Cow::Owned(text.to_owned())))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Cell<'de>, A::Error> {
        let mut all = Vec::new();
        while let Some(item) = items.next_element::<Value>()? {
            all.push(item);
        }
        Ok(Cell::Text(Cow::Owned(Value::Array(all).to_string())))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<Cell<'de>, A::Error> {
        let mut all = Map::new();
        while let Some((key, value)) = fields.next_entry::<String, Value>()? {
            all.insert(key, value);
        }
        Ok(Cell::Text(Cow::Owned(Value::Object(all).to_string())))
    }
}

/// A key that borrows from the input unless it contains escapes.
struct Key<'de>(Cow<'de, str>);

impl<'de> Deserialize<'de> for Key<'de> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct AsKey;
        impl<'de> Visitor<'de> for AsKey {
            type Value = Key<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a name")
            }

            fn visit_borrowed_str<E: Error>(self, text: &'de str) -> Result<Key<'de>, E> {
                Ok(Key(Cow::Borrowed(text)))
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<Key<'de>, E> {
                Ok(Key(Cow::Owned(text.to_owned())))
            }
        }
        from.deserialize_str(AsKey)
    }
}
