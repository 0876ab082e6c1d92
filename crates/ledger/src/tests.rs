//! The whole ledger on a simulated disk, and on this machine's.

mod calls;
mod crash;
mod damage;
mod events;
pub(crate) mod fixture;
mod full;
mod lookups;
mod outage;
mod reading;
mod retain;
pub(crate) mod sim_disk;
mod start;
mod start_summaries;
pub(crate) mod tamper;
mod tamper_gone;
