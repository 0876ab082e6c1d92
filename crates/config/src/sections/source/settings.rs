//! What is said of a source beside what it is: of the file, of one server, of the environment.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::Duration;

use tool::{Durability, Secret, SourceName, Trust};

use super::keys::{CallSettings, ServerSettings, TrustSettings};
use super::{McpTools, SourceConfig, SourceKind};
use crate::Place;

/// Time for one call where nothing is said (spec 0).
const TIMEOUT: Duration = Duration::from_secs(30);
/// The same for a source marked `slow` (spec 0).
const SLOW_TIMEOUT: Duration = Duration::from_mins(2);
/// Time for a start, and for one that may have to download a package first.
const STARTUP: Duration = Duration::from_secs(20);
const STARTUP_OF_COMMAND: Duration = Duration::from_mins(5);
/// Bytes of one message.
const MESSAGE: usize = 16 << 20;

/// What is said of a source beside what it is.
#[derive(Clone, Default)]
pub(crate) struct SourceSettings {
    pub(in crate::sections) trusted: TrustSettings,
    pub(in crate::sections) calls: CallSettings,
    pub(in crate::sections) enabled_tools: Option<BTreeSet<String>>,
    pub(crate) credential: Option<Secret>,
    pub(super) durability: Option<Durability>,
    pub(super) retry: bool,
}

impl SourceSettings {
    /// Of a module that the environment names.
    pub(crate) fn of_module(
        slow: bool,
        timeout: Option<Duration>,
        credential: Option<Secret>,
    ) -> Self {
        let trusted = TrustSettings { slow: Some(slow), ..TrustSettings::default() };
        let calls = CallSettings { timeout, ..CallSettings::default() };
        Self { trusted, calls, credential, ..Self::default() }
    }

    /// These with the operator's words on one server.
    pub(in crate::sections) fn over(mut self, server: ServerSettings) -> Self {
        let ServerSettings { trusted, calls } = server;
        let TrustSettings { slow, trust, trust_annotations, destructive, disabled_tools } = trusted;
        let own = &mut self.trusted;
        own.slow = slow.or(own.slow);
        own.trust = trust.or(own.trust);
        own.trust_annotations = trust_annotations.or(own.trust_annotations);
        own.destructive = destructive.or(own.destructive.take());
        own.disabled_tools.extend(disabled_tools);
        let own = &mut self.calls;
        let CallSettings { read_only, idempotent, chain, timeout, startup_timeout, max_message } =
            calls;
        own.read_only = read_only.or(own.read_only.take());
        own.idempotent = idempotent.or(own.idempotent.take());
        own.chain = chain.or(own.chain.take());
        own.timeout = timeout.or(own.timeout);
        own.startup_timeout = startup_timeout.or(own.startup_timeout);
        own.max_message = max_message.or(own.max_message);
        self
    }

    /// The source that has them.
    pub(crate) fn source(
        self,
        name: SourceName,
        kind: SourceKind,
        written: (PathBuf, Place),
    ) -> SourceConfig {
        let Self { trusted, calls, enabled_tools, credential, durability, retry } = self;
        let slow = trusted.slow.unwrap_or_default();
        let startup = match kind {
            SourceKind::McpCommand(_) => STARTUP_OF_COMMAND,
            _ => STARTUP,
        };
        SourceConfig {
            name,
            written,
            slow,
            trust: trusted.trust.unwrap_or(if kind.is_mcp() {
                Trust::FirstUse
            } else {
                Trust::Full
            }),
            credential,
            durability,
            read_only: calls.read_only.unwrap_or_default(),
            idempotent: calls.idempotent.unwrap_or_default(),
            chain: calls.chain.unwrap_or_default(),
            timeout: calls.timeout.unwrap_or(if slow { SLOW_TIMEOUT } else { TIMEOUT }),
            mcp_tools: McpTools {
                trust_annotations: trusted.trust_annotations.unwrap_or_default(),
                destructive: trusted.destructive,
                disabled: trusted.disabled_tools,
                enabled: enabled_tools,
            },
            retry,
            startup_timeout: calls.startup_timeout.unwrap_or(startup),
            max_message: calls.max_message.unwrap_or(MESSAGE),
            kind,
        }
    }
}
