//! The folders of plugins, and the access that each plugin is granted.

use std::collections::BTreeMap;
use std::path::PathBuf;

use egress::Origin;
use option_types::AccessGrant;
use tool::SourceTrust;

use super::shared_keywords::source_trust;
use crate::config_value::{ConfigValue, ValueParser as _};
use crate::section::{section, subsection};
use crate::value_parsers::{bounded_list, byte_size, mapping, path, text};
use crate::yaml_tree::shorten_text;

/// The most folders or hosts of one list.
const MAX_ITEMS: usize = 64;

section! {
    /// Plugins: folders with a `manifest.json`, whose tools run in a process of their own.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct PluginsConfig as "Plugins": Default, RedactedJson {
        /// Folders of plugins: each folder below with a `manifest.json` is one. At most 64. Toolkeep watches them.
        pub folders: Vec<PathBuf> = bounded_list(MAX_ITEMS, path());
        /// Whether changed plugins are accepted. With `first_use` and `review`, a changed plugin is blocked until an
        /// operator approves it. Default: `full`.
        pub trust: SourceTrust = source_trust(), default SourceTrust::Full;
        /// The folder of the plugins' settings, one file `PLUGIN.json` each. Default: `tool_settings` in the data
        /// directory.
        pub settings_dir as "settings": Option<PathBuf> = path();
        /// The interpreter of Python plugins. Default: the system's `python3`.
        pub python_path as "python": Option<PathBuf> = path();
        /// The access that each plugin is granted, by its name. Only access that its manifest requests can be granted.
        /// Default: none.
        pub grants: BTreeMap<String, AccessGrant> = mapping(subsection::<AccessGrant>());
    }
}

section! {
    /// The access that a plugin is granted, where its manifest requests it.
    for AccessGrant as "Grant": RedactedJson {
        /// Folders that it may read. At most 64.
        readable_dirs as "read": Vec<PathBuf> = bounded_list(MAX_ITEMS, path());
        /// The one folder that it may write.
        writable_dir as "write": Option<PathBuf> = path();
        /// Hosts that it may reach through Toolkeep: `docs.rs`, `*.example.org`, or `*` for all public ones. An
        /// origin such as `http://127.0.0.1:8888` may be on this machine or in a private network. At most 64.
        allowed_hosts as "network": Vec<String> =
            bounded_list(MAX_ITEMS, text().and_then(network_host));
        /// Folders of programs that it may run, besides the system's. At most 64.
        program_dirs as "programs": Vec<PathBuf> = bounded_list(MAX_ITEMS, path());
        /// The most memory of all its processes, such as `2GiB`: from `1KiB` to `64GiB`. Default: `1GiB`.
        max_memory_mib as "memory": Option<u64> =
            byte_size(64 << 30).and_then(|_, bytes| u64::try_from(bytes >> 20).ok()),
            display max_memory_mib.map(|mib| format!("{mib}MiB")).into();
    }
}

fn network_host(value: ConfigValue<'_>, host: String) -> Option<String> {
    let name = host.strip_prefix("*.").unwrap_or(&host);
    let is_allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_');
    let is_name = host == "*" || (1..=255).contains(&name.len()) && name.chars().all(is_allowed);
    if is_name || host.contains("://") && Origin::parse(&host).is_ok() {
        return Some(host);
    }
    let help = "write a name, `*.NAME`, `*`, or an origin such as `http://127.0.0.1:8888`";
    value.report(format!("invalid host `{}`", shorten_text(&host)), help);
    None
}
