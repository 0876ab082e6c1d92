//! Against servers that were installed: `TOOLKEEP_REAL` names their folder.

mod chart;
mod cluster;
mod faults;
mod kubernetes;
mod mongo;
mod peer_events;
