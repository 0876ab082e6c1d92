//! Redaction of configured secrets that a source must not return to callers.

use source_layers::redaction::{RedactedValue, Redaction};

use super::source_factory::process_spec;
use config::{SourceConfig, SourceKind};

/// Returns the secrets to redact for one source. Tool files need none: their tools redact the
/// file's own.
pub(crate) fn source_redaction(config: &SourceConfig) -> Redaction {
    let mut values: Vec<_> =
        config.credential.iter().cloned().map(RedactedValue::from_credential).collect();
    match &config.kind {
        SourceKind::ToolFile(_) => return Redaction::default(),
        SourceKind::McpCommand(command) => return Redaction::from_command(&process_spec(command)),
        SourceKind::Module(url) => values.extend(RedactedValue::from_url_query(url.as_str())),
        SourceKind::McpUrl { url, headers, oauth, per_caller } => {
            values.extend(RedactedValue::from_url_query(url.as_str()));
            let headers = headers.iter();
            values.extend(
                headers.map(|(name, it)| RedactedValue::from_named(name.as_str(), it.clone())),
            );
            if let Some(oauth) = oauth {
                values.extend(
                    oauth.client_auth.secret().cloned().map(RedactedValue::from_credential),
                );
                values.extend(
                    oauth.token_endpoint.iter().flat_map(|it| RedactedValue::from_url_query(it)),
                );
            }
            let each = per_caller.iter().flat_map(|each| each.header_values.values());
            values.extend(each.cloned().map(RedactedValue::from_credential));
        }
    }
    Redaction::new(&values)
}
