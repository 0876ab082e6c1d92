//! The request that policy decides on: one call with its caller, rights, tool and arguments.

use identity::RightsClass;
use tool::{AccessScope, CallArguments, Caller, CallerType, SourceTrust, WallTime};

use crate::ToolFacts;
use crate::tool_groups::{GROUP_WEB, group_mask};

/// Caller, rights, tool, arguments, time and taint of one call.
#[derive(Debug, Clone, Copy)]
pub struct PolicyRequest<'a> {
    /// Caller, for conditions on the subject. Its rights are those of the rights class.
    pub caller: &'a Caller,
    /// Rights of the caller.
    pub rights: &'a RightsClass,
    /// Whether the call is made directly or in a chain.
    pub caller_type: CallerType,
    /// Facts about the tool.
    pub tool: ToolFacts<'a>,
    /// Validated arguments; their tree is built only if a rule reads it.
    pub arguments: &'a CallArguments,
    /// Time of the decision.
    pub now: WallTime,
    /// Taint of the session.
    pub taint: SessionTaint,
}

/// Content that a session has seen and that makes its next call more sensitive.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SessionTaint {
    /// True after untrusted content.
    pub has_untrusted: bool,
    /// True after private data.
    pub has_private: bool,
}

impl SessionTaint {
    /// Returns the taint that a call of this tool causes, judged by the tool and never by its
    /// result: untrusted if it uses the network or its source is not fully trusted, private if it
    /// reads files.
    pub fn from_tool(tool: &ToolFacts<'_>, trust: SourceTrust) -> Self {
        let web = group_mask(tool.name, tool.traits) & GROUP_WEB != 0;
        let private = tool.traits.scopes.contains(&AccessScope::Filesystem);
        Self { has_untrusted: web || trust != SourceTrust::Full, has_private: private }
    }

    /// Returns the union of both taints.
    #[must_use]
    pub fn union(self, further: Self) -> Self {
        let Self { has_untrusted: untrusted, has_private: private } = further;
        Self {
            has_untrusted: self.has_untrusted || untrusted,
            has_private: self.has_private || private,
        }
    }

    /// Returns the names of the taints, as conditions use them.
    pub fn names(self) -> Vec<&'static str> {
        let words = [(self.has_untrusted, "untrusted"), (self.has_private, "private")];
        words.into_iter().filter_map(|(is, word)| is.then_some(word)).collect()
    }
}
