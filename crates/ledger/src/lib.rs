//! The append-only record of every call: segment files, one sync thread, chain and checkpoints.
#![doc = include_str!("promises.md")]

mod body;
mod chain;
mod disk;
mod events;
mod export;
mod failure;
mod file_ledger;
mod finding;
mod frame;
mod index;
mod inner;
mod mend;
mod names;
mod open;
mod options;
mod records;
mod refusals;
mod scan;
mod search;
mod segment;
pub mod signed;
mod state;
mod survey;
mod sync;
mod verify;
mod walk;
mod watched;

pub use chain::Checkpoint;
pub use disk::{Disk, DiskFile, Held, Open, RealDisk};
pub use export::export;
pub use file_ledger::FileLedger;
pub use finding::{Cut, CutWhy, Fault, Finding};
pub use open::Recovery;
pub use options::Options;
pub use refusals::Gap;
#[cfg(test)]
mod tests;

pub use verify::{Report, WriterReport, verify};
pub use watched::watched;
