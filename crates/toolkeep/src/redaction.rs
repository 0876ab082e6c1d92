//! What a source is given by the configuration and must not send back to anybody.

use source_layers::redaction::{GivenValue, Redaction};

use super::sources::spec;
use config::{SourceConfig, SourceKind};

/// The values that a source is given. A tool file's stand in the file: its tools remove them by themselves.
pub(crate) fn of(config: &SourceConfig) -> Redaction {
    let mut values: Vec<_> =
        config.credential.iter().cloned().map(GivenValue::credential).collect();
    match &config.kind {
        SourceKind::ToolFile(_) => return Redaction::default(),
        SourceKind::McpCommand(command) => return Redaction::of_command(&spec(command)),
        SourceKind::Module(url) => values.extend(GivenValue::of_url(url.as_str())),
        SourceKind::McpUrl { url, headers, oauth, per_caller } => {
            values.extend(GivenValue::of_url(url.as_str()));
            let headers = headers.iter();
            values.extend(headers.map(|(name, it)| GivenValue::named(name.as_str(), it.clone())));
            if let Some(oauth) = oauth {
                values.extend(oauth.proof.secret().cloned().map(GivenValue::credential));
                values.extend(oauth.token_endpoint.iter().flat_map(|it| GivenValue::of_url(it)));
            }
            let each = per_caller.iter().flat_map(|each| each.values.values());
            values.extend(each.cloned().map(GivenValue::credential));
        }
    }
    Redaction::new(&values)
}
