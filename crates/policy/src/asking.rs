//! The request that policy decides on: one call with its caller, rights, tool and arguments.

use identity::RightsClass;
use tool::{Args, Caller, CallerType, Scope, Trust, Wall};

use crate::Facts;
use crate::groups::{WEB, marks};

/// Caller, rights, tool, arguments, time and taint of one call.
#[derive(Debug, Clone, Copy)]
pub struct Asking<'a> {
    /// Caller, for conditions on the subject. Its rights are those of the rights class.
    pub caller: &'a Caller,
    /// Rights of the caller.
    pub rights: &'a RightsClass,
    /// Whether the call is made directly or in a chain.
    pub by: CallerType,
    /// Facts about the tool.
    pub tool: Facts<'a>,
    /// Validated arguments; their tree is built only if a rule reads it.
    pub args: &'a Args,
    /// Time of the decision.
    pub now: Wall,
    /// Taint of the session.
    pub taint: Taint,
}

/// Content that a session has seen and that makes its next call more sensitive.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Taint {
    /// True after untrusted content.
    pub untrusted: bool,
    /// True after private data.
    pub private: bool,
}

impl Taint {
    /// Returns the taint that a call of this tool causes, judged by the tool and never by its
    /// result: untrusted if it uses the network or its source is not fully trusted, private if it
    /// reads files.
    pub fn of(tool: &Facts<'_>, trust: Trust) -> Self {
        let web = marks(tool.name, tool.traits) & WEB != 0;
        let private = tool.traits.scopes.contains(&Scope::Filesystem);
        Self { untrusted: web || trust != Trust::Full, private }
    }

    /// Returns the union of both taints.
    #[must_use]
    pub fn and(self, further: Self) -> Self {
        let Self { untrusted, private } = further;
        Self { untrusted: self.untrusted || untrusted, private: self.private || private }
    }

    /// Returns the names of the taints, as conditions use them.
    pub fn words(self) -> Vec<&'static str> {
        let words = [(self.untrusted, "untrusted"), (self.private, "private")];
        words.into_iter().filter_map(|(is, word)| is.then_some(word)).collect()
    }
}
