//! The page of one tool: description, schemas as tables, and its traits.

use std::fmt::Write as _;

use axum::extract::{Path, State};
use axum::response::Html;
use catalog::CatalogEntry;
use gateway::CatalogView;
use server_core::error::ApiError;
use server_core::pin_review::may_read_pins;
use server_core::provider_forms::list_provider_forms;
use tool::display_text::truncate_and_escape_debug;
use tool::{ErrorCode, Json};

use crate::ConsoleState;
use crate::error_page::PageError;
use crate::html::{Element, element, link, text_element};
use crate::indented_json::indent_json;
use crate::page_layout::{PageLayout, PageUser, Section, data_table};
use crate::pin_pages::pin_path;
use crate::schema_table::schema_table;
use crate::session::ConsoleSession;
use crate::try_page::try_section;

/// Maximum size of a schema that the page shows as JSON too, in bytes.
const MAX_SCHEMA_TEXT: usize = 32_000;

/// Shows one tool. Hidden and unknown tools are not distinguished.
pub(crate) async fn show_tool(
    State(state): State<ConsoleState>,
    session: ConsoleSession,
    Path(name): Path<String>,
) -> Result<Html<String>, PageError> {
    let view = session.tool_view(&state);
    let entry = find_tool(&state, &view, &name)?;
    let twin = format!("GET /v1/tools/{}", encode_segment(entry.name.as_str()));
    let layout = PageLayout {
        title: entry.name.as_str(),
        section: Some(Section::Tools),
        user: PageUser::SignedIn(&session),
        twin: Some(&twin),
    };
    let content = tool_content(entry);
    let content = content
        .child(try_section(&session, entry))
        .children(trait_section(entry, may_read_pins(&session.principal)));
    Ok(layout.render(content.child(form_section(entry))))
}

/// Finds a tool of the view by its name or alias.
///
/// # Errors
/// [`ErrorCode::UnknownTool`].
pub(crate) fn find_tool<'v>(
    state: &ConsoleState,
    view: &'v CatalogView,
    name: &str,
) -> Result<&'v CatalogEntry, ApiError> {
    let native = state.server.tool_lists.resolve_tool_name(view, name);
    let found = view.find_tool(&native).map(|(entry, _)| entry.as_ref());
    found.ok_or_else(|| {
        let message = format!("unknown tool `{}`", truncate_and_escape_debug(name, 100));
        ApiError::new(ErrorCode::UnknownTool, message)
    })
}

/// Returns the path of a tool's page.
pub(crate) fn tool_path(name: &str) -> String {
    format!("/ui/tools/{}", encode_segment(name))
}

/// Percent-encodes one segment of a path (RFC 3986).
pub(crate) fn encode_segment(segment: &str) -> String {
    let mut out = String::with_capacity(segment.len());
    for byte in segment.bytes() {
        if byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~') {
            out.push(char::from(byte));
        } else {
            // Writing to a string never fails.
            write!(out, "%{byte:02X}").unwrap_or_default();
        }
    }
    out
}

fn tool_content(entry: &CatalogEntry) -> Element {
    let tool = &entry.tool;
    let mut content = element("div");
    if let Some(title) = &tool.title {
        content = content.child(text_element("p", title).class("subtitle"));
    }
    if entry.has_invisible_chars {
        let warning =
            "The definition of this tool contains invisible characters. They are shown in letters.";
        content = content.child(element("div").class("notice").child(text_element("p", warning)));
    }
    content = content.child(text_element("div", &tool.description).class("description"));
    content = content.child(text_element("h2", "Arguments"));
    content =
        content.children(schema_section(&tool.input_schema, "Schema of the arguments as JSON"));
    if let Some(schema) = &tool.output_schema {
        content = content.child(text_element("h2", "Structured result"));
        content = content.children(schema_section(schema, "Schema of the result as JSON"));
    }
    content
}

fn trait_section(entry: &CatalogEntry, reads_pins: bool) -> [Element; 3] {
    let name = encode_segment(entry.name.as_str());
    let keys = link(format!("/ui/access/tools?tool={name}"), "Keys that may call it");
    let title = text_element("h2", "Who may call it, and what it does");
    let (source, tool) = (entry.tool_key.source.as_str(), entry.tool_key.name.as_str());
    let history = link(pin_path(source, tool), "Its definition, and earlier ones");
    let mut links = element("p").child(keys);
    if reads_pins {
        links = links.text(" · ").child(history);
    }
    [title, trait_list(entry), links]
}

/// The forms of the tool for model providers, with their sizes and losses.
fn form_section(entry: &CatalogEntry) -> Element {
    let rows = list_provider_forms(entry).into_iter().map(|form| {
        let tokens =
            form.tokens.map_or_else(|| "not possible".to_owned(), |count| count.to_string());
        element("tr")
            .child(text_element("th", form.format).attr("scope", "row"))
            .child(text_element("td", &tokens))
            .child(text_element("td", &form.losses.join("; ")))
    });
    let titles = ["Format", "Tokens (estimate)", "What its schema loses"];
    let summary = text_element("summary", "What model providers get");
    let table = data_table("Forms for model providers", &titles, rows);
    element("details").child(summary).child(table)
}

fn schema_section(schema: &Json, label: &str) -> Vec<Element> {
    let mut section = vec![schema_table(&schema.to_value())];
    let text = schema.as_str();
    if text.len() <= MAX_SCHEMA_TEXT {
        let block = text_element("pre", &indent_json(text)).attr("tabindex", "0");
        let details = element("details").child(text_element("summary", label)).child(block);
        section.push(details);
    }
    section
}

fn trait_list(entry: &CatalogEntry) -> Element {
    let traits = &entry.tool.traits;
    let yes = |is_true: bool| if is_true { "yes" } else { "no" }.to_owned();
    let words = |all: Vec<&str>| if all.is_empty() { "none".to_owned() } else { all.join(", ") };
    // In the words that REST has.
    let callers: Vec<String> = Json::encode(&traits.allowed_callers).decode().unwrap_or_default();
    let callers = callers.iter().map(String::as_str).collect();
    let timeout = traits.timeout.map_or_else(
        || "the default".to_owned(),
        |timeout| format!("{} ms", tool::clock::duration_millis(timeout)),
    );
    let nodes = entry.executor.node_ids();
    let facts = [
        ("Source", entry.tool_key.source.to_string()),
        ("Minimum level", traits.min_level.to_string()),
        ("Callers", words(callers)),
        ("Scopes", words(traits.scopes.iter().map(|scope| scope.as_str()).collect())),
        ("Safety", traits.safety.to_string()),
        ("Side effects", words(traits.effects.effect_names())),
        ("Destructive", yes(traits.is_destructive)),
        ("Idempotent", yes(traits.is_idempotent)),
        ("Categories", words(traits.categories.iter().map(String::as_str).collect())),
        ("Timeout", timeout),
        ("Definition", entry.definition_digest.to_string()),
    ];
    let nodes = (!nodes.is_empty()).then(|| ("Nodes", nodes.join(", ")));
    let row =
        |(name, value): (&str, String)| [text_element("dt", name), text_element("dd", &value)];
    element("dl").class("facts").children(facts.into_iter().chain(nodes).flat_map(row))
}

#[cfg(test)]
mod tests {
    use super::tool_path;

    #[test]
    fn a_name_is_one_segment() {
        assert_eq!(tool_path("a.b_c-D9~"), "/ui/tools/a.b_c-D9~");
        assert_eq!(tool_path("a/../b?c#é\""), "/ui/tools/a%2F..%2Fb%3Fc%23%C3%A9%22");
    }
}
