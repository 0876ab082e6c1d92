//! The settings of a source besides its kind: from the file, from one server, or from the environment.

use std::collections::BTreeSet;
use std::time::Duration;

use tool::{Durability, Secret, SourceName, SourceTrust};

use super::source_keys::{CallSettings, ServerSettings, TrustSettings};
use super::{McpToolsConfig, SourceConfig, SourceKind};
use crate::ConfigLocation;

/// The default timeout of a call (spec 0).
const DEFAULT_CALL_TIMEOUT: Duration = Duration::from_secs(30);
/// The default timeout of a call on a source marked `slow` (spec 0).
const DEFAULT_SLOW_CALL_TIMEOUT: Duration = Duration::from_mins(2);
/// The default time without a call after which a server that starts with its first call is stopped.
const DEFAULT_IDLE_STOP: Duration = Duration::from_mins(5);
/// The default timeout of the start of an MCP server at a URL.
const DEFAULT_STARTUP_TIMEOUT: Duration = Duration::from_secs(20);
/// The default timeout of the start of a command, which may download a package first.
const DEFAULT_COMMAND_STARTUP_TIMEOUT: Duration = Duration::from_mins(5);
/// The default limit of one message, in bytes.
const DEFAULT_MAX_MESSAGE_BYTES: usize = 16 << 20;

/// The settings of a source besides its kind.
#[derive(Clone, Default)]
pub(crate) struct SourceSettings {
    pub(in crate::sections) trust: TrustSettings,
    pub(in crate::sections) calls: CallSettings,
    pub(in crate::sections) enabled_tools: Option<BTreeSet<String>>,
    pub(crate) credential: Option<Secret>,
    pub(super) durability: Option<Durability>,
    pub(super) retries_once: bool,
}

impl SourceSettings {
    /// Makes the settings of a module from the environment.
    pub(crate) fn for_module(
        is_slow: bool,
        timeout: Option<Duration>,
        credential: Option<Secret>,
    ) -> Self {
        let trust = TrustSettings { is_slow: Some(is_slow), ..TrustSettings::default() };
        let calls = CallSettings { timeout, ..CallSettings::default() };
        Self { trust, calls, credential, ..Self::default() }
    }

    /// Overrides the settings by those of one server.
    pub(in crate::sections) fn with_overrides(mut self, server: ServerSettings) -> Self {
        let ServerSettings { trust, calls } = server;
        let TrustSettings {
            is_slow,
            trust,
            trust_annotations,
            destructive,
            disabled_tools,
            extensions,
        } = trust;
        let own = &mut self.trust;
        own.is_slow = is_slow.or(own.is_slow);
        own.trust = trust.or(own.trust);
        own.trust_annotations = trust_annotations.or(own.trust_annotations);
        own.destructive = destructive.or(own.destructive.take());
        own.disabled_tools.extend(disabled_tools);
        own.extensions = extensions.or(own.extensions.take());
        let own = &mut self.calls;
        let CallSettings {
            read_only,
            idempotent,
            callable_by_programs,
            timeout,
            startup_timeout,
            starts_on_first_call,
            idle_stop,
            max_message_bytes,
            defer_mode,
        } = calls;
        own.read_only = read_only.or(own.read_only.take());
        own.idempotent = idempotent.or(own.idempotent.take());
        own.callable_by_programs = callable_by_programs.or(own.callable_by_programs.take());
        own.timeout = timeout.or(own.timeout);
        own.startup_timeout = startup_timeout.or(own.startup_timeout);
        own.starts_on_first_call = starts_on_first_call.or(own.starts_on_first_call);
        own.idle_stop = idle_stop.or(own.idle_stop);
        own.max_message_bytes = max_message_bytes.or(own.max_message_bytes);
        own.defer_mode = defer_mode.or(own.defer_mode);
        self
    }

    /// Makes the source with these settings.
    pub(crate) fn into_source(
        self,
        name: SourceName,
        kind: SourceKind,
        location: ConfigLocation,
    ) -> SourceConfig {
        let Self { trust, calls, enabled_tools, credential, durability, retries_once } = self;
        let is_slow = trust.is_slow.unwrap_or_default();
        let call_timeout = if is_slow { DEFAULT_SLOW_CALL_TIMEOUT } else { DEFAULT_CALL_TIMEOUT };
        let startup_timeout = match kind {
            SourceKind::McpCommand(_) => DEFAULT_COMMAND_STARTUP_TIMEOUT,
            _ => DEFAULT_STARTUP_TIMEOUT,
        };
        SourceConfig {
            name,
            location,
            is_slow,
            trust: trust.trust.unwrap_or(if kind.is_mcp() {
                SourceTrust::FirstUse
            } else {
                SourceTrust::Full
            }),
            credential,
            durability,
            defer_mode: calls.defer_mode.unwrap_or_default(),
            read_only: calls.read_only.unwrap_or_default(),
            idempotent: calls.idempotent.unwrap_or_default(),
            callable_by_programs: calls.callable_by_programs.unwrap_or_default(),
            timeout: calls.timeout.unwrap_or(call_timeout),
            mcp_tools: McpToolsConfig {
                trust_annotations: trust.trust_annotations.unwrap_or_default(),
                destructive: trust.destructive,
                disabled_tools: trust.disabled_tools,
                enabled_tools,
                extensions: trust.extensions,
            },
            retries_once,
            startup_timeout: calls.startup_timeout.unwrap_or(startup_timeout),
            idle_stop: calls
                .starts_on_first_call
                .unwrap_or_default()
                .then(|| calls.idle_stop.unwrap_or(DEFAULT_IDLE_STOP)),
            max_message_bytes: calls.max_message_bytes.unwrap_or(DEFAULT_MAX_MESSAGE_BYTES),
            kind,
        }
    }
}
