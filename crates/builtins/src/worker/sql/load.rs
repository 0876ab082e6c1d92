//! Tables from JSON, as they are read: no more than some rows are held before they are inserted.
//!
//! A column has no declared type, so that each value keeps the one it has in JSON: 2 and 10 are numbers,
//! "2" and "10" texts. Booleans are 1 and 0, lists and objects their JSON text.

use std::borrow::Cow;
use std::collections::HashMap;
use std::fmt;

use rusqlite::types::{ToSqlOutput, Value as SqlValue};
use rusqlite::{Connection, Statement, ToSql};
use serde::Deserialize;
use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value};

use super::told;

/// Tables of one call.
const TABLES: usize = 100;
/// Columns of one table.
const COLUMNS: usize = 500;
/// The longest name of a table or a column, in bytes.
const NAME: usize = 200;
/// Rows that are inserted at once, and values: a statement costs more than what it inserts.
const AT_ONCE: (usize, usize) = (64, 2_000);

/// Makes the tables; answers the query.
pub(super) fn tables(connection: &Connection, args: &[u8]) -> Result<String, String> {
    let args = std::str::from_utf8(args).map_err(|error| error.to_string())?;
    let mut reader = serde_json::Deserializer::from_str(args);
    let begun = connection.execute_batch("BEGIN");
    begun.map_err(|error| told(&error))?;
    let query = reader.deserialize_map(Call(connection)).map_err(|error| words(&error))?;
    connection.execute_batch("COMMIT").map_err(|error| told(&error))?;
    Ok(query)
}

/// Without the place in the text: that is not what the caller wrote by hand.
fn words(error: &serde_json::Error) -> String {
    let text = error.to_string();
    text.split(" at line ").next().unwrap_or_default().replace('\n', " ")
}

fn fault<E: Error>(error: &rusqlite::Error) -> E {
    E::custom(told(error))
}

/// The arguments of the call.
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

/// `tables`: rows by the table's name.
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

/// A name as SQL has it, in quotes.
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

/// The rows of one table.
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

/// A table as it grows: the columns so far, in the order they were met, and the rows that wait.
struct Table<'c, 'de> {
    connection: &'c Connection,
    name: String,
    columns: Vec<String>,
    places: HashMap<String, usize>,
    exists: bool,
    /// Inserts one row, and as many as are inserted at once.
    one: Option<Statement<'c>>,
    many: Option<Statement<'c>>,
    /// What rows that wait have, each with its place in all of them.
    waiting: Vec<(usize, Cell<'de>)>,
    rows: usize,
    /// The row that is read.
    row: Vec<(usize, Cell<'de>)>,
}

impl<'c, 'de> Table<'c, 'de> {
    fn new(connection: &'c Connection, name: String) -> Self {
        Self {
            connection,
            name,
            columns: Vec::new(),
            places: HashMap::new(),
            exists: false,
            one: None,
            many: None,
            waiting: Vec::new(),
            rows: 0,
            row: Vec::new(),
        }
    }

    /// The place of a column, which is mostly the next one.
    fn place<E: Error>(&mut self, name: &str) -> Result<usize, E> {
        let next = self.row.len();
        if self.columns.get(next).is_some_and(|column| column == name) {
            return Ok(next);
        }
        if let Some(&place) = self.places.get(name) {
            return Ok(place);
        }
        let place = self.columns.len();
        if place == COLUMNS {
            let told = format!("tables: {} has more than {COLUMNS} columns", self.name);
            return Err(E::custom(told));
        }
        if self.exists {
            let grown = self.flush().and_then(|()| {
                // Statements would hold the table as it was.
                (self.one, self.many) = (None, None);
                let sql = format!("ALTER TABLE {} ADD COLUMN {}", self.name, quoted(name));
                self.connection.execute_batch(&sql)
            });
            grown.map_err(|error| fault(&error))?;
        }
        self.columns.push(name.to_owned());
        self.places.insert(name.to_owned(), place);
        Ok(place)
    }

    /// Makes it with the columns there are; one without any row has one without a meaning.
    fn made(&mut self) -> rusqlite::Result<()> {
        if self.exists {
            return Ok(());
        }
        let columns = if self.columns.is_empty() {
            "\"empty\"".to_owned()
        } else {
            self.columns.iter().map(|name| quoted(name)).collect::<Vec<_>>().join(", ")
        };
        self.connection.execute_batch(&format!("CREATE TABLE {} ({columns})", self.name))?;
        self.exists = true;
        Ok(())
    }

    /// Takes the row that was read.
    fn add(&mut self) -> rusqlite::Result<()> {
        self.made()?;
        let before = self.rows * self.width();
        self.waiting.extend(self.row.drain(..).map(|(place, value)| (before + place, value)));
        self.rows += 1;
        if self.rows == self.at_once() { self.flush() } else { Ok(()) }
    }

    fn width(&self) -> usize {
        self.columns.len().max(1)
    }

    fn at_once(&self) -> usize {
        (AT_ONCE.1 / self.width()).clamp(1, AT_ONCE.0)
    }

    /// Inserts the rows that wait.
    fn flush(&mut self) -> rusqlite::Result<()> {
        let (width, rows) = (self.width(), self.rows);
        let sql = |rows: usize| {
            let marks = format!("({})", vec!["?"; width].join(", "));
            format!("INSERT INTO {} VALUES {}", self.name, vec![marks.as_str(); rows].join(", "))
        };
        if rows == self.at_once() {
            let insert = match &mut self.many {
                Some(insert) => insert,
                none => none.insert(self.connection.prepare(&sql(rows))?),
            };
            inserted(insert, &self.waiting, (0, rows * width))?;
        } else if rows > 0 {
            let insert = match &mut self.one {
                Some(insert) => insert,
                none => none.insert(self.connection.prepare(&sql(1))?),
            };
            let mut left = self.waiting.as_slice();
            for row in 0..rows {
                let end = left.partition_point(|(place, _)| *place < (row + 1) * width);
                let (own, others) = left.split_at_checked(end).unwrap_or_default();
                inserted(insert, own, (row * width, width))?;
                left = others;
            }
        }
        self.waiting.clear();
        self.rows = 0;
        Ok(())
    }
}

/// Runs a statement of so many values; those that are not there are null.
fn inserted(
    insert: &mut Statement<'_>,
    values: &[(usize, Cell<'_>)],
    (first, wanted): (usize, usize),
) -> rusqlite::Result<()> {
    if values.len() < wanted {
        insert.clear_bindings();
    }
    for (place, value) in values {
        insert.raw_bind_parameter(place - first + 1, value)?;
    }
    insert.raw_execute().map(drop)
}

fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

/// One row.
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

/// One value, as SQLite will have it.
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

/// A key, without a copy where nothing in it is escaped.
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
