//! Suggestions for mistyped names and misplaced subcommands. The names are requested with the
//! caller's own key, so that nothing hidden is revealed.

use clap::CommandFactory as _;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use serde_json::Value;
use tool::ErrorCode;

use super::Cli;
use super::pin;
use cli_core::command_error::CommandError;
use cli_core::json_fields;
use cli_core::rest_client::{RequestPath, RestClient};
use tool::find_nearest_name;

/// The list that contains the names of one kind.
#[derive(Debug, Clone, Copy)]
pub(crate) struct NameList {
    not_found_code: ErrorCode,
    path: &'static str,
    list_key: &'static str,
    command: &'static str,
}

/// The list of tools.
pub(crate) const TOOL_NAMES: NameList = NameList {
    not_found_code: ErrorCode::UnknownTool,
    path: "/v1/tools",
    list_key: "tools",
    command: "toolkeep tool list",
};
/// The list of sources.
pub(crate) const SOURCE_NAMES: NameList = NameList {
    not_found_code: ErrorCode::NotFound,
    path: "/v1/sources",
    list_key: "sources",
    command: "toolkeep source list",
};

/// Adds the nearest known name to an error about an unknown name.
pub(crate) async fn with_name_suggestion(
    kind: NameList,
    client: &RestClient,
    typed_name: &str,
    error: CommandError,
) -> CommandError {
    if !error.is_without_help(kind.not_found_code) {
        return error;
    }
    if let Some(fix) = pending_definition_help(kind, client, typed_name).await {
        return error.with_help(fix);
    }
    let listed =
        client.get_json(&RequestPath::from_segments(kind.path, &[])).await.unwrap_or_default();
    let all = listed.get(kind.list_key).and_then(Value::as_array).into_iter().flatten();
    let names: Vec<_> = all.filter_map(|one| one.get("name")?.as_str()).collect();
    if let Some(own) = builtin_name(kind, typed_name) {
        let sources = client
            .get_json(&RequestPath::from_segments("/v1/sources", &[]))
            .await
            .unwrap_or_default();
        return error.with_help(missing_builtin_help(own, &sources));
    }
    let shows = format!("run `{}` to see all names", kind.command);
    error.with_help(match find_nearest_name(typed_name, names.iter().copied()) {
        Some(near) => format!("did you mean `{}`? {shows}", cli_core::printer::sanitize_text(near)),
        None => shows,
    })
}

/// Returns the name of a built-in tool, if the word is one.
fn builtin_name(kind: NameList, word: &str) -> Option<&str> {
    let prefix = format!("{}.", tool::names::BUILTIN_SOURCE);
    let own = word.strip_prefix(&prefix).unwrap_or(word);
    let is_builtin = || builtin_manifests::tool_names().any(|name| name == own);
    (kind.not_found_code == ErrorCode::UnknownTool && is_builtin()).then_some(own)
}

/// Explains why a built-in tool is missing: by `/v1/sources` as visible to this key, or by the
/// possible reasons.
fn missing_builtin_help(own: &str, sources: &Value) -> String {
    let sources = sources.get("sources").and_then(Value::as_array).into_iter().flatten();
    let of_builtins =
        |one: &&Value| one.get("kind").and_then(Value::as_str) == Some(tool::names::BUILTIN_SOURCE);
    let place = format!("tool {own}");
    let problems = sources.filter(of_builtins).filter_map(|one| one.get("problems")?.as_array());
    let problem = problems
        .flatten()
        .find(|it| it.get("place").and_then(Value::as_str) == Some(place.as_str()));
    let part =
        |key: &str| cli_core::json_fields::field_line(problem.unwrap_or(&Value::Null), key, 300);
    match (part("message"), part("fix")) {
        (message, _) if message.is_empty() => format!(
            "the built-in tool `{own}` is disabled (`builtins.tools.{own}.enabled: false`), or \
             hidden by the policy or this key's persona"
        ),
        (message, fix) if fix.is_empty() => format!("`{own}` {message}"),
        (message, fix) => format!("`{own}` {message}: {fix}"),
    }
}

