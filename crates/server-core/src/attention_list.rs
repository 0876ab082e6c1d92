//! The ranked list of what needs a person: what is wrong, since when, and what mends it.
//!
//! Each entry comes from the function that the page of its subject uses, with the rights of the
//! same principal: whoever may not see a subject has no entry for it.

use identity::{KeyRecord, Principal, Right};
use schemars::JsonSchema;
use serde::Serialize;
use tool::clock::duration_millis;

use crate::error::ApiError;
use crate::page_query::run_blocking;
use crate::record_storage::{may_see_storage, show_storage};
use crate::record_verification::show_verification;
use crate::server_state::ServerState;
use crate::source_list::{SourceReply, list_sources};
use crate::toolset_management::count_waiting_items;

/// Time before its end at which a key needs attention.
const KEY_NOTICE: std::time::Duration = std::time::Duration::from_hours(7 * 24);
/// Maximum number of entries about keys.
const MAX_KEYS: usize = 20;
/// Maximum number of entries of the list.
const MAX_ENTRIES: usize = 200;

/// The entries that a caller may see, the most urgent first.
#[derive(Debug, Serialize, JsonSchema)]
pub struct AttentionReply {
    /// The entries, the most urgent first.
    pub entries: Vec<AttentionEntry>,
    /// Number of further entries.
    pub more: usize,
}

/// Something that needs a person.
#[derive(Debug, Serialize, JsonSchema)]
pub struct AttentionEntry {
    /// How urgent it is: `urgent` (calls fail, or records are at risk), `soon` (something waits), or
    /// `notice`.
    pub urgency: Urgency,
    /// What it is about: `record`, `disk`, `source`, `approval`, `definition`, `toolset` or `key`.
    pub topic: AttentionTopic,
    /// Name of the source or toolset, or ID of the key; absent for the record, the disk and approvals.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub subject: Option<String>,
    /// What is wrong, as a sentence.
    pub message: String,
    /// Since when, RFC 3339, if that is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub since: Option<String>,
    /// What to do.
    pub action: String,
}

/// How urgent an entry is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Urgency {
    /// Calls fail, or records are at risk.
    Urgent,
    /// Something waits for a person.
    Soon,
    /// It works, but something is not as it should be.
    Notice,
}

impl Urgency {
    /// Returns the word as it is serialized.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Urgent => "urgent",
            Self::Soon => "soon",
            Self::Notice => "notice",
        }
    }
}

/// Subject of an entry, in the order of the list.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum AttentionTopic {
    /// The record of calls.
    Record,
    /// The disk with the data.
    Disk,
    /// A source of tools.
    Source,
    /// Calls that wait for an approval.
    Approval,
    /// Definitions of tools that wait for a review.
    Definition,
    /// Items of a toolset that wait for its owner.
    Toolset,
    /// An API key.
    Key,
}

/// Lists what needs a person and is visible to the caller.
///
/// # Errors
/// If the store or the record cannot be read.
pub async fn list_attention(
    state: &ServerState,
    principal: &Principal,
) -> Result<AttentionReply, ApiError> {
    let mut entries = record_entries(state, principal).await?;
    for source in list_sources(state, principal).sources {
        entries.extend(source_entry(&source));
        entries.extend(definition_entry(&source));
    }
    entries.extend(approval_entry(state, principal).await?);
    let waiting = count_waiting_items(state, principal).await?;
    entries.extend(waiting.into_iter().map(toolset_entry));
    entries.extend(key_entries(state, principal).await);
    entries.sort_by(|a, b| {
        let rank = |entry: &AttentionEntry| (entry.urgency, entry.topic);
        rank(a)
            .cmp(&rank(b))
            .then_with(|| a.since.cmp(&b.since))
            .then_with(|| a.subject.cmp(&b.subject))
    });
    let more = entries.len().saturating_sub(MAX_ENTRIES);
    entries.truncate(MAX_ENTRIES);
    Ok(AttentionReply { entries, more })
}

async fn record_entries(
    state: &ServerState,
    principal: &Principal,
) -> Result<Vec<AttentionEntry>, ApiError> {
    let mut entries = Vec::new();
    if !may_see_storage(principal) {
        return Ok(entries);
    }
    let storage = show_storage(state, principal).await?;
    let mut push = |topic, message: String, action: &str| {
        entries.push(AttentionEntry {
            urgency: Urgency::Urgent,
            topic,
            subject: None,
            message,
            since: None,
            action: action.to_owned(),
        });
    };
    if let Some(problem) = storage.problem {
        let message = format!("calls cannot be recorded, so they are refused: {problem}");
        push(AttentionTopic::Record, message, "see `toolkeep error record_unavailable`");
    }
    if storage.damaged > 0 {
        let places = if storage.damaged == 1 { "one place" } else { "several places" };
        let message = format!("the record is damaged in {places}, as the server found");
        let action = "run `toolkeep record verify` for all findings, copy `records/`, and restore \
                      the damaged files from a backup";
        push(AttentionTopic::Record, message, action);
    }
    let verification = show_verification(state, principal)?;
    if verification.state == "damaged" {
        let count = verification
            .more_findings
            .saturating_add(u64::try_from(verification.findings.len()).unwrap_or(u64::MAX));
        let message = format!("the last verification of the record has {count} findings");
        let action = "run `toolkeep record verify` for all findings, copy `records/`, and restore \
                      the damaged files from a backup";
        push(AttentionTopic::Record, message, action);
    }
    if let Some(free) = storage.free_bytes.filter(|free| *free < storage.min_free_bytes) {
        let message = format!("the disk with the record has {} MiB free", free >> 20);
        let action = "free disk space: calls with side effects fail if they cannot be recorded";
        push(AttentionTopic::Disk, message, action);
    }
    Ok(entries)
}

