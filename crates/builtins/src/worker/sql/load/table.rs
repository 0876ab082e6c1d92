//! A table that is filled in batches: rows are buffered until one statement can insert them.

use std::collections::HashMap;

use rusqlite::{Connection, Statement};
use serde::de::Error;

use super::{Cell, fault};

/// Largest number of columns in a table.
const COLUMNS: usize = 500;
/// Largest number of rows and of values per insert. Executing a statement costs more than binding
/// its values.
const AT_ONCE: (usize, usize) = (64, 2_000);

/// Writes rows to one table: its columns in order of appearance, and the buffered rows.
pub(super) struct Table<'c, 'de> {
    connection: &'c Connection,
    pub(super) name: String,
    columns: Vec<String>,
    places: HashMap<String, usize>,
    exists: bool,
    /// Statements that insert one row and a full batch.
    one: Option<Statement<'c>>,
    many: Option<Statement<'c>>,
    /// Values of the buffered rows, each with its index in the batch.
    waiting: Vec<(usize, Cell<'de>)>,
    rows: usize,
    /// The row that is being read.
    pub(super) row: Vec<(usize, Cell<'de>)>,
}

impl<'c> Table<'c, '_> {
    pub(super) fn new(connection: &'c Connection, name: String) -> Self {
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

    /// Returns the index of a column, which is usually the next one; adds the column if it is new.
    pub(super) fn place<E: Error>(&mut self, name: &str) -> Result<usize, E> {
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
                // Prepared statements refer to the old columns.
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

    /// Creates the table with its current columns; a table without rows gets one placeholder
    /// column.
    pub(super) fn made(&mut self) -> rusqlite::Result<()> {
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

    /// Adds the current row to the batch.
    pub(super) fn add(&mut self) -> rusqlite::Result<()> {
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

    /// Inserts the buffered rows.
    pub(super) fn flush(&mut self) -> rusqlite::Result<()> {
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

/// Runs an insert with `wanted` parameters; missing values are null.
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
