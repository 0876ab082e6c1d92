//! The pages of plugins: their list, and a form for the settings of one, made from its schema.

use axum::extract::{Path, State};
use axum::response::{Html, Redirect};
use serde_json::{Map, Value, json};
use server_core::plugin_management::{self, PluginReply};
use tool::Json;

use crate::ConsoleState;
use crate::argument_form::ArgumentForm;
use crate::error_page::PageError;
use crate::form_post::{FormFields, SignedForm};
use crate::html::{Element, element, link, text_element};
use crate::page_layout::{check_field, data_table, post_form, submit_button};
use crate::session::ConsoleSession;
use crate::source_page::{problem_notice, render_section_page, section_tabs};
use crate::tool_page::encode_segment;

/// Path of the list.
pub(crate) const PAGE: &str = "/ui/plugins";
/// Field that enables the plugin.
const ENABLED: &str = "enabled";

/// Shows the plugins that the principal may know.
pub(crate) async fn list_plugins(
    State(state): State<ConsoleState>,
    session: ConsoleSession,
) -> Result<Html<String>, PageError> {
    let list = plugin_management::list_plugins(&state.server, &session.principal).await?;
    let content = element("div").child(section_tabs(PAGE));
    let content = if list.plugins.is_empty() {
        content.child(text_element("p", "There are no plugins that you may know.").class("empty"))
    } else {
        let titles = ["Plugin", "Version", "Kind", "State", "Tools", "Action"];
        let row = |plugin: &PluginReply| {
            let has_changed = list.changed.contains(&plugin.name);
            plugin_row(&session, plugin, has_changed)
        };
        content.child(data_table("List of plugins", &titles, list.plugins.iter().map(row)))
    };
    Ok(render_section_page(
        &session,
        "Plugins",
        "GET /v1/plugins and POST /v1/plugins/reload",
        content,
    ))
}

/// Reloads one plugin of a form.
pub(crate) async fn reload_plugin(
    State(state): State<ConsoleState>,
    Path(name): Path<String>,
    form: SignedForm,
) -> Result<Redirect, PageError> {
    let principal = &form.session.principal;
    plugin_management::reload_plugins(&state.server, principal, Some(&name)).await?;
    Ok(Redirect::to(PAGE))
}

/// Shows the form of a plugin's settings.
pub(crate) async fn show_settings(
    State(state): State<ConsoleState>,
    session: ConsoleSession,
    Path(name): Path<String>,
) -> Result<Html<String>, PageError> {
    let principal = &session.principal;
    let reply = plugin_management::show_settings(&state.server, principal, name.clone())?;
    let plugin = plugin_management::show_plugin(&state.server, &session.principal, &name)?;
    let settings = reply.settings.to_value();
    let path = settings_path(&name);
    let enabled = settings.get("enabled").and_then(Value::as_bool).unwrap_or(true);
    let mut form = post_form(&session, path).class("arguments").child(check_field(
        ENABLED,
        "The plugin is enabled",
        enabled,
    ));
    if !plugin.tools.is_empty() {
        let tools = plugin.tools.iter().map(|tool| {
            let pointer = format!("/tool_overrides/{}/enabled", tool.name);
            let enabled = settings.pointer(&pointer).and_then(Value::as_bool);
            check_field(&tool_field(&tool.name), &tool.name, enabled.unwrap_or(tool.is_enabled))
        });
        let legend = text_element("legend", "Tools that are offered");
        form = form.child(element("fieldset").class("checks").child(legend).children(tools));
    }
    let custom = settings_form(&plugin.settings_schema, settings.get("custom_config"));
    let form = form
        .children(custom.render(None, &[]))
        .child(submit_button("Save the settings").class("primary"));
    let back = element("p").child(link(PAGE, "All plugins"));
    let content = element("div").child(form).child(back);
    let twin = format!("GET and POST /v1/plugins/{}/settings", encode_segment(&name));
    Ok(render_section_page(&session, &format!("Settings of {name}"), &twin, content))
}

