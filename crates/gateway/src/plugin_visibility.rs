//! Visibility and reloading of plugins for a caller, the same at every interface and for built-in
//! tools.

use identity::{Principal, Right};
use tool::call_outcome::CallFailure;
use tool::plugin_admin::{PluginAdmin, PluginError, PluginStatus, PluginTool, ReloadReport};
use tool::{CallerType, ErrorCode};

use crate::Gateway;

impl Gateway {
    /// Lists the plugins whose source this caller may use, each with the tools in its view. Callers
    /// who may reload plugins also get all tools, the folder and the problems of each.
    pub fn visible_plugins(
        &self,
        principal: &Principal,
        plugins: &dyn PluginAdmin,
    ) -> Vec<PluginStatus> {
        let all = principal.has_right(Right::SourcesRefresh);
        let view = self.view_for(principal, CallerType::Direct);
        let visible = |mut state: PluginStatus| {
            if !is_visible(principal, &state) {
                return None;
            }
            if !all {
                let name = state.name.clone();
                let has =
                    |tool: &PluginTool| view.find_tool(&format!("{name}.{}", tool.name)).is_some();
                state.tools.retain(has);
                state.folder = String::new();
                state.problems = Vec::new();
            }
            Some(state)
        };
        plugins.list_plugins().into_iter().filter_map(visible).collect()
    }

    /// Checks that this caller may know of the plugin `name`.
    ///
    /// # Errors
    /// [`PluginError::NotFound`] for an unknown plugin and for one that the caller's persona hides.
    pub fn check_plugin(
        &self,
        principal: &Principal,
        plugins: &dyn PluginAdmin,
        name: &str,
    ) -> Result<(), PluginError> {
        let states = plugins.list_plugins();
        let found = states.iter().any(|state| state.name == name && is_visible(principal, state));
        if found { Ok(()) } else { Err(PluginError::NotFound(name.to_owned())) }
    }

    /// Lists the plugins whose folder changed since it was loaded, as far as this caller may know
    /// of them. Empty without the right `sources:refresh`.
    pub async fn changed_plugins(
        &self,
        principal: &Principal,
        plugins: &dyn PluginAdmin,
    ) -> Vec<String> {
        if !principal.has_right(Right::SourcesRefresh) {
            return Vec::new();
        }
        let mut changed = plugins.list_changed().await;
        retain_visible(principal, &plugins.list_plugins(), &mut changed);
        changed
    }

    /// Scans all plugins or one now, and loads changes. The result names only plugins that the
    /// caller may know of.
    ///
    /// # Errors
    /// [`ErrorCode::Forbidden`] without the right `sources:refresh`, [`ErrorCode::NotFound`] for an unknown
    /// plugin and for one that the caller's persona hides.
    pub async fn reload_plugins(
        &self,
        principal: &Principal,
        plugins: &dyn PluginAdmin,
        only: Option<&str>,
    ) -> Result<ReloadReport, CallFailure> {
        if !principal.has_right(Right::SourcesRefresh) {
            let (right, remedy) = (Right::SourcesRefresh, Right::SourcesRefresh.remedy());
            let told = format!("the key lacks the right `{right}`; {remedy}");
            return Err(CallFailure::new(ErrorCode::Forbidden, told));
        }
        let failed = |fault: PluginError| CallFailure::new(fault.error_code(), fault.to_string());
        let mut states = plugins.list_plugins();
        let hidden =
            |name: &str| states.iter().any(|it| it.name == name && !is_visible(principal, it));
        if let Some(name) = only.filter(|name| hidden(name)) {
            return Err(failed(PluginError::NotFound(name.to_owned())));
        }
        let mut done = plugins.reload_changed(only).await.map_err(failed)?;
        // Includes added and removed plugins.
        states.extend(plugins.list_plugins());
        for names in [&mut done.reloaded, &mut done.failed] {
            retain_visible(principal, &states, names);
        }
        Ok(done)
    }
}

/// Keeps the names of plugins that this caller may know of. A name without a status is judged as
/// the source of that name.
fn retain_visible(who: &Principal, states: &[PluginStatus], names: &mut Vec<String>) {
    names.retain(|name| match states.iter().find(|state| state.name == *name) {
        Some(state) => is_visible(who, state),
        None => who.rights_class().allows_source(name),
    });
}

/// Returns true if this caller may know of the plugin: its persona allows the plugin's source.
fn is_visible(who: &Principal, state: &PluginStatus) -> bool {
    who.rights_class().allows_source(&state.source)
}

#[cfg(test)]
mod tests;
