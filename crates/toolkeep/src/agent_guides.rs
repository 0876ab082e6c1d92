//! The guides that Toolkeep offers to agents as skills.

use builtins::Guide;

/// Guides of tasks that an agent does for its user, from the documentation.
pub(crate) const AGENT_GUIDES: [Guide; 3] = [
    Guide {
        name: "write-tool-files",
        description: "How to write a tool file for Toolkeep: fixed answers, built-in tools and HTTP requests as tools.",
        text: include_str!("../../../docs/guide/tool-files.md"),
    },
    Guide {
        name: "toolkeep-approvals",
        description: "What happens when a call needs an approval, and how people approve, deny or edit it.",
        text: include_str!("../../../docs/guide/approvals.md"),
    },
    Guide {
        name: "write-toolkeep-policies",
        description: "How to write a policy for Toolkeep: which caller may use which tool, with which arguments.",
        text: include_str!("../../../docs/guide/policy.md"),
    },
];
