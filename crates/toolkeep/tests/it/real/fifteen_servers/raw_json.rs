//! Access to members of raw JSON text without re-encoding.

use std::collections::HashMap;

use serde::Deserialize;
use serde_json::value::RawValue;

pub(super) type Raw = Box<RawValue>;

/// The members of an object, each as it was written; nothing of what is no object.
pub(super) fn members(text: &str) -> HashMap<String, Raw> {
    serde_json::from_str(text).unwrap_or_default()
}

/// The items of an array that is a member.
pub(super) fn items(object: &str, member: &str) -> Vec<Raw> {
    let list = members(object).remove(member);
    list.map(|list| serde_json::from_str(list.get()).unwrap()).unwrap_or_default()
}

/// Removes the prefix of a string member from the text, and changes nothing else.
pub(super) fn without_prefix(item: &str, member: &str, prefix: &str) -> Option<String> {
    let found: HashMap<&str, &RawValue> = serde_json::from_str(item).ok()?;
    let value = found.get(member)?.get();
    let at = value.as_ptr().addr() - item.as_ptr().addr();
    let own = value.strip_prefix('"')?.strip_prefix(prefix)?;
    let (before, rest) = item.split_at(at);
    let (_, after) = rest.split_at(value.len());
    Some(format!("{before}\"{own}{after}"))
}

/// The name, as it was written, within the text.
pub(super) fn name(item: &str) -> Option<&str> {
    #[derive(Deserialize)]
    struct Named<'a> {
        #[serde(borrow)]
        name: &'a RawValue,
    }
    serde_json::from_str::<Named<'_>>(item).ok().map(|named| named.name.get())
}

#[test]
fn only_the_name_is_touched() {
    let item = r#"{ "inputSchema":{"name":"a.x"}, "name" : "a.x", "title":"a.x" }"#;
    let own = r#"{ "inputSchema":{"name":"a.x"}, "name" : "x", "title":"a.x" }"#;
    assert_eq!(without_prefix(item, "name", "a.").as_deref(), Some(own));
    assert_eq!(without_prefix(item, "name", "b."), None);
}
