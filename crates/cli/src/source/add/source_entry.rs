//! The entry of a new source, from the flags of the command.

use serde_json::{Map, Value, json};

use super::SourceAddArgs;
use cli_core::command_error::{CommandError, ExitStatus};
use cli_core::printer::sanitize_text;

/// Builds the entry from the given flags, and from the MCP server that was imported.
///
/// # Errors
/// A flag does not fit the kind of the source, or has no value.
pub(super) fn source_entry(
    add: &SourceAddArgs,
    imported: Option<Map<String, Value>>,
) -> Result<Map<String, Value>, CommandError> {
    let mut entry = Map::new();
    let mut put = |key: &str, value: Option<Value>| {
        if let Some(value) = value {
            entry.insert(key.to_owned(), value);
        }
    };
    let text = |text: &Option<String>| text.clone().map(Value::from);
    put("name", Some(add.name.clone().into()));
    put("tools", text(&add.kind.tools));
    put("module", text(&add.kind.module));
    put("mcp", mcp_value(add, imported)?);
    put("credential", add.bearer_env.as_ref().map(|name| json!({ "bearer_env": name })));
    put("trust", text(&add.trust));
    put("trust_annotations", add.trust_annotations.filter(|trusts| *trusts).map(Value::from));
    put("timeout", text(&add.timeout));
    Ok(entry)
}

/// Builds the value of an MCP server: the imported one or that of the flags, with further flags.
fn mcp_value(
    add: &SourceAddArgs,
    imported: Option<Map<String, Value>>,
) -> Result<Option<Value>, CommandError> {
    if add.trust_annotations.is_some() && !add.kind.is_mcp() && imported.is_none() {
        let failure = CommandError::new(
            ExitStatus::UsageError,
            "`--trust-annotations` requires an MCP server",
        );
        return Err(failure.with_help("remove it, or pass `--mcp URL` or a command after `--`"));
    }
    let mut mcp = imported.unwrap_or_default();
    if let Some(url) = &add.kind.mcp {
        mcp.insert("url".to_owned(), json!(url));
    }
    if let [program, args @ ..] = add.kind.command.as_slice() {
        mcp.insert("command".to_owned(), json!(program));
        if !args.is_empty() {
            mcp.insert("args".to_owned(), json!(args));
        }
    }
    let (program, url) = (mcp.contains_key("command"), mcp.contains_key("url"));
    for (flag, given, fits, of) in [
        ("--env", &add.env, program, "a program, given after `--`"),
        ("--header", &add.header, url, "`--mcp`"),
        ("--oauth", &add.oauth, url, "`--mcp`"),
    ] {
        if !given.is_empty() && !fits {
            let failure =
                CommandError::new(ExitStatus::UsageError, format!("`{flag}` requires {of}"));
            return Err(failure.with_help("remove it, or add what it requires"));
        }
    }
    insert_mapping(&mut mcp, "headers", &add.header, parse_header)?;
    insert_mapping(&mut mcp, "oauth", &add.oauth, parse_oauth)?;
    insert_mapping(&mut mcp, "env", &add.env, |text| Some(parse_variable(text)))?;
    Ok((!mcp.is_empty()).then_some(Value::Object(mcp)))
}

/// Adds the values parsed by `read` to a mapping, with unique keys; nothing for an empty list.
fn insert_mapping(
    mcp: &mut Map<String, Value>,
    key: &str,
    texts: &[String],
    read: impl Fn(&str) -> Option<(&str, Value)>,
) -> Result<(), CommandError> {
    let mut all = match mcp.get(key) {
        Some(Value::Object(before)) => before.clone(),
        _ => Map::new(),
    };
    for text in texts {
        let usage = |message: String, fix: &str| {
            CommandError::new(ExitStatus::UsageError, message).with_help(fix)
        };
        let shown = sanitize_text(text.split(['=', ':']).next().unwrap_or_default());
        let Some((name, value)) = read(text).filter(|(name, _)| !name.is_empty()) else {
            let message = format!("`{shown}` has no value for `{key}`");
            return Err(usage(
                message,
                "use `--env NAME=VALUE`, `--header 'Name: value'`, `--oauth KEY=VALUE`",
            ));
        };
        if all.insert(name.to_owned(), value).is_some() {
            return Err(usage(format!("`{}` is given twice", sanitize_text(name)), "pass it once"));
        }
    }
    if !all.is_empty() {
        mcp.insert(key.to_owned(), Value::Object(all));
    }
    Ok(())
}

fn parse_variable(text: &str) -> (&str, Value) {
    let own = || (text, json!(format!("${{{text}}}")));
    text.split_once('=').map_or_else(own, |(name, value)| (name, json!(value)))
}

fn parse_header(text: &str) -> Option<(&str, Value)> {
    let (name, value) = text.split_once(':')?;
    Some((name.trim(), json!(value.trim())))
}

/// Parses an OAuth setting; only scopes are a list.
fn parse_oauth(text: &str) -> Option<(&str, Value)> {
    let (key, value) = text.split_once('=')?;
    let value = match key {
        "scopes" => json!(value.split([',', ' ']).filter(|it| !it.is_empty()).collect::<Vec<_>>()),
        _ => json!(value),
    };
    Some((key, value))
}
