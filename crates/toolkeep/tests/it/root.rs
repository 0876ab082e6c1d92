//! Tests that mount a file system, in a namespace of their own: for root, or where the system lets
//! anyone do so.

mod full;
