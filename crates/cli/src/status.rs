//! Implements `toolkeep status`, which checks that a server is running and ready.

use clap::Args;
use serde::Serialize;
use serde_json::Value;

use cli_core::command_context::CommandContext;
use cli_core::command_error::{CommandError, ExitStatus};
use cli_core::data_dir::FirstKey;
use cli_core::json_fields;
use cli_core::printer::Printer;
use cli_core::rest_client::{RequestPath, RestClient};

/// Check that a server is running and can record calls.
///
/// Asks the server that uses the data directory, or the one that `--url` names. Starts no server and
/// needs no key. With a key, also lists what needs a person, the most urgent first. Exits with 4 if no server is running, or if it is not ready. Use it as the health
/// check of a container.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  toolkeep status
  toolkeep status --url http://127.0.0.1:8080 -o json")]
pub(crate) struct StatusArgs {}

/// A server that is ready.
#[derive(Debug, Serialize)]
struct ServerStatus {
    address: String,
    status: &'static str,
    /// What needs a person; absent if there is no key to ask with.
    #[serde(skip_serializing_if = "Option::is_none")]
    attention: Option<Vec<Value>>,
}

impl StatusArgs {
    pub(crate) async fn run(
        self,
        context: &CommandContext<'_>,
        ui: &mut Printer,
    ) -> Result<ExitStatus, CommandError> {
        let (address, client) = context.require_server()?;
        client.get_json(&RequestPath::from_segments("/readyz", &[])).await.map_err(|failure| {
            let message = format!("the server at {address} is not ready: {failure}");
            CommandError::new(ExitStatus::ServerUnavailable, message)
                .with_help("run `toolkeep doctor`, and read the log of the server")
        })?;
        let attention = list_attention(context, &client).await;
        let status = ServerStatus { address, status: "ready", attention };
        ui.print_result(&status, || format_status(&status))?;
        Ok(ExitStatus::Success)
    }
}

/// Asks for what needs a person: with the given key, or the owner's of the local data directory.
/// Without one, or if the server refuses it, the status says nothing about it.
async fn list_attention(context: &CommandContext<'_>, client: &RestClient) -> Option<Vec<Value>> {
    let (url, given) = context.server_and_key();
    let own = || context.load_data_dir().ok()?.read_key(FirstKey::Owner).ok();
    let key = if url.is_some() { given } else { given.or_else(own) };
    let path = RequestPath::from_segments("/v1/attention", &[]);
    let answer = client.with_key(key?).get_json(&path).await.ok()?;
    Some(json_fields::field_items(&answer, "entries").to_vec())
}

fn format_status(status: &ServerStatus) -> String {
    let entries = status.attention.iter().flatten().map(|entry| {
        let line = |name, limit| json_fields::field_line(entry, name, limit);
        format!(
            "\n{}: {}\n  help: {}",
            line("urgency", 10),
            line("message", 300),
            line("action", 200)
        )
    });
    let entries: String = entries.collect();
    format!("ready: {}{entries}", status.address)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{ServerStatus, format_status};

    #[test]
    fn entries_follow_the_address() {
        let entry = json!({"urgency": "soon", "topic": "approval", "message": "2 calls wait\u{1b}[8m",
            "action": "run `toolkeep approval list`"});
        let status = ServerStatus {
            address: "http://127.0.0.1:1".to_owned(),
            status: "ready",
            attention: Some(vec![entry]),
        };
        assert_eq!(
            format_status(&status),
            "ready: http://127.0.0.1:1\nsoon: 2 calls wait\u{fffd}[8m\n  help: run `toolkeep approval list`"
        );
        let quiet = ServerStatus { attention: None, ..status };
        assert_eq!(format_status(&quiet), "ready: http://127.0.0.1:1");
    }
}
