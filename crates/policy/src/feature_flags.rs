//! Feature flags of the research registry. All are enabled by default; disabling one can only
//! restrict.

use serde::Serialize;

use crate::diagnostics::quote_excerpt;

macro_rules! features {
    ($($(#[$doc:meta])* $field:ident),+ $(,)?) => {
        /// Feature flags that are disabled.
        #[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
        pub struct DisabledFeatures { $($(#[$doc])* pub $field: bool),+ }

        impl DisabledFeatures {
            /// Names of the flags in the file and in the environment (`ORCHESTRATOR_…`, upper
            /// case).
            pub const NAMES: &'static [&'static str] = &[$(stringify!($field)),+];

            /// Disables a feature flag.
            ///
            /// # Errors
            /// If there is no such flag.
            pub fn disable_feature(&mut self, name: &str) -> Result<(), String> {
                match name {
                    $(stringify!($field) => self.$field = true,)+
                    _ => return Err(format!("unknown feature {}", quote_excerpt(name))),
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
    /// Hides destructive tools, which the research registry runs at once without this flag.
    side_effect_tracking,
    /// Hides destructive tools, as [`DisabledFeatures::side_effect_tracking`]: a pending call could not be
    /// reported.
    structured_tool_output,
    /// Denies calls that need an approval.
    approval_gates,
    /// Denies them as [`DisabledFeatures::approval_gates`]: a pending call could not be resumed.
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

impl DisabledFeatures {
    /// Returns true if destructive tools are hidden.
    pub(crate) fn hides_destructive_tools(self) -> bool {
        self.side_effect_tracking || self.structured_tool_output
    }

    /// Returns true if approvals are denied.
    pub(crate) fn denies_approvals(self) -> bool {
        self.approval_gates || self.resume_tokens
    }
}
