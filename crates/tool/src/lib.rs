//! Domain types and ports (traits) of Toolkeep.
//!
//! All other crates use these types. This crate does no I/O, starts no task, reads no clock and no
//! environment, and knows no provider, no protocol and no policy.

pub mod artefact;
pub mod call;
pub mod catalogue;
pub mod clock;
pub mod code;
pub mod confusables;
pub mod display_text;
pub mod executor;
pub mod identifier;
pub mod interface;
pub mod item;
pub mod ledger;
pub mod map;
pub mod name;
mod nearest;
pub mod node;
pub mod outcome;
pub mod plugin;
pub mod secret;
pub mod source;
pub mod store;
pub mod traits;

pub use call::{Actor, Args, Call, CallId, Caller, CallerType};
pub use clock::{Clock, Mono, Wall};
pub use code::Code;
pub use executor::{Context, ExecuteError, Executor, Granted, Step, Wait};
pub use interface::Interface;
pub use item::{Digest, Item, METHODS, Prompt, Resource, Tool};
pub use json::{Json, JsonError, Limits};
pub use ledger::{
    Caged, Durability, End, Intent, Ledger, LedgerError, Refusal, Ticket, WaitStep, Waited,
};
pub use map::{Hashing, Map};
pub use name::{NameError, Org, SourceName, ToolKey, ToolName};
pub use nearest::nearest_name;
pub use outcome::{Body, Outcome};
pub use secret::Secret;
pub use source::{Listing, Offer, Problem, Revision, Source, SourceError, Trust};
pub use store::{Bus, Cache, Store, StoreError, Version, Versioned};
pub use traits::{Effect, Effects, Level, Safety, Scope, Traits};

use std::pin::Pin;

/// Boxed future that a port returns, so that adapters stay out of their callers' types.
pub type Boxed<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;
