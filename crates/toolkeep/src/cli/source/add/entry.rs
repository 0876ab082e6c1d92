//! The entry of a source, as it is written in the configuration file.

use serde_json::{Map, Value, json};

use super::Add;
use crate::cli::failure::{Exit, Failure};

/// The entry as lines of YAML, the first without its `- `, each with a line break.
///
/// # Errors
/// Where it cannot be written.
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
    put("mcp", add.origin.mcp.as_ref().map(|url| json!({ "url": url })));
    if let [program, args @ ..] = add.origin.command.as_slice() {
        let mut mcp = json!({ "command": program, "args": args });
        if let (Some(fields), true) = (mcp.as_object_mut(), args.is_empty()) {
            fields.remove("args");
        }
        put("mcp", Some(mcp));
    }
    put("credential", add.bearer_env.as_ref().map(|name| json!({ "bearer_env": name })));
    put("trust", text(&add.trust));
    put("timeout", text(&add.timeout));
    // No blocks over several lines: every value stands beside its key.
    let options = serde_saphyr::ser_options! { prefer_block_scalars: false };
    serde_saphyr::to_string_with_options(&entry, options).map_err(|error| {
        Failure::new(Exit::Usage, format!("the source cannot be written as YAML: {error}"))
    })
}
