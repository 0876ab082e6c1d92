//! Tools on other machines (spec 4): which node has which, where it is, and how it is called.
//!
//! A node is a source like any other. Only the pipeline calls its executor; whose tools may be changed
//! is decided on what a credential speaks for. Where a node is comes from the operator alone.

mod answer;
mod authority;
mod certificates;
mod dialled;
mod execute;
mod input_spec;
mod keep;
mod line;
mod locator;
mod news;
mod placed;
mod registry;
mod revocable;
mod source;

pub use authority::{Authority, AuthorityError, Kept as KeptAuthority};
pub use input_spec::{Read, schema};
pub use keep::{Alone, Change, Heard, Keep, Nowhere};
pub use locator::NodeLocator;
pub use news::Outbox;
pub use node_addresses::{Addresses, NODE_ID, Sharing};
pub use registry::{Document, MOST_NODES, MOST_TOOLS, Registry, tool_key, tool_of};
pub use source::{NodeSource, ReadOnly};
