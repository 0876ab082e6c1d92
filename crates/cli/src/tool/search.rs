//! Implements `toolkeep tool search`, which ranks tools for the words of a task.

use clap::Args;
use serde_json::Value;

use cli_core::command_context::CommandContext;
use cli_core::command_error::{CommandError, ExitStatus, pluralize};
use cli_core::json_fields;
use cli_core::printer::{Printer, format_table};
use cli_core::rest_client::RequestPath;

/// Search the tools that the key may call for the words of a task.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  toolkeep tool search \"send a message to a colleague\"
  toolkeep tool search \"read a csv file\" \"draw a chart\" -k 4
  toolkeep tool search \"weather\" --budget 2000 -o json")]
pub(crate) struct ToolSearchArgs {
    /// Words of a task; one argument for each sub-task, so that each gets its share of the results.
    #[arg(value_name = "QUERY", required = true)]
    queries: Vec<String>,
    /// Number of results, 1 to 100 [default: 5, or 3 for each query if that is more].
    #[arg(short = 'k', long = "results", value_name = "N")]
    results: Option<usize>,
    /// Maximum number of tokens of all definitions in JSON output.
    #[arg(long, value_name = "TOKENS")]
    budget: Option<usize>,
}

impl ToolSearchArgs {
    pub(super) async fn run(
        self,
        context: &CommandContext<'_>,
        ui: &mut Printer,
    ) -> Result<ExitStatus, CommandError> {
        let session = context.connect().await?;
        session.wait_for_listing(None, ui).await;
        let mut path = RequestPath::from_segments("/v1/search", &[]).with_query("k", self.results);
        for query in &self.queries {
            path = path.with_query("q", Some(query));
        }
        let found = session.client.get_json(&path.with_query("budget", self.budget)).await;
        let shown = found.and_then(|answer| ui.print_result(&answer, || format_results(&answer)));
        session.close().await?;
        shown.map(|()| ExitStatus::Success)
    }
}

fn format_results(answer: &Value) -> String {
    let results = json_fields::field_items(answer, "results");
    if results.is_empty() {
        return "no tool fits; use other words, or run `toolkeep tool list`".to_owned();
    }
    let row = |result: &Value| {
        let score = result.get("score").and_then(Value::as_f64).unwrap_or_default();
        let definition = result.get("definition").unwrap_or(&Value::Null);
        [
            format!("{score:.2}"),
            json_fields::field_line(result, "name", 60),
            json_fields::field_line(result, "source", 24),
            matched_words(result),
            json_fields::field_line(definition, "description", 60),
        ]
    };
    let rows: Vec<_> = results.iter().map(row).collect();
    let count = format!("{} {}", rows.len(), pluralize(rows.len(), "tool"));
    format!(
        "{}\n\n{count}",
        format_table(["SCORE", "NAME", "SOURCE", "WORDS", "DESCRIPTION"], &rows)
    )
}

/// Returns the words that matched, the corrected ones with what was searched instead, and those that were learned
/// marked.
fn matched_words(result: &Value) -> String {
    let words = json_fields::field_items(result, "why").iter().map(|it| {
        let word = json_fields::field_line(it, "word", 24);
        match it.get("correction") {
            None if it["learned"] == true => format!("{word} (learned)"),
            Some(_) => format!("{word} → {}", json_fields::field_line(it, "correction", 24)),
            None => word,
        }
    });
    words.take(4).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::format_results;

    #[test]
    fn results_are_shown_with_what_matched() {
        let answer = json!({"results": [
            {"score": 1.0, "name": "send_mail", "source": "office", "definition": {"description": "Sends\na mail."},
             "why": [{"word": "mial", "correction": "mail", "fields": ["name"]}, {"word": "send", "fields": ["name"]}]},
            {"score": 0.256, "name": "post", "source": "chat", "definition": {"description": "Posts."},
             "why": [{"word": "standup", "fields": [], "learned": true}]},
        ]});
        let text = format_results(&answer);
        let lines: Vec<&str> = text.lines().collect();
        assert!(lines[0].starts_with("SCORE"), "{text}");
        assert!(lines[1].contains("1.00") && lines[1].contains("mial → mail, send"), "{text}");
        assert!(
            lines[2].contains("0.26")
                && lines[2].contains("standup (learned)")
                && text.ends_with("2 tools"),
            "{text}"
        );
        assert!(format_results(&json!({"results": []})).contains("no tool fits"));
    }
}
