//! Calls that models made.
