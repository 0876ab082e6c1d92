//! Suggestions for mistyped names and misplaced subcommands. The names are requested with the
//! caller's own key, so that nothing hidden is revealed.

use clap::CommandFactory as _;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use serde_json::Value;
use tool::Code;

use super::Line;
use super::pin;
use cli_core::client::{Client, Path};
use cli_core::failure::Failure;
use cli_core::value;
use tool::nearest_name;

/// The list that contains the names of one kind.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Kind {
    code: Code,
    path: &'static str,
    field: &'static str,
    command: &'static str,
}

/// The list of tools.
pub(crate) const TOOL: Kind = Kind {
    code: Code::UnknownTool,
    path: "/v1/tools",
    field: "tools",
    command: "toolkeep tool list",
};
/// The list of sources.
pub(crate) const SOURCE: Kind = Kind {
    code: Code::NotFound,
    path: "/v1/sources",
    field: "sources",
    command: "toolkeep source list",
};

/// Adds the nearest known name to an error about an unknown name.
pub(crate) async fn named(kind: Kind, client: &Client, word: &str, failure: Failure) -> Failure {
    if !failure.is_bare(kind.code) {
        return failure;
    }
    if let Some(fix) = waiting(kind, client, word).await {
        return failure.fix(fix);
    }
    let listed = client.get(&Path::new(kind.path, &[])).await.unwrap_or_default();
    let all = listed.get(kind.field).and_then(Value::as_array).into_iter().flatten();
    let names: Vec<_> = all.filter_map(|one| one.get("name")?.as_str()).collect();
    if let Some(own) = builtin_name(kind, word) {
        let sources = client.get(&Path::new("/v1/sources", &[])).await.unwrap_or_default();
        return failure.fix(absent(own, &sources));
    }
    let shows = format!("`{}` shows what there is", kind.command);
    failure.fix(match nearest_name(word, names.iter().copied()) {
        Some(near) => format!("did you mean `{}`? {shows}", cli_core::ui::clean(near)),
        None => shows,
    })
}

/// Returns the name of a built-in tool, if the word is one.
fn builtin_name(kind: Kind, word: &str) -> Option<&str> {
    let prefix = format!("{}.", tool::name::BUILTIN);
    let own = word.strip_prefix(&prefix).unwrap_or(word);
    let is_builtin = || builtin_manifests::names().any(|name| name == own);
    (kind.code == Code::UnknownTool && is_builtin()).then_some(own)
}

/// Explains why a built-in tool is missing: by `/v1/sources` as visible to this key, or by the
/// possible reasons.
fn absent(own: &str, sources: &Value) -> String {
    let sources = sources.get("sources").and_then(Value::as_array).into_iter().flatten();
    let of_builtins =
        |one: &&Value| one.get("kind").and_then(Value::as_str) == Some(tool::name::BUILTIN);
    let place = format!("tool {own}");
    let problems = sources.filter(of_builtins).filter_map(|one| one.get("problems")?.as_array());
    let problem = problems
        .flatten()
        .find(|it| it.get("place").and_then(Value::as_str) == Some(place.as_str()));
    let part = |key: &str| cli_core::value::line(problem.unwrap_or(&Value::Null), key, 300);
    match (part("message"), part("fix")) {
        (message, _) if message.is_empty() => format!(
            "`{own}` is a built-in tool that is switched off (`builtins.tools.{own}.enabled: false`), or that the policy or \
             this key's persona hides"
        ),
        (message, fix) if fix.is_empty() => format!("`{own}` {message}"),
        (message, fix) => format!("`{own}` {message}: {fix}"),
    }
}

/// Returns advice for a tool whose definition awaits review, if this key may see that.
async fn waiting(kind: Kind, client: &Client, word: &str) -> Option<String> {
    if kind.code != Code::UnknownTool {
        return None;
    }
    let pins = pin::all(client, None, Some("waiting")).await.ok()?;
    let found = pins.iter().find(|pin| pin.get("tool").and_then(Value::as_str) == Some(word))?;
    let state = value::line(found, "state", 12);
    let name = format!("{}/{}", value::line(found, "source", 128), value::line(found, "tool", 128));
    Some(format!(
        "its definition is {state}, and nobody can call it: `toolkeep pin diff {name}` shows it, \
         `toolkeep pin approve {name}` agrees to it"
    ))
}

/// Suggests the full command for a misplaced subcommand such as `list`.
pub(crate) fn misplaced(error: &mut clap::Error) {
    let told = error.get(ContextKind::SuggestedSubcommand).is_some();
    let (ErrorKind::InvalidSubcommand, false) = (error.kind(), told) else { return };
    let Some(ContextValue::String(word)) = error.get(ContextKind::InvalidSubcommand) else {
        return;
    };
    let line = Line::command();
    let homes = line.get_subcommands().filter(|one| one.find_subcommand(word).is_some());
    let homes: Vec<_> = homes.map(|one| format!("`toolkeep {} {word}`", one.get_name())).collect();
    if !homes.is_empty() {
        let tip = format!("there is {}", homes.join(", "));
        error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![tip.into()]));
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;
    use serde_json::json;

    use super::{Line, SOURCE, TOOL, absent, builtin_name, misplaced};

    #[test]
    fn a_built_in_tool_that_is_absent_has_its_reason() {
        assert_eq!(builtin_name(TOOL, "embed_text"), Some("embed_text"));
        assert_eq!(builtin_name(TOOL, "builtin.run_shell"), Some("run_shell"));
        assert_eq!((builtin_name(TOOL, "embed"), builtin_name(SOURCE, "echo")), (None, None));
        let problem = json!({"place": "tool run_shell", "message": "is not offered: no cage", "fix": "allow one"});
        let of = |kind: &str| json!({"sources": [{"kind": kind, "problems": [problem]}]});
        let told = absent("run_shell", &of("builtin"));
        assert_eq!(told, "`run_shell` is not offered: no cage: allow one");
        // The control: a problem of another tool, or of another source, is none of it.
        for told in [absent("embed_text", &of("builtin")), absent("run_shell", &of("mcp"))] {
            assert!(told.contains(".enabled: false`") && !told.contains("cage"), "{told}");
        }
    }

    fn told(words: &[&str]) -> String {
        let mut error = Line::try_parse_from(words).unwrap_err();
        misplaced(&mut error);
        error.to_string()
    }

    #[test]
    fn a_command_that_is_anothers_is_told_with_its_place() {
        let call = told(&["toolkeep", "call", "calculator"]);
        assert!(call.contains("tip: there is `toolkeep tool call`"), "{call}");
        let list = told(&["toolkeep", "list"]);
        assert!(list.contains("`toolkeep tool list`, `toolkeep source list`"), "{list}");
        for words in
            [&["toolkeep", "xyzzy"][..], &["toolkeep", "tool", "lst"], &["toolkeep", "serv"]]
        {
            assert!(!told(words).contains("there is"), "{}", told(words));
        }
    }
}
