//! The YAML entry of a new source.

use serde_json::{Map, Value, json};

use super::Add;
use cli_core::failure::{Exit, Failure};
use cli_core::ui::clean;

/// Renders the entry as lines of YAML, the first without its `- `, each with a line break.
///
/// # Errors
/// Returns an error if the entry cannot be serialized.
pub(super) fn lines(add: &Add) -> Result<String, Failure> {
    let mut entry = Map::new();
    let mut put = |key: &str, value: Option<Value>| {
        if let Some(value) = value {
            entry.insert(key.to_owned(), value);
        }
    };
    let text = |text: &Option<String>| text.clone().map(Value::from);
    put("name", Some(add.name.clone().into()));
    put("tools", text(&add.origin.tools));
    put("module", text(&add.origin.module));
    put("mcp", mcp(add)?);
    put("credential", add.bearer_env.as_ref().map(|name| json!({ "bearer_env": name })));
    put("trust", text(&add.trust));
    put("trust_annotations", add.trust_annotations.filter(|trusts| *trusts).map(Value::from));
    put("timeout", text(&add.timeout));
    // No block scalars: every value is on the line of its key.
    let options = serde_saphyr::ser_options! { prefer_block_scalars: false };
    serde_saphyr::to_string_with_options(&entry, options).map_err(|error| {
        Failure::new(Exit::Usage, format!("the source cannot be written as YAML: {error}"))
    })
}

/// Builds the value of an MCP server from the given flags only.
fn mcp(add: &Add) -> Result<Option<Value>, Failure> {
    if add.trust_annotations.is_some() && !add.origin.is_mcp() {
        let failure = Failure::new(Exit::Usage, "`--trust-annotations` goes with an MCP server");
        return Err(failure.fix("take it out, or give `--mcp URL` or a command after `--`"));
    }
    let (program, url) = (!add.origin.command.is_empty(), add.origin.mcp.is_some());
    for (flag, given, fits, of) in [
        ("--env", &add.env, program, "a program, given after `--`"),
        ("--header", &add.header, url, "`--mcp`"),
        ("--oauth", &add.oauth, url, "`--mcp`"),
    ] {
        if !given.is_empty() && !fits {
            let failure = Failure::new(Exit::Usage, format!("`{flag}` goes with {of}, not alone"));
            return Err(failure.fix("take it out, or say what it is for"));
        }
    }
    let mut mcp = Map::new();
    if let Some(url) = &add.origin.mcp {
        mcp.insert("url".to_owned(), json!(url));
        put_all(&mut mcp, "headers", &add.header, header)?;
        put_all(&mut mcp, "oauth", &add.oauth, oauth)?;
    }
    if let [program, args @ ..] = add.origin.command.as_slice() {
        mcp.insert("command".to_owned(), json!(program));
        if !args.is_empty() {
            mcp.insert("args".to_owned(), json!(args));
        }
        put_all(&mut mcp, "env", &add.env, |text| Some(variable(text)))?;
    }
    Ok((!mcp.is_empty()).then_some(Value::Object(mcp)))
}

/// Inserts a mapping of the values parsed by `read`, with unique keys; nothing for an empty list.
fn put_all(
    mcp: &mut Map<String, Value>,
    key: &str,
    texts: &[String],
    read: impl Fn(&str) -> Option<(&str, Value)>,
) -> Result<(), Failure> {
    let mut all = Map::new();
    for text in texts {
        let usage = |message: String, fix: &str| Failure::new(Exit::Usage, message).fix(fix);
        let shown = clean(text.split(['=', ':']).next().unwrap_or_default());
        let Some((name, value)) = read(text).filter(|(name, _)| !name.is_empty()) else {
            let message = format!("`{shown}` names no value for `{key}`");
            return Err(usage(
                message,
                "write `--env NAME=VALUE`, `--header 'Name: value'`, `--oauth KEY=VALUE`",
            ));
        };
        if all.insert(name.to_owned(), value).is_some() {
            return Err(usage(format!("`{}` is given twice", clean(name)), "give it once"));
        }
    }
    if !all.is_empty() {
        mcp.insert(key.to_owned(), Value::Object(all));
    }
    Ok(())
}

fn variable(text: &str) -> (&str, Value) {
    let own = || (text, json!(format!("${{{text}}}")));
    text.split_once('=').map_or_else(own, |(name, value)| (name, json!(value)))
}

fn header(text: &str) -> Option<(&str, Value)> {
    let (name, value) = text.split_once(':')?;
    Some((name.trim(), json!(value.trim())))
}

/// Parses an OAuth setting; only scopes are a list.
fn oauth(text: &str) -> Option<(&str, Value)> {
    let (key, value) = text.split_once('=')?;
    let value = match key {
        "scopes" => json!(value.split([',', ' ']).filter(|it| !it.is_empty()).collect::<Vec<_>>()),
        _ => json!(value),
    };
    Some((key, value))
}
