//! Spec 3's feature flags. On is how Toolkeep is; off can only take away.

use serde::Serialize;

use crate::at::shown;

macro_rules! features {
    ($($(#[$doc:meta])* $field:ident),+ $(,)?) => {
        /// The flags that are off.
        #[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
        pub struct Off { $($(#[$doc])* pub $field: bool),+ }

        impl Off {
            /// The flags, as the file and the environment (`ORCHESTRATOR_…`, in capitals) name them.
            pub const NAMES: &'static [&'static str] = &[$(stringify!($field)),+];

            /// Switches one off.
            ///
            /// # Errors
            /// Where there is no such flag.
            pub fn switch_off(&mut self, name: &str) -> Result<(), String> {
                match name {
                    $(stringify!($field) => self.$field = true,)+
                    _ => return Err(format!("unknown feature {}", shown(name))),
                }
                Ok(())
            }
        }
    };
}

features! {
    /// No tool at all.
    tools,
    /// The spec's flat permissions: besides all layers, a caller below the owner's level needs a role that
    /// the file knows, where the file has roles.
    cascading_tool_policy,
    /// Without it the spec ran what is destructive at once; here such tools are taken away.
    side_effect_tracking,
    /// As [`Off::side_effect_tracking`]: a pending call could not be said.
    structured_tool_output,
    /// What would be held is denied.
    approval_gates,
    /// As [`Off::approval_gates`]: a held call could not go on.
    resume_tokens,
    /// Calls of programs are taken away.
    scripts,
    /// Nothing: the calls of a turn run in order as it is.
    parallel_tools,
    /// Nothing: secrets are taken out of results all the same.
    credential_redaction,
    /// Nothing.
    deferred_tool_results,
    /// Nothing.
    claude_code_mcp_chat,
}

impl Off {
    /// Whether nothing destructive may run.
    pub(crate) fn destructive(self) -> bool {
        self.side_effect_tracking || self.structured_tool_output
    }

    /// Whether nothing can be approved.
    pub(crate) fn approvals(self) -> bool {
        self.approval_gates || self.resume_tokens
    }
}
