//! Folders of plugins, and what each is given.

use std::collections::BTreeMap;
use std::path::PathBuf;

use egress::Origin;
use option_types::Grant;
use tool::Trust;

use super::words::trust;
use crate::node::shorten;
use crate::parsers::{list_of, map, path, size, text};
use crate::section::{section, subsection};
use crate::value::{ConfigValue, ValueParser as _};

/// Folders that may be configured.
const FOLDERS: usize = 64;

section! {
    /// Plugins: folders with a `manifest.json`, whose tools run in a process of their own.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct PluginsConfig as "Plugins": Default, Show {
        /// Folders in which each folder with a `manifest.json` is a plugin. They are watched.
        pub folders: Vec<PathBuf> = list_of(FOLDERS, path());
        /// How far plugins are trusted not to change their tools: with `first_use` and `review` a changed
        /// folder is not called until someone has looked at it. Default: `full`.
        pub trust: Trust = trust(), default Trust::Full;
        /// Where settings are kept, a file `PLUGIN.json` each. Default: `tool_settings` in the data directory.
        pub settings: Option<PathBuf> = path();
        /// The interpreter of Python plugins. Default: the system's `python3`.
        pub python: Option<PathBuf> = path();
        /// By name of a plugin: what it is given of what its manifest asks for. Default: nothing.
        pub grants: BTreeMap<String, Grant> = map(subsection::<Grant>());
    }
}

section! {
    /// What a plugin is given, where its manifest asks for it.
    for Grant as "Grant": Show {
        /// Folders that it may read.
        read: Vec<PathBuf> = list_of(FOLDERS, path());
        /// The one folder that it may write to.
        write: Option<PathBuf> = path();
        /// Hosts that Toolkeep asks for it: `docs.rs`, `*.example.org`, `*` for all public ones, or an origin
        /// such as `http://127.0.0.1:8888`, which alone may be on this machine or in a private network.
        network: Vec<String> = list_of(FOLDERS, text().then(host));
        /// Folders with programs that it may run, beside the system's.
        programs: Vec<PathBuf> = list_of(FOLDERS, path());
        /// Most memory of all its processes, such as `2GiB`. Default: `1GiB`.
        memory: Option<u64> = size(64 << 30).then(|_, bytes| u64::try_from(bytes >> 20).ok()), shown memory.map(|mib| format!("{mib}MiB")).into();
    }
}

fn host(value: ConfigValue<'_>, host: String) -> Option<String> {
    let name = host.strip_prefix("*.").unwrap_or(&host);
    let letters = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_');
    let is_name = host == "*" || (1..=255).contains(&name.len()) && name.chars().all(letters);
    if is_name || host.contains("://") && Origin::parse(&host).is_ok() {
        return Some(host);
    }
    let fix = "write a name, `*.NAME`, `*`, or an origin such as `http://127.0.0.1:8888`";
    value.fault(format!("`{}` is no host", shorten(&host)), fix);
    None
}
