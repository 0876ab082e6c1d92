//! Domain types and ports (traits) of Toolkeep.
//!
//! All other crates use these types. This crate does no I/O, starts no task, reads no clock and no
//! environment, and knows no provider, no protocol and no policy.

pub mod artifact;
pub mod backoff;
pub mod call;
pub mod call_outcome;
pub mod catalog_item;
pub mod clock;
pub mod confusable_text;
pub mod data_format;
pub mod defer_mode;
pub mod display_text;
pub mod error_code;
pub mod executor;
pub mod fast_map;
pub mod hash_trie;
pub mod identifier;
pub mod interface;
pub mod ledger;
mod name_suggestion;
pub mod names;
pub mod node_registry;
pub mod plugin_admin;
pub mod secret;
pub mod source;
pub mod store;
pub mod tool_packages;
pub mod tool_traits;

pub use backoff::Backoff;
pub use call::{Actor, CallArguments, CallId, Caller, CallerType, ToolCall};
pub use call_outcome::{Outcome, OutcomeBody};
pub use catalog_item::{
    CatalogItem, Digest, EventDelivery, EventType, MCP_METHODS, McpMethod, Prompt, Resource, Skill,
    SkillFile, Tool,
};
pub use clock::{Clock, MonotonicTime, WallTime};
pub use data_format::FormatSupport;
pub use defer_mode::DeferMode;
pub use error_code::ErrorCode;
pub use executor::{
    CallContext, ExecuteError, ExecutionState, Executor, PendingReason, RecordedCall,
};
pub use fast_map::{FastHashState, FastMap};
pub use hash_trie::HashTrie;
pub use interface::Interface;
pub use json::{Json, JsonError, JsonLimits, json_pointer};
pub use ledger::{
    ApprovalStep, ApprovalStepRecord, Durability, IntentReceipt, IntentRecord, Ledger, LedgerError,
    OutcomeRecord, RefusalRecord, SandboxUsage,
};
pub use name_suggestion::find_nearest_name;
pub use names::{NameError, Org, SourceName, ToolKey, ToolName};
pub use secret::Secret;
pub use source::{Offer, Problem, Source, SourceError, SourceListing, SourceRevision, SourceTrust};
pub use store::{Cache, MessageBus, Store, StoreError, Version, VersionedValue};
pub use tool_traits::{
    AccessScope, PermissionLevel, SafetyLevel, SideEffect, SideEffects, ToolTraits,
};

use std::pin::Pin;

/// Boxed future that a port returns, so that adapters stay out of their callers' types.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;
