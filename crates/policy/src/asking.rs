//! One call, as policy sees it.

use identity::RightsClass;
use tool::{Args, Caller, CallerType, Scope, Trust, Wall};

use crate::Facts;
use crate::groups::{WEB, marks};

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
    /// The arguments, as they were validated; their tree is made where a rule looks at it.
    pub args: &'a Args,
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

impl Taint {
    /// What a call of this tool gives its caller to see, by what the tool is and never by what it answers:
    /// untrusted is what reaches the network or comes of a source that is not fully trusted, private what
    /// reaches for files.
    pub fn of(tool: &Facts<'_>, trust: Trust) -> Self {
        let web = marks(tool.name, tool.traits) & WEB != 0;
        let private = tool.traits.scopes.contains(&Scope::Filesystem);
        Self { untrusted: web || trust != Trust::Full, private }
    }

    /// Both.
    #[must_use]
    pub fn and(self, further: Self) -> Self {
        let Self { untrusted, private } = further;
        Self { untrusted: self.untrusted || untrusted, private: self.private || private }
    }

    /// Its words, as conditions have them.
    pub fn words(self) -> Vec<&'static str> {
        let words = [(self.untrusted, "untrusted"), (self.private, "private")];
        words.into_iter().filter_map(|(is, word)| is.then_some(word)).collect()
    }
}
