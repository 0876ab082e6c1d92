//! Implements `toolkeep module`: commands for HTTP modules.

use clap::{Args, Subcommand};
use serde_json::{Value, json};

use cli_core::client::Path;
use cli_core::context::Context;
use cli_core::failure::{Exit, Failure};
use cli_core::ui::{self, Ui};
use cli_core::value;

/// See how HTTP modules are; have them discovered anew. Needs the right `sources:refresh`.
#[derive(Debug, Subcommand)]
pub(crate) enum Module {
    List(List),
    Refresh(Refresh),
}

impl Module {
    pub(crate) async fn run(self, context: &Context<'_>, ui: &mut Ui) -> Result<Exit, Failure> {
        match self {
            Self::List(command) => command.run(context, ui).await,
            Self::Refresh(command) => command.run(context, ui).await,
        }
    }
}

/// List the modules: where each is, and whether it says that it is healthy.
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  toolkeep module list")]
pub(crate) struct List {}

impl List {
    async fn run(self, context: &Context<'_>, ui: &mut Ui) -> Result<Exit, Failure> {
        let session = context.connect().await?;
        session.list_sources(None, ui).await;
        let answer = session.client.get(&Path::new("/api/modules", &[])).await;
        session.end().await?;
        let answer = answer?;
        ui.answer(&answer, || text(value::list(&answer, "modules")))?;
        Ok(Exit::Done)
    }
}

/// Have all modules discovered anew.
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  toolkeep module refresh")]
pub(crate) struct Refresh {}

impl Refresh {
    async fn run(self, context: &Context<'_>, ui: &mut Ui) -> Result<Exit, Failure> {
        let session = context.connect().await?;
        session.list_sources(None, ui).await;
        let answer = session.client.post(&Path::new("/refresh-tools", &[]), &json!({})).await;
        session.end().await?;
        let answer: Value = answer?;
        ui.answer(&answer, || {
            let modules = value::line(&answer, "modules", 4_000);
            if modules.is_empty() { "no modules".to_owned() } else { modules }
        })?;
        Ok(Exit::Done)
    }
}

/// Formats modules in the module API's format, followed by their problems.
fn text(modules: &[Value]) -> String {
    if modules.is_empty() {
        return "no modules".to_owned();
    }
    let lines = modules.iter().map(|module| {
        let line = |key, width| value::line(module, key, width);
        let since = line("stale_since", 24);
        let stale = if since.is_empty() { since } else { format!(", stale since {since}") };
        let below = |text: String, problem: String| text + "\n    = " + &problem;
        let problem = problems(module).fold(String::new(), below);
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
const SHOWN: usize = 10;

/// Returns the first problems of a module, and the number of further ones.
fn problems(module: &Value) -> impl Iterator<Item = String> {
    let all = value::list(module, "problems");
    let more = all.len().saturating_sub(SHOWN);
    let more = (more > 0).then(|| format!("and {more} more: `toolkeep source list`"));
    all.iter()
        .take(SHOWN)
        .filter_map(Value::as_str)
        .map(|problem| ui::line(problem, 300))
        .chain(more)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::text;

    #[test]
    fn modules_are_listed_with_their_health_as_spec_0_prints_it() {
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
        assert_eq!(text(&modules), expected);
        let mut many = module("healthy", None, None);
        many["problems"] = (0..12).map(|n| format!("tool {n}")).collect();
        let listed = text(&[many]);
        assert_eq!(listed.lines().count(), 12, "{listed}");
        assert!(listed.contains("= tool 9\n    = and 2 more"), "{listed}");
        assert_eq!(text(&[]), "no modules");
    }
}
