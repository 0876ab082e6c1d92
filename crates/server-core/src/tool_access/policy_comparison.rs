//! Comparison of the access of keys under two policies.

use std::collections::HashMap;

use catalog::CatalogEntry;
use gateway::{CatalogView, Gateway};
use identity::{Principal, RightsClass};
use policy::{Policy, ToolFacts};
use tool::{CallerType, WallTime};

use super::key_selection::KeySelection;
use super::{
    AccessChangeReply, AccessKeyReply, AccessReply, MAX_CHANGES, MAX_COMPARISONS, MAX_NAMED_KEYS,
    PolicyPreviewReply, visible_tools,
};

/// Keys by their rights: equal rights have equal access.
pub(super) type KeysByClass = HashMap<RightsClass, Vec<AccessKeyReply>>;

/// The access of keys under the active policy and under another one.
pub(super) struct PolicyComparison<'a> {
    pub(super) gateway: &'a Gateway,
    pub(super) view: &'a CatalogView,
    pub(super) policy: &'a Policy,
    pub(super) asker: &'a Principal,
    pub(super) now: WallTime,
}

impl PolicyComparison<'_> {
    /// Compares the access of these keys.
    pub(super) fn compare(&self, classes: &KeysByClass) -> PolicyPreviewReply {
        let (active, policy) = (self.view.policy(), self.policy);
        let mut tools: Vec<_> = visible_tools(self.view, self.asker).collect();
        tools.sort_unstable_by(|a, b| a.name.cmp(&b.name));
        let compared = MAX_COMPARISONS / tools.len().max(1);
        let mut changes: HashMap<(usize, AccessReply, AccessReply), Vec<AccessKeyReply>> =
            HashMap::new();
        let mut keys = 0;
        for (rights, own_keys) in classes.iter().take(compared) {
            keys += own_keys.len();
            let [was, is] = [active, policy]
                .map(|policy| policy.for_class(rights, CallerType::Direct, self.now));
            let selection = KeySelection::of_class(self.gateway, rights);
            let visible = tools.iter().enumerate().filter(|(_, entry)| selection.contains(entry));
            for (index, entry) in visible {
                let facts = ToolFacts::from_tool(&entry.tool_key, &entry.tool);
                let (was, is) = (was.tool_access(&facts), is.tool_access(&facts));
                if !was.decides_as(&is) {
                    let change = (index, (&was).into(), (&is).into());
                    changes.entry(change).or_default().extend(own_keys.iter().cloned());
                }
            }
        }
        let mut changes: Vec<_> = changes
            .into_iter()
            .filter_map(|((index, before, after), keys)| {
                let entry = tools.get(index)?;
                Some(access_change(entry, (before, after), keys))
            })
            .collect();
        changes.sort_unstable_by(|a, b| {
            let rank = |change: &AccessChangeReply| (change.before.decision, change.after.decision);
            a.tool.cmp(&b.tool).then_with(|| rank(a).cmp(&rank(b)))
        });
        let more = changes.len().saturating_sub(MAX_CHANGES);
        changes.truncate(MAX_CHANGES);
        PolicyPreviewReply {
            policy: policy.digest().to_string(),
            active: active.digest().to_string(),
            rules: policy::diff_documents(active.document(), policy.document()),
            keys,
            tools: tools.len(),
            changes,
            more,
            complete: compared >= classes.len(),
        }
    }
}

fn access_change(
    entry: &CatalogEntry,
    (before, after): (AccessReply, AccessReply),
    mut keys: Vec<AccessKeyReply>,
) -> AccessChangeReply {
    keys.sort_unstable_by(|a, b| a.id.cmp(&b.id));
    let key_count = keys.len();
    keys.truncate(MAX_NAMED_KEYS);
    AccessChangeReply {
        tool: entry.name.to_string(),
        source: entry.tool_key.source.to_string(),
        before,
        after,
        keys,
        key_count,
    }
}
