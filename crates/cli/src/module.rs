//! Implements `toolkeep module`: commands for HTTP modules.

use clap::{Args, Subcommand};
use serde_json::{Value, json};

use cli_core::command_context::CommandContext;
use cli_core::command_error::{CommandError, ExitStatus};
use cli_core::json_fields;
use cli_core::printer::{self, Printer};
use cli_core::rest_client::RequestPath;

/// List and refresh HTTP modules. Requires the right `sources:refresh`.
#[derive(Debug, Subcommand)]
pub(crate) enum ModuleCommand {
    List(ModuleListArgs),
    Refresh(ModuleRefreshArgs),
}

impl ModuleCommand {
    pub(crate) async fn run(
        self,
        context: &CommandContext<'_>,
        ui: &mut Printer,
    ) -> Result<ExitStatus, CommandError> {
        match self {
            Self::List(command) => command.run(context, ui).await,
            Self::Refresh(command) => command.run(context, ui).await,
        }
    }
}

/// List the HTTP modules with their address and health.
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  toolkeep module list")]
pub(crate) struct ModuleListArgs {}

impl ModuleListArgs {
    async fn run(
        self,
        context: &CommandContext<'_>,
        ui: &mut Printer,
    ) -> Result<ExitStatus, CommandError> {
        let session = context.connect().await?;
        session.wait_for_listing(None, ui).await;
        let answer =
            session.client.get_json(&RequestPath::from_segments("/api/modules", &[])).await;
        session.close().await?;
        let answer = answer?;
        ui.print_result(&answer, || format_modules(json_fields::field_items(&answer, "modules")))?;
        Ok(ExitStatus::Success)
    }
}

/// Refresh the manifests of all HTTP modules.
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  toolkeep module refresh")]
pub(crate) struct ModuleRefreshArgs {}

impl ModuleRefreshArgs {
    async fn run(
        self,
        context: &CommandContext<'_>,
        ui: &mut Printer,
    ) -> Result<ExitStatus, CommandError> {
        let session = context.connect().await?;
        session.wait_for_listing(None, ui).await;
        let answer = session
            .client
            .post_json(&RequestPath::from_segments("/refresh-tools", &[]), &json!({}))
            .await;
        session.close().await?;
        let answer: Value = answer?;
        ui.print_result(&answer, || {
            let modules = json_fields::field_line(&answer, "modules", 4_000);
            if modules.is_empty() { "no modules".to_owned() } else { modules }
        })?;
        Ok(ExitStatus::Success)
    }
}

/// Formats modules in the module API's format, followed by their problems.
fn format_modules(modules: &[Value]) -> String {
    if modules.is_empty() {
        return "no modules".to_owned();
    }
    let lines = modules.iter().map(|module| {
        let line = |key, width| json_fields::field_line(module, key, width);
        let since = line("stale_since", 24);
        let stale = if since.is_empty() { since } else { format!(", stale since {since}") };
        let below = |text: String, problem: String| text + "\n    = " + &problem;
        let problem = first_problems(module).fold(String::new(), below);
        let (name, url, health) = (line("name", 80), line("url", 120), line("health", 20));
        let tools = match line("tools", 8).as_str() {
            "1" => "1 tool".to_owned(),
            tools => format!("{tools} tools"),
        };
        format!("{name}: {url} — {health}, {tools}{stale}{problem}")
    });
    lines.collect::<Vec<_>>().join("\n")
}

/// Maximum number of problems shown per module.
const MAX_PROBLEMS: usize = 10;

/// Returns the first problems of a module, and the number of further ones.
fn first_problems(module: &Value) -> impl Iterator<Item = String> {
    let all = json_fields::field_items(module, "problems");
    let more = all.len().saturating_sub(MAX_PROBLEMS);
    let more = (more > 0).then(|| format!("and {more} more: `toolkeep source list`"));
    all.iter()
        .take(MAX_PROBLEMS)
        .filter_map(Value::as_str)
        .map(|problem| printer::sanitize_line(problem, 300))
        .chain(more)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::format_modules;

    #[test]
    fn modules_are_listed_with_their_health_as_the_module_api_prints_it() {
        let module = |health: &str, since: Option<&str>, problem: Option<&str>| {
            json!({ "name": "research", "url": "http://research:8000", "health": health,
                "tools": 4, "stale_since": since, "problem": problem,
                "problems": problem.into_iter().collect::<Vec<_>>() })
        };
        let modules = [
            module("healthy", None, None),
            module("unhealthy (503)", None, None),
            module("unreachable", Some("T"), Some("Connection refused")),
        ];
        let expected = "\
research: http://research:8000 — healthy, 4 tools
research: http://research:8000 — unhealthy (503), 4 tools
research: http://research:8000 — unreachable, 4 tools, stale since T
    = Connection refused";
        assert_eq!(format_modules(&modules), expected);
        let mut many = module("healthy", None, None);
        many["problems"] = (0..12).map(|n| format!("tool {n}")).collect();
        let listed = format_modules(&[many]);
        assert_eq!(listed.lines().count(), 12, "{listed}");
        assert!(listed.contains("= tool 9\n    = and 2 more"), "{listed}");
        assert_eq!(format_modules(&[]), "no modules");
    }
}
