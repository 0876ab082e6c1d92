//! Implements `toolkeep policy preview`, which shows what another policy would change on a server.

use std::path::PathBuf;

use clap::Args;
use serde_json::{Value, json};

use cli_core::command_context::CommandContext;
use cli_core::command_error::{CommandError, ExitStatus};
use cli_core::json_fields;
use cli_core::printer::{Printer, format_table};
use cli_core::rest_client::RequestPath;
use cli_core::server_transport::SourceNeed;

/// Show which keys would get other access to which tools under the policy of a configuration file.
///
/// The server compares it with its active policy, for all valid keys; nothing is changed. Variables
/// in the policy are not expanded. Requires the right `policy:explain`, as owner.key has it. Exits
/// with 1 if any access would change.
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  toolkeep policy preview toolkeep.new.yaml")]
pub(crate) struct PolicyPreviewArgs {
    /// Configuration file with the policy.
    #[arg(value_name = "FILE")]
    file: PathBuf,
}

impl PolicyPreviewArgs {
    pub(super) async fn run(
        self,
        context: &CommandContext<'_>,
        ui: &mut Printer,
    ) -> Result<ExitStatus, CommandError> {
        let file = context.load_options(None).current_dir.join(&self.file);
        let policy = config::read_policy_text(&file).map_err(|error| {
            CommandError::from_config_errors(config::ConfigErrors::single(error))
        })?;
        let session = context.connect().await?;
        session.wait_for_sources(SourceNeed::Overview, ui).await;
        let path = RequestPath::from_segments("/v1/policy/preview", &[]);
        let answer = session.client.post_json(&path, &json!({ "policy": policy })).await;
        session.close().await?;
        let answer: Value = answer?;
        ui.print_result(&answer, || format_preview(&answer))?;
        let is_same = json_fields::field_items(&answer, "changes").is_empty();
        Ok(if is_same { ExitStatus::Success } else { ExitStatus::Failed })
    }
}

fn format_preview(answer: &Value) -> String {
    let count = |key| json_fields::field_line(answer, key, 20);
    let compared = format!("compared for {} keys and {} tools", count("keys"), count("tools"));
    let changes = json_fields::field_items(answer, "changes");
    if changes.is_empty() {
        return format!("{compared}: no key would get other access");
    }
    let access = |change: &Value, key: &str| {
        let access = change.get(key).unwrap_or(&Value::Null);
        let line = |key| json_fields::field_line(access, key, 40);
        format!("{} ({})", line("decision"), line("reason"))
    };
    let row = |change: &Value| {
        let keys = json_fields::field_items(change, "keys").iter();
        let keys: Vec<_> = keys.map(|key| json_fields::field_line(key, "subject", 24)).collect();
        let line = |key, width| json_fields::field_line(change, key, width);
        [
            line("tool", 60),
            access(change, "was"),
            access(change, "is"),
            line("key_count", 10),
            keys.join(", "),
        ]
    };
    let rows: Vec<_> = changes.iter().map(row).collect();
    let table = format_table(["TOOL", "NOW", "THEN", "KEYS", "WHOSE"], &rows);
    let more = match count("more").as_str() {
        "0" | "" => String::new(),
        more => format!("\nand {more} more changes"),
    };
    format!("{compared}:\n{table}{more}")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::format_preview;

    #[test]
    fn each_change_names_the_tool_and_whose_keys_it_concerns() {
        let mut answer = json!({"keys": 2, "tools": 9, "more": 0, "changes": []});
        assert_eq!(
            format_preview(&answer),
            "compared for 2 keys and 9 tools: no key would get other access"
        );
        answer["changes"] = json!([{"tool": "mail\u{1b}", "key_count": 1,
            "was": {"decision": "allow", "reason": "allowed"},
            "is": {"decision": "hidden", "reason": "deny_rule"},
            "keys": [{"id": "k", "subject": "ann"}]}]);
        answer["more"] = json!(3);
        let text = format_preview(&answer);
        assert!(text.contains("allow (allowed)  hidden (deny_rule)  1     ann"), "{text}");
        assert!(text.contains("mail\u{fffd}") && text.ends_with("and 3 more changes"), "{text}");
    }
}
