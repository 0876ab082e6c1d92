//! Visibility and reloading of plugins for a caller, the same at every interface and for built-in
//! tools.

use identity::{Principal, Right};
use tool::outcome::Failure;
use tool::plugin::{PluginFault, PluginState, PluginTool, Plugins, Reloaded};
use tool::{CallerType, Code};

use crate::Gateway;

impl Gateway {
    /// Lists the plugins whose source this caller may use, each with the tools in its view. Callers
    /// who may reload plugins also get all tools, the folder and the problems of each.
    pub fn visible_plugins(&self, who: &Principal, plugins: &dyn Plugins) -> Vec<PluginState> {
        let all = who.may(Right::SourcesRefresh);
        let view = self.view(who, CallerType::Direct);
        let visible = |mut state: PluginState| {
            if !is_visible(who, &state) {
                return None;
            }
            if !all {
                let name = state.name.clone();
                let has = |tool: &PluginTool| view.find(&format!("{name}.{}", tool.name)).is_some();
                state.tools.retain(has);
                state.folder = String::new();
                state.problems = Vec::new();
            }
            Some(state)
        };
        plugins.plugins().into_iter().filter_map(visible).collect()
    }

    /// Checks that this caller may know of the plugin `name`.
    ///
    /// # Errors
    /// [`PluginFault::Missing`] for an unknown plugin and for one that the caller's persona hides.
    pub fn check_plugin(
        &self,
        who: &Principal,
        plugins: &dyn Plugins,
        name: &str,
    ) -> Result<(), PluginFault> {
        let states = plugins.plugins();
        let found = states.iter().any(|state| state.name == name && is_visible(who, state));
        if found { Ok(()) } else { Err(PluginFault::Missing(name.to_owned())) }
    }

    /// Lists the plugins whose folder changed since it was loaded, as far as this caller may know
    /// of them. Empty without the right `sources:refresh`.
    pub async fn changed_plugins(&self, who: &Principal, plugins: &dyn Plugins) -> Vec<String> {
        if !who.may(Right::SourcesRefresh) {
            return Vec::new();
        }
        let mut changed = plugins.changes().await;
        retain_visible(who, &plugins.plugins(), &mut changed);
        changed
    }

    /// Scans all plugins or one now, and loads changes. The result names only plugins that the
    /// caller may know of.
    ///
    /// # Errors
    /// [`Code::Forbidden`] without the right `sources:refresh`, [`Code::NotFound`] for an unknown
    /// plugin and for one that the caller's persona hides.
    pub async fn reload_plugins(
        &self,
        who: &Principal,
        plugins: &dyn Plugins,
        only: Option<&str>,
    ) -> Result<Reloaded, Failure> {
        if !who.may(Right::SourcesRefresh) {
            let (right, remedy) = (Right::SourcesRefresh, Right::SourcesRefresh.remedy());
            let told = format!("the key lacks the right `{right}`; {remedy}");
            return Err(Failure::new(Code::Forbidden, told));
        }
        let failed = |fault: PluginFault| Failure::new(fault.code(), fault.to_string());
        let mut states = plugins.plugins();
        let hidden = |name: &str| states.iter().any(|it| it.name == name && !is_visible(who, it));
        if let Some(name) = only.filter(|name| hidden(name)) {
            return Err(failed(PluginFault::Missing(name.to_owned())));
        }
        let mut done = plugins.reload(only).await.map_err(failed)?;
        // Includes added and removed plugins.
        states.extend(plugins.plugins());
        for names in [&mut done.reloaded, &mut done.failed] {
            retain_visible(who, &states, names);
        }
        Ok(done)
    }
}

/// Keeps the names of plugins that this caller may know of. A name without a status is judged as
/// the source of that name.
fn retain_visible(who: &Principal, states: &[PluginState], names: &mut Vec<String>) {
    names.retain(|name| match states.iter().find(|state| state.name == *name) {
        Some(state) => is_visible(who, state),
        None => who.rights().allows_source(name),
    });
}

/// Returns true if this caller may know of the plugin: its persona allows the plugin's source.
fn is_visible(who: &Principal, state: &PluginState) -> bool {
    who.rights().allows_source(&state.source)
}

#[cfg(test)]
mod tests;
