//! Folders of plugins, and what each is given.

use std::path::PathBuf;

use egress::Origin;
use option_types::Grant;
use tool::Trust;

use super::Resolver;
use super::source::trust;
use crate::field::Field;
use crate::high::PluginsConfig;
use crate::low;
use crate::node::shorten;

/// Folders that may be configured.
const FOLDERS: usize = 64;
/// The most memory that may be given.
const MEMORY: usize = 64 << 30;

impl Resolver<'_> {
    pub(super) fn plugins(&self, low: &low::File) -> PluginsConfig {
        let Some(low) = low.plugins.get() else { return PluginsConfig::default() };
        let grants = low.grants.get().into_iter().flatten();
        let grants = grants
            .filter_map(|(name, grant)| Some((name.clone(), self.plugin_grant(grant.get()?))));
        PluginsConfig {
            folders: self.folders(&low.folders),
            trust: low.trust.get().map_or(Trust::Full, |word| trust(*word)),
            settings: low.settings.get().map(|path| self.path(path)),
            python: low.python.get().map(|path| self.path(path)),
            grants: grants.collect(),
        }
    }

    fn folders(&self, field: &Field<Vec<Field<String>>>) -> Vec<PathBuf> {
        let all = field.get().into_iter().flatten().take(FOLDERS);
        all.filter_map(|path| path.get().map(|path| self.path(path))).collect()
    }

    fn plugin_grant(&self, low: &low::PluginGrant) -> Grant {
        let hosts = low.network.get().into_iter().flatten().take(FOLDERS);
        let network = hosts.filter_map(|host| {
            let (host, place) = host.given()?;
            let fits =
                if host.contains("://") { Origin::parse(host).is_ok() } else { is_host(host) };
            if !fits {
                let told = format!("`{}` is no host", shorten(host));
                let fix =
                    "write a name, `*.NAME`, `*`, or an origin such as `http://127.0.0.1:8888`";
                self.sink.tell(place, told, fix);
            }
            fits.then(|| host.clone())
        });
        let memory = self.size(&low.memory, MEMORY);
        Grant {
            read: self.folders(&low.read),
            write: low.write.get().map(|path| self.path(path)),
            network: network.collect(),
            programs: self.folders(&low.programs),
            memory: memory.and_then(|bytes| u64::try_from(bytes >> 20).ok()),
        }
    }
}

fn is_host(host: &str) -> bool {
    let name = host.strip_prefix("*.").unwrap_or(host);
    let letters = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_');
    host == "*" || (1..=255).contains(&name.len()) && name.chars().all(letters)
}
