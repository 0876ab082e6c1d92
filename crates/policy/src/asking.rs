//! One call, as policy sees it.

use identity::RightsClass;
use serde_json::Value;
use tool::{Caller, CallerType, Wall};

use crate::Facts;

/// Who asks for what, with which arguments, and when.
#[derive(Debug, Clone, Copy)]
pub struct Asking<'a> {
    /// Who: for conditions on the subject. What he may is the rights class's to say.
    pub caller: &'a Caller,
    /// What he may.
    pub rights: &'a RightsClass,
    /// Directly or in a chain.
    pub by: CallerType,
    /// The tool.
    pub tool: Facts<'a>,
    /// The arguments, as they were validated.
    pub args: &'a Value,
    /// Now.
    pub now: Wall,
    /// What the session has seen.
    pub taint: Taint,
}

/// What a session has seen that makes its next call more delicate.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Taint {
    /// Content that no one vouches for.
    pub untrusted: bool,
    /// Data that is not for everyone.
    pub private: bool,
}
