//! Where nodes are and which names they share, by the operator's word: without the code that calls a node.

mod addresses;
mod sharing;

pub use addresses::{Addresses, NODE_ID, endpoint};
pub use sharing::Sharing;
