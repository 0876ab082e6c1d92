//! Everything durable that is not a record, by compare-and-set: SQLite.
