//! A table that is filled in batches: rows are buffered until one statement can insert them.

use std::collections::HashMap;

use rusqlite::{Connection, Statement};
use serde::de::Error;

use super::{ColumnValue, sqlite_error};

/// Largest number of columns in a table.
const MAX_COLUMNS: usize = 500;
/// Largest number of rows and of values per insert. Executing a statement costs more than binding
/// its values.
const MAX_BATCH: (usize, usize) = (64, 2_000);

/// Writes rows to one table: its columns in order of appearance, and the buffered rows.
pub(super) struct TableWriter<'c, 'de> {
    connection: &'c Connection,
    pub(super) name: String,
    columns: Vec<String>,
    column_indexes: HashMap<String, usize>,
    exists: bool,
    /// Statements that insert one row and a full batch.
    insert_one: Option<Statement<'c>>,
    insert_batch: Option<Statement<'c>>,
    /// Values of the buffered rows, each with its index in the batch.
    pending_values: Vec<(usize, ColumnValue<'de>)>,
    pending_rows: usize,
    /// The row that is being read.
    pub(super) current_row: Vec<(usize, ColumnValue<'de>)>,
}

impl<'c> TableWriter<'c, '_> {
    pub(super) fn new(connection: &'c Connection, name: String) -> Self {
        Self {
            connection,
            name,
            columns: Vec::new(),
            column_indexes: HashMap::new(),
            exists: false,
            insert_one: None,
            insert_batch: None,
            pending_values: Vec::new(),
            pending_rows: 0,
            current_row: Vec::new(),
        }
    }

    /// Returns the index of a column, which is usually the next one; adds the column if it is new.
    pub(super) fn column_index<E: Error>(&mut self, name: &str) -> Result<usize, E> {
        let next = self.current_row.len();
        if self.columns.get(next).is_some_and(|column| column == name) {
            return Ok(next);
        }
        if let Some(&place) = self.column_indexes.get(name) {
            return Ok(place);
        }
        let place = self.columns.len();
        if place == MAX_COLUMNS {
            let told = format!("tables: {} has more than {MAX_COLUMNS} columns", self.name);
            return Err(E::custom(told));
        }
        if self.exists {
            let grown = self.flush().and_then(|()| {
                // Prepared statements refer to the old columns.
                (self.insert_one, self.insert_batch) = (None, None);
                let sql =
                    format!("ALTER TABLE {} ADD COLUMN {}", self.name, quote_identifier(name));
                self.connection.execute_batch(&sql)
            });
            grown.map_err(|error| sqlite_error(&error))?;
        }
        self.columns.push(name.to_owned());
        self.column_indexes.insert(name.to_owned(), place);
        Ok(place)
    }

    /// Creates the table with its current columns; a table without rows gets one placeholder
    /// column.
    pub(super) fn ensure_created(&mut self) -> rusqlite::Result<()> {
        if self.exists {
            return Ok(());
        }
        let columns = if self.columns.is_empty() {
            "\"empty\"".to_owned()
        } else {
            self.columns.iter().map(|name| quote_identifier(name)).collect::<Vec<_>>().join(", ")
        };
        self.connection.execute_batch(&format!("CREATE TABLE {} ({columns})", self.name))?;
        self.exists = true;
        Ok(())
    }

    /// Adds the current row to the batch.
    pub(super) fn push_row(&mut self) -> rusqlite::Result<()> {
        self.ensure_created()?;
        let before = self.pending_rows * self.column_count();
        self.pending_values
            .extend(self.current_row.drain(..).map(|(place, value)| (before + place, value)));
        self.pending_rows += 1;
        if self.pending_rows == self.batch_size() { self.flush() } else { Ok(()) }
    }

    fn column_count(&self) -> usize {
        self.columns.len().max(1)
    }

    fn batch_size(&self) -> usize {
        (MAX_BATCH.1 / self.column_count()).clamp(1, MAX_BATCH.0)
    }

    /// Inserts the buffered rows.
    pub(super) fn flush(&mut self) -> rusqlite::Result<()> {
        let (width, rows) = (self.column_count(), self.pending_rows);
        let sql = |rows: usize| {
            let marks = format!("({})", vec!["?"; width].join(", "));
            format!("INSERT INTO {} VALUES {}", self.name, vec![marks.as_str(); rows].join(", "))
        };
        if rows == self.batch_size() {
            let insert = match &mut self.insert_batch {
                Some(insert) => insert,
                none => none.insert(self.connection.prepare(&sql(rows))?),
            };
            insert_values(insert, &self.pending_values, (0, rows * width))?;
        } else if rows > 0 {
            let insert = match &mut self.insert_one {
                Some(insert) => insert,
                none => none.insert(self.connection.prepare(&sql(1))?),
            };
            let mut left = self.pending_values.as_slice();
            for row in 0..rows {
                let end = left.partition_point(|(place, _)| *place < (row + 1) * width);
                let (own, others) = left.split_at_checked(end).unwrap_or_default();
                insert_values(insert, own, (row * width, width))?;
                left = others;
            }
        }
        self.pending_values.clear();
        self.pending_rows = 0;
        Ok(())
    }
}

/// Runs an insert with `wanted` parameters; missing values are null.
fn insert_values(
    insert: &mut Statement<'_>,
    values: &[(usize, ColumnValue<'_>)],
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

fn quote_identifier(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}