/// The entry of a source that is unavailable, or has problems that the caller may know.
fn source_entry(source: &SourceReply) -> Option<AttentionEntry> {
    let is_away = matches!(source.state, "stale" | "failed");
    if !source.needs_attention {
        return None;
    }
    let first = source.problems.first();
    let state = match source.state {
        "stale" => "is unavailable; its last known tools stay listed",
        "failed" => "failed, and has no tools",
        _ => "works, with problems",
    };
    let mut message = format!("the source `{}` {state}", source.name);
    if let Some(problem) = first {
        message = format!("{message}: {}: {}", problem.location, problem.message);
    }
    let others = source.problems.len().saturating_sub(1);
    if others > 0 {
        message = format!("{message} (and {others} more)");
    }
    let refresh = || format!("mend the source, then run `toolkeep source refresh {}`", source.name);
    Some(AttentionEntry {
        urgency: if is_away { Urgency::Urgent } else { Urgency::Notice },
        topic: AttentionTopic::Source,
        subject: Some(source.name.clone()),
        message,
        since: source.stale_since.clone(),
        action: first.and_then(|problem| problem.help.clone()).unwrap_or_else(refresh),
    })
}

fn definition_entry(source: &SourceReply) -> Option<AttentionEntry> {
    let count = source.pending_pins;
    (count > 0).then(|| AttentionEntry {
        urgency: Urgency::Soon,
        topic: AttentionTopic::Definition,
        subject: Some(source.name.clone()),
        message: match count {
            1 => format!(
                "a tool definition of `{}` waits for a review and is not listed",
                source.name
            ),
            _ => format!(
                "{count} tool definitions of `{}` wait for a review and are not listed",
                source.name
            ),
        },
        since: None,
        action: "run `toolkeep pin list`, then `toolkeep pin diff TOOL`".to_owned(),
    })
}

fn toolset_entry((name, count): (String, usize)) -> AttentionEntry {
    AttentionEntry {
        urgency: Urgency::Soon,
        topic: AttentionTopic::Toolset,
        message: match count {
            1 => format!("an item of the toolset `{name}` differs from what its owner accepted"),
            _ => {
                format!("{count} items of the toolset `{name}` differ from what its owner accepted")
            }
        },
        since: None,
        action: format!("run `toolkeep toolset show {name}`, and accept what it shows"),
        subject: Some(name),
    }
}

async fn approval_entry(
    state: &ServerState,
    principal: &Principal,
) -> Result<Option<AttentionEntry>, ApiError> {
    let pending = state.components.gateway.count_pending_calls(principal).await;
    let pending = pending.map_err(|failure| ApiError::new(failure.code, failure.message))?;
    Ok((pending.count > 0).then(|| AttentionEntry {
        urgency: Urgency::Soon,
        topic: AttentionTopic::Approval,
        subject: None,
        message: match pending.count {
            1 => "a call waits for an approval".to_owned(),
            count => format!("{count} calls wait for an approval"),
        },
        since: pending.oldest_at.map(|since| since.to_string()),
        action: "run `toolkeep approval list`".to_owned(),
    }))
}

/// The keys that end soon: the caller's own, and with the right to manage keys those of its
/// organization. There may be 100,000, so they are read on a blocking thread.
async fn key_entries(state: &ServerState, principal: &Principal) -> Vec<AttentionEntry> {
    let (ring, now) = (state.components.keys.key_ring(), state.components.clock.wall_now());
    let until = now.0.saturating_add(duration_millis(KEY_NOTICE));
    let (all, org) = (principal.has_right(Right::KeysWrite), principal.org().clone());
    let own = principal.key_id().to_owned();
    let read = run_blocking(move || {
        let ends_soon = |record: &KeyRecord| {
            record.org == org
                && (all || record.id.as_str() == own)
                && record.expires_at.is_some_and(|end| end.0 <= until)
                && ring.invalid_reason(record.id.as_str(), now).is_none()
        };
        let records = ring.page_records(None, MAX_KEYS, ends_soon);
        records.into_iter().map(key_entry).collect()
    });
    // It fails only while the process stops.
    read.await.unwrap_or_default()
}

fn key_entry(record: &KeyRecord) -> AttentionEntry {
    let end = record.expires_at.map(|end| end.to_string()).unwrap_or_default();
    AttentionEntry {
        urgency: Urgency::Notice,
        topic: AttentionTopic::Key,
        subject: Some(record.id.to_string()),
        message: format!("the key `{}` of `{}` expires at {end}", record.id, record.subject),
        since: None,
        action: "create another with `toolkeep key create`, and give it to the key's user"
            .to_owned(),
    }
}
