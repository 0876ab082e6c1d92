//! What this crate reads, compared with what hyper reads.

mod compare;
mod data;
mod generate;
mod generated;
mod lax;
mod readers;
mod script;
