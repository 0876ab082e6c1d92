//! The append-only record of every call: segment files, one sync thread, chain and checkpoints.
#![doc = include_str!("promises.md")]

mod chain;
mod disk;
mod events;
mod evicted;
mod export;
mod failure;
mod file_ledger;
mod filters;
mod finding;
mod frame;
mod gone;
mod holding;
mod index;
mod inner;
mod mend;
mod names;
mod old_tail;
mod open;
mod options;
mod progress;
mod proof;
mod prove;
mod records;
mod refusals;
mod retain;
mod room;
mod scan;
mod search;
mod segment;
mod segment_filter;
mod shown;
pub mod signed;
mod slice;
mod state;
mod survey;
mod sync;
mod tomb;
mod tree;
mod verify;
mod walk;
mod watched;
mod write;

pub use chain::Checkpoint;
pub use disk::{BootId, Disk, DiskFile, Held, Open, RealDisk};
pub use export::export;
pub use file_ledger::FileLedger;
pub use finding::{Cut, CutWhy, Fault, Finding};
pub use holding::{Holding, holdings};
pub use open::Recovery;
pub use options::Options;
pub use proof::{BadProof, Proof};
pub use prove::prove;
pub use refusals::Gap;
pub use retain::{Keep, Retained};
pub use tomb::Why;
#[cfg(test)]
mod tests;

pub use gone::Gone;
pub use verify::{Report, Signers, WriterReport, verify, verify_signed};
pub use watched::watched;