/// Changes the settings. An empty field resets its setting.
pub(crate) async fn update_settings(
    State(state): State<ConsoleState>,
    Path(name): Path<String>,
    form: SignedForm,
) -> Result<Redirect, PageError> {
    let SignedForm { session, fields } = form;
    let plugin = plugin_management::show_plugin(&state.server, &session.principal, &name)?;
    let changes = read_changes(&plugin, &fields)?;
    let path = settings_path(&name);
    plugin_management::update_settings(&state.server, &session.principal, name, &changes).await?;
    Ok(Redirect::to(&path))
}

fn read_changes(plugin: &PluginReply, fields: &FormFields) -> Result<Value, PageError> {
    let custom = settings_form(&plugin.settings_schema, None).read_arguments(fields);
    let custom = custom.map_err(|errors| {
        let told: Vec<_> = errors.into_iter().map(|error| error.message).collect();
        PageError::invalid_query(told.join("; "))
    })?;
    let given: Map<String, Value> = serde_json::from_str(&custom).unwrap_or_default();
    let names = plugin.settings_schema.to_value();
    let names = names.as_object().into_iter().flat_map(|names| names.keys());
    let custom: Map<String, Value> =
        names.map(|name| (name.clone(), given.get(name).cloned().unwrap_or(Value::Null))).collect();
    let is_checked = |name: &str| !fields.get(name).is_empty();
    let tools: Map<String, Value> = plugin
        .tools
        .iter()
        .map(|tool| {
            let enabled = is_checked(&tool_field(&tool.name));
            (tool.name.clone(), json!({ "enabled": enabled }))
        })
        .collect();
    Ok(json!({
        "enabled": is_checked(ENABLED),
        "tool_overrides": tools,
        "custom_config": custom,
    }))
}

/// The form of the plugin's own settings, with their values as defaults.
fn settings_form(schemas: &Json, values: Option<&Value>) -> ArgumentForm {
    let mut properties = schemas.to_value();
    for (name, schema) in properties.as_object_mut().into_iter().flatten() {
        let value = values.and_then(|values| values.get(name));
        if let (Some(schema), Some(value)) = (schema.as_object_mut(), value) {
            schema.insert("default".to_owned(), value.clone());
        }
    }
    ArgumentForm::from_schema(&json!({ "type": "object", "properties": properties }))
}

fn settings_path(name: &str) -> String {
    format!("{PAGE}/{}", encode_segment(name))
}

fn tool_field(tool: &str) -> String {
    format!("tool-{tool}")
}

fn plugin_row(session: &ConsoleSession, plugin: &PluginReply, has_changed: bool) -> Element {
    let cell = |text: &str| text_element("td", text);
    let name = link(settings_path(&plugin.name), &plugin.name).attr("data-open", "");
    let description = text_element("p", &plugin.description).class("hint");
    let name = element("th").attr("scope", "row").child(element("p").child(name));
    let name = name.child(description).children(plugin.problems.iter().map(problem_notice));
    let (state, class) = match (plugin.enabled, has_changed) {
        (_, true) => ("changed since its last reload", "badge pending"),
        (true, false) => ("enabled", "badge"),
        (false, false) => ("disabled", "badge pending"),
    };
    let offered = plugin.tools.iter().filter(|tool| tool.is_enabled).count();
    let button = submit_button("Reload").attr("aria-label", format!("Reload {}", plugin.name));
    let path = format!("{}/reload", settings_path(&plugin.name));
    element("tr")
        .attr("data-row", "")
        .attr("tabindex", "-1")
        .child(name)
        .child(cell(plugin.version.as_deref().unwrap_or_default()))
        .child(cell(plugin.kind.unwrap_or_default()))
        .child(element("td").child(text_element("span", state).class(class)))
        .child(cell(&format!("{offered} of {}", plugin.tools.len())))
        .child(element("td").child(post_form(session, path).child(button)))
}
