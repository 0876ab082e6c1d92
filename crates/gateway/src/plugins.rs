//! What a caller may know of plugins and do to them: the same at every interface and for the built-in tools.

use identity::{Principal, Right};
use tool::outcome::Failure;
use tool::plugin::{PluginFault, PluginState, PluginTool, Plugins, Reloaded};
use tool::{CallerType, Code};

use crate::Gateway;

impl Gateway {
    /// The plugins whose source this caller may use, each with the tools in its view. Who may reload them has
    /// all tools, the folder and the problems of each; for others those are empty.
    pub fn visible_plugins(&self, who: &Principal, plugins: &dyn Plugins) -> Vec<PluginState> {
        let all = who.may(Right::SourcesRefresh);
        let view = self.view(who, CallerType::Direct);
        let visible = |mut state: PluginState| {
            if !who.rights().allows_source(&state.source) {
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

    /// Scans all plugins now, or one, and loads what changed.
    ///
    /// # Errors
    /// [`Code::Forbidden`] without the right `sources:refresh`, [`Code::NotFound`] for a plugin that is not
    /// there.
    pub async fn reload_plugins(
        &self,
        who: &Principal,
        plugins: &dyn Plugins,
        only: Option<&str>,
    ) -> Result<Reloaded, Failure> {
        if !who.may(Right::SourcesRefresh) {
            let told = "the key lacks the right `sources:refresh`";
            return Err(Failure::new(Code::Forbidden, told));
        }
        plugins.reload(only).await.map_err(|fault| {
            let code = match fault {
                PluginFault::Missing(_) => Code::NotFound,
                PluginFault::Unfit(_) => Code::InvalidRequest,
                PluginFault::Unavailable(_) => Code::StoreUnavailable,
            };
            Failure::new(code, fault.to_string())
        })
    }
}

#[cfg(test)]
mod tests;
