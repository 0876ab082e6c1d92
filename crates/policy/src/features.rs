//! Feature flags of the tool-file registry. All are enabled by default; disabling one can only
//! restrict.

use serde::Serialize;

use crate::at::shown;

macro_rules! features {
    ($($(#[$doc:meta])* $field:ident),+ $(,)?) => {
        /// Feature flags that are disabled.
        #[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
        pub struct Off { $($(#[$doc])* pub $field: bool),+ }

        impl Off {
            /// Names of the flags in the file and in the environment (`ORCHESTRATOR_…`, upper
            /// case).
            pub const NAMES: &'static [&'static str] = &[$(stringify!($field)),+];

            /// Disables a feature flag.
            ///
            /// # Errors
            /// If there is no such flag.
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
    /// Hides every tool there is.
    tools,
    /// Uses flat permissions: besides all layers, a caller below the owner's level needs a role of
    /// the file, if the file has roles.
    cascading_tool_policy,
    /// Hides destructive tools, which the tool-file registry runs at once without this flag.
    side_effect_tracking,
    /// Hides destructive tools, as [`Off::side_effect_tracking`]: a pending call could not be
    /// reported.
    structured_tool_output,
    /// Denies calls that need an approval.
    approval_gates,
    /// Denies them as [`Off::approval_gates`]: a pending call could not be resumed.
    resume_tokens,
    /// Hides tools from programs.
    scripts,
    /// Has no effect: the calls of a turn run in order anyway.
    parallel_tools,
    /// Has no effect: secrets are removed from results anyway.
    credential_redaction,
    /// Has no effect here.
    deferred_tool_results,
    /// Has no effect here.
    claude_code_mcp_chat,
}

impl Off {
    /// Returns true if destructive tools are hidden.
    pub(crate) fn destructive(self) -> bool {
        self.side_effect_tracking || self.structured_tool_output
    }

    /// Returns true if approvals are denied.
    pub(crate) fn approvals(self) -> bool {
        self.approval_gates || self.resume_tokens
    }
}