/// Returns advice for a tool whose definition awaits review, if this key may see that.
async fn pending_definition_help(
    kind: NameList,
    client: &RestClient,
    word: &str,
) -> Option<String> {
    if kind.not_found_code != ErrorCode::UnknownTool {
        return None;
    }
    let pins = pin::fetch_all_pins(client, None, Some("waiting")).await.ok()?;
    let found = pins.iter().find(|pin| pin.get("tool").and_then(Value::as_str) == Some(word))?;
    let state = json_fields::field_line(found, "state", 12);
    let name = format!(
        "{}/{}",
        json_fields::field_line(found, "source", 128),
        json_fields::field_line(found, "tool", 128)
    );
    Some(format!(
        "its definition is {state} and it cannot be called: review it with `toolkeep pin diff \
         {name}`, approve it with `toolkeep pin approve {name}`"
    ))
}

/// Suggests the full command for a misplaced subcommand such as `list`.
pub(crate) fn suggest_full_command(error: &mut clap::Error) {
    let has_suggestion = error.get(ContextKind::SuggestedSubcommand).is_some();
    let (ErrorKind::InvalidSubcommand, false) = (error.kind(), has_suggestion) else { return };
    let Some(ContextValue::String(word)) = error.get(ContextKind::InvalidSubcommand) else {
        return;
    };
    let line = Cli::command();
    let homes = line.get_subcommands().filter(|one| one.find_subcommand(word).is_some());
    let homes: Vec<_> = homes.map(|one| format!("`toolkeep {} {word}`", one.get_name())).collect();
    if !homes.is_empty() {
        let tip = format!("did you mean {}?", homes.join(", "));
        error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![tip.into()]));
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;
    use serde_json::json;

    use super::{
        Cli, SOURCE_NAMES, TOOL_NAMES, builtin_name, missing_builtin_help, suggest_full_command,
    };

    #[test]
    fn a_built_in_tool_that_is_absent_has_its_reason() {
        assert_eq!(builtin_name(TOOL_NAMES, "embed_text"), Some("embed_text"));
        assert_eq!(builtin_name(TOOL_NAMES, "builtin.run_shell"), Some("run_shell"));
        assert_eq!(
            (builtin_name(TOOL_NAMES, "embed"), builtin_name(SOURCE_NAMES, "echo")),
            (None, None)
        );
        let problem = json!({"place": "tool run_shell", "message": "is not offered: no sandbox", "fix": "allow one"});
        let of = |kind: &str| json!({"sources": [{"kind": kind, "problems": [problem]}]});
        let told = missing_builtin_help("run_shell", &of("builtin"));
        assert_eq!(told, "`run_shell` is not offered: no sandbox: allow one");
        // The control: a problem of another tool, or of another source, is none of it.
        for told in [
            missing_builtin_help("embed_text", &of("builtin")),
            missing_builtin_help("run_shell", &of("mcp")),
        ] {
            assert!(told.contains(".enabled: false`") && !told.contains("sandbox"), "{told}");
        }
    }

    fn told(words: &[&str]) -> String {
        let mut error = Cli::try_parse_from(words).unwrap_err();
        suggest_full_command(&mut error);
        error.to_string()
    }

    #[test]
    fn a_command_that_is_anothers_is_told_with_its_place() {
        let call = told(&["toolkeep", "call", "calculator"]);
        assert!(call.contains("tip: did you mean `toolkeep tool call`"), "{call}");
        let list = told(&["toolkeep", "list"]);
        assert!(list.contains("`toolkeep tool list`, `toolkeep source list`"), "{list}");
        for words in
            [&["toolkeep", "xyzzy"][..], &["toolkeep", "tool", "lst"], &["toolkeep", "serv"]]
        {
            assert!(!told(words).contains("did you mean"), "{}", told(words));
        }
    }
}
