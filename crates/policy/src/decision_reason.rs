//! Reason codes of decisions and their texts.

use std::fmt;

use serde::{Deserialize, Serialize};
use tool::AccessScope;

macro_rules! reasons {
    ($($variant:ident = $word:literal, $text:literal;)+) => {
        /// A reason code, as recorded and explained.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
        pub enum DecisionReason { $(#[doc = $text] #[serde(rename = $word)] $variant),+ }

        impl DecisionReason {
            /// Returns the reason code.
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $word),+ }
            }
            /// Returns the text of the reason.
            pub const fn text(self) -> &'static str {
                match self { $(Self::$variant => $text),+ }
            }
        }
    };
}

reasons! {
    Allowed = "allowed", "allowed";
    Caution = "caution", "allowed with caution";
    Feature = "feature", "a disabled feature flag removes the tool";
    OrgNotListed = "org_not_listed", "the organisation has no list of allowed tools";
    UnknownRole = "unknown_role", "the policy does not define this role";
    NoRole = "no_role", "the caller needs a role and has none";
    ReadOnly = "read_only", "only tools without side effects are allowed";
    NoWeb = "no_web", "only tools that do not use the network are allowed";
    Forbidden = "forbidden", "the role forbids the tool";
    RoleCategory = "role_category", "the role allows none of the tool's categories";
    WebAccess = "web_access", "the role has no web access";
    Rule = "rule", "a rule denies it";
    RuleFault = "rule_fault", "a rule's condition could not be evaluated, so the call is denied";
    RuleHold = "rule_hold", "a rule requires an approval";
    SourceApproval = "source_approval", "the tool's source requires an approval (`requires_approval` of the tool, or in `permissions` of its file)";
    NetworkApproval = "network_approval", "the tool uses the permission `network`, which needs an approval (`policy.permissions.network.requires_approval`)";
    FilesystemApproval = "filesystem_approval", "the tool uses the permission `filesystem`, which needs an approval (`policy.permissions.filesystem.requires_approval`)";
    ShellApproval = "shell_approval", "the tool uses the permission `shell`, which needs an approval (`policy.permissions.shell.requires_approval`)";
    ComputeApproval = "compute_approval", "the tool uses the permission `compute`, which needs an approval (`policy.permissions.compute.requires_approval`)";
    Path = "path", "a path is not below an allowed path";
    NoPath = "no_path", "only some paths are allowed, but the call has no path";
    NoApprovals = "no_approvals", "the call needs an approval, but approvals are disabled";
    Unknown = "unknown", "unknown tool";
    OtherOrg = "other_org", "the tool belongs to another organisation";
    DenyRule = "deny_rule", "a deny rule names the tool";
    NotAllowed = "not_allowed", "an allow list does not name the tool";
    Level = "level", "the caller's permission level is too low";
    PersonaModules = "persona_modules", "the persona does not allow the tool's source";
    SafetyLimit = "safety_limit", "the tool exceeds the safety limit";
    Category = "category", "the tool is in none of the allowed categories";
    CallerType = "caller_type", "the tool does not allow this type of caller";
    Dangerous = "dangerous", "the tool is dangerous and needs an approval";
    Destructive = "destructive", "the tool is destructive and needs an approval";
}

impl DecisionReason {
    /// Returns the reason why a tool with this scope needs an approval; its text names the scope
    /// and the setting.
    pub const fn scope_approval(scope: AccessScope) -> Self {
        match scope {
            AccessScope::Network => Self::NetworkApproval,
            AccessScope::Filesystem => Self::FilesystemApproval,
            AccessScope::Shell => Self::ShellApproval,
            AccessScope::Compute => Self::ComputeApproval,
        }
    }
}

impl fmt::Display for DecisionReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
