//! Access rights of a plugin: requested by the manifest, granted by the operator, and effective.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use egress::{EgressClient, Origin, UrlTrust};
use sandbox::process::ProcessLauncher;
use sandbox::{ResourceLimits, SandboxLevel};
use serde_json::{Map, Value};
use tool::{AccessScope, Clock};

use crate::AccessGrant;
use crate::manifest::FieldErrors;

const MIB: u64 = 1 << 20;
/// Default memory limit in MiB.
const DEFAULT_MEMORY_MIB: u64 = 1024;
/// Limit of processor time in seconds.
const CPU_SECONDS: u64 = 3_600;

/// Access that a manifest requests.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct RequestedAccess {
    /// `read` or `write`.
    pub(crate) files: Option<FileAccess>,
    /// Hosts that the plugin requests; `*` is any host.
    pub(crate) network_hosts: Vec<String>,
    /// MiB of all its processes.
    pub(crate) memory_mib: Option<u64>,
    /// Processes and threads at once.
    pub(crate) processes: Option<u64>,
}

/// Level of access to granted folders.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum FileAccess {
    Read,
    Write,
}

impl RequestedAccess {
    /// Reads `needs` of a manifest.
    pub(crate) fn from_manifest(value: Option<&Value>, errors: &mut FieldErrors) -> Self {
        let Some(value) = value.filter(|value| !value.is_null()) else { return Self::default() };
        let Some(fields) = value.as_object() else {
            errors.push_error("'needs' must be an object");
            return Self::default();
        };
        "needs: ".clone_into(&mut errors.prefix);
        let needs = Self::parse_fields(fields, errors);
        errors.prefix = String::new();
        needs
    }

    fn parse_fields(fields: &Map<String, Value>, errors: &mut FieldErrors) -> Self {
        let files = match errors.read_string(fields, "files").as_deref() {
            None => None,
            Some("read") => Some(FileAccess::Read),
            Some("write") => Some(FileAccess::Write),
            Some(_) => {
                errors.push_error("'files' must be read or write");
                None
            }
        };
        let known = ["files", "network", "memory_mb", "processes"];
        for key in fields.keys().filter(|key| !known.contains(&key.as_str())) {
            errors.push_error(format!(
                "unknown value `{}`; use one of {}",
                crate::manifest::escape_for_message(key),
                known.join(", ")
            ));
        }
        Self {
            files,
            network_hosts: errors.read_strings(fields, "network"),
            memory_mib: errors.read_positive_integer(fields, "memory_mb"),
            processes: errors.read_positive_integer(fields, "processes"),
        }
    }

    /// Returns the access scopes that the plugin's tools require.
    pub(crate) fn required_scopes(&self) -> Vec<AccessScope> {
        let network = (!self.network_hosts.is_empty()).then_some(AccessScope::Network);
        let files = self.files.map(|_| AccessScope::Filesystem);
        network.into_iter().chain(files).collect()
    }
}

/// Runtime configuration of plugins: launcher, minimum sandbox, egress, clock and directories.
#[derive(Debug, Clone)]
pub struct PluginRuntimeConfig {
    /// Starts processes.
    pub launcher: ProcessLauncher,
    /// The least that a sandbox must be.
    pub min_sandbox_tier: SandboxLevel,
    /// Egress client; without it no plugin has network access.
    pub egress: Option<EgressClient>,
    /// Time.
    pub clock: Arc<dyn Clock>,
    /// Folder of Toolkeep into which versions are copied.
    pub copies_dir: PathBuf,
    /// Folder of the settings files.
    pub settings_dir: PathBuf,
    /// The absolute path of the interpreter for Python plugins; by default the system's.
    pub python_path: Option<PathBuf>,
    /// Time limit for a process to become ready.
    pub startup_timeout: Duration,
}

/// Effective access of a plugin: requested and granted.
#[derive(Debug, Clone, Default)]
pub(crate) struct EffectiveAccess {
    pub(crate) readable_paths: Vec<PathBuf>,
    pub(crate) writable_path: Option<PathBuf>,
    pub(crate) program_folders: Vec<PathBuf>,
    pub(crate) network_hosts: Vec<String>,
    pub(crate) limits: ResourceLimits,
}

impl EffectiveAccess {
    /// Combines both into the effective access. Otherwise returns the requested access that is not
    /// granted, and the configuration that grants it.
    pub(crate) fn resolve(
        needs: &RequestedAccess,
        grant: &AccessGrant,
        plugin: &str,
    ) -> Result<Self, (String, String)> {
        let write = format!("write it under `plugins: {{ grants: {{ {plugin}: {{");
        if let Some(files) = needs.files {
            let given = !grant.readable_dirs.is_empty() || grant.writable_dir.is_some();
            if files == FileAccess::Write && grant.writable_dir.is_none() {
                let message = "it needs a writable folder, but none is granted";
                return Err((message.to_owned(), format!("{write} write: FOLDER }} }} }}`")));
            }
            if !given {
                let told = "it needs readable folders, but none are granted";
                return Err((told.to_owned(), format!("{write} read: [FOLDER] }} }} }}`")));
            }
        }
        if !needs.network_hosts.is_empty() && grant.allowed_hosts.is_empty() {
            let hosts = crate::manifest::escape_for_message(&needs.network_hosts.join(", "));
            let told = format!("it needs network access ({hosts}), but none is granted");
            return Err((told, format!("{write} network: [HOST] }} }} }}`")));
        }
        let most = grant.max_memory_mib.unwrap_or(DEFAULT_MEMORY_MIB);
        let memory = needs.memory_mib.unwrap_or(DEFAULT_MEMORY_MIB.min(most));
        if memory > most {
            let told = format!("it needs {memory} MiB of memory, but only {most} MiB are granted");
            return Err((told, format!("{write} memory: {memory}MiB }} }} }}`")));
        }
        Ok(Self::from_grant(needs, grant, memory))
    }

    fn from_grant(needs: &RequestedAccess, grant: &AccessGrant, memory: u64) -> Self {
        let mut share = ResourceLimits {
            cpu_seconds: CPU_SECONDS,
            total_memory_bytes: memory * MIB,
            ..ResourceLimits::default()
        };
        share.max_tasks = needs.processes.unwrap_or(share.max_tasks).min(256);
        share.max_descriptors = 256;
        let reads = needs.files.is_some();
        let writes = needs.files == Some(FileAccess::Write);
        let mut read = if reads { grant.readable_dirs.clone() } else { Vec::new() };
        // Write access includes read access; a plugin that only reads does not get write access.
        if reads && !writes {
            read.extend(grant.writable_dir.clone());
        }
        Self {
            readable_paths: read,
            writable_path: grant.writable_dir.clone().filter(|_| writes),
            program_folders: grant.program_dirs.clone(),
            network_hosts: if needs.network_hosts.is_empty() {
                Vec::new()
            } else {
                grant.allowed_hosts.clone()
            },
            limits: share,
        }
    }

    /// Returns the egress class of a request to `url`; `None` if no granted host matches.
    pub(crate) fn egress_class_for(&self, url: &str) -> Option<UrlTrust> {
        let origin = Origin::parse(url).ok()?;
        for granted in &self.network_hosts {
            if granted.contains("://") {
                let given = Origin::parse(granted).ok()?;
                if given == origin {
                    return Some(UrlTrust::Configured { origin });
                }
            }
        }
        let authority = origin.authority();
        let host = authority.rsplit_once(':').map_or(authority, |(host, _)| host).to_lowercase();
        let fits = |given: &String| match given.strip_prefix("*.") {
            _ if given == "*" => true,
            Some(end) => host.strip_suffix(&end.to_lowercase()).is_some_and(|it| it.ends_with('.')),
            None => given.to_lowercase() == host,
        };
        self.network_hosts.iter().any(fits).then_some(UrlTrust::CallArgument)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn needs(files: Option<FileAccess>, network: &[&str]) -> RequestedAccess {
        let network = network.iter().map(|host| (*host).to_owned()).collect();
        RequestedAccess { files, network_hosts: network, ..RequestedAccess::default() }
    }

    #[test]
    fn what_is_asked_and_not_given_is_told_with_what_to_write() {
        let told = |needs: &RequestedAccess, grant: &AccessGrant| {
            EffectiveAccess::resolve(needs, grant, "web").unwrap_err()
        };
        let (message, fix) = told(&needs(None, &["docs.rs"]), &AccessGrant::default());
        assert_eq!(message, "it needs network access (docs.rs), but none is granted");
        assert_eq!(fix, "write it under `plugins: { grants: { web: { network: [HOST] } } }`");
        let (message, _) = told(&needs(Some(FileAccess::Read), &[]), &AccessGrant::default());
        assert_eq!(message, "it needs readable folders, but none are granted");
        let read = AccessGrant { readable_dirs: vec!["/r".into()], ..AccessGrant::default() };
        let (message, _) = told(&needs(Some(FileAccess::Write), &[]), &read);
        assert_eq!(message, "it needs a writable folder, but none is granted");
        let much = RequestedAccess { memory_mib: Some(4_000), ..RequestedAccess::default() };
        let (message, _) = told(&much, &AccessGrant::default());
        assert_eq!(message, "it needs 4000 MiB of memory, but only 1024 MiB are granted");
    }

    #[test]
    fn what_is_given_and_not_asked_is_not_given() {
        let grant = AccessGrant {
            readable_dirs: vec!["/r".into()],
            writable_dir: Some("/w".into()),
            allowed_hosts: vec!["*".to_owned()],
            ..AccessGrant::default()
        };
        let allowed = EffectiveAccess::resolve(&RequestedAccess::default(), &grant, "p").unwrap();
        assert!(allowed.readable_paths.is_empty() && allowed.writable_path.is_none());
        assert!(allowed.egress_class_for("https://example.org/").is_none());
        let allowed =
            EffectiveAccess::resolve(&needs(Some(FileAccess::Read), &[]), &grant, "p").unwrap();
        assert_eq!(allowed.readable_paths, [PathBuf::from("/r"), "/w".into()]);
        assert!(allowed.writable_path.is_none());
    }

    #[test]
    fn hosts_are_matched_whole() {
        let allowed = |hosts: &[&str]| {
            let network = hosts.iter().map(|host| (*host).to_owned()).collect();
            let grant = AccessGrant { allowed_hosts: network, ..AccessGrant::default() };
            EffectiveAccess::resolve(&needs(None, &["*"]), &grant, "p").unwrap()
        };
        let docs = allowed(&["docs.rs", "*.Example.org", "http://127.0.0.1:99"]);
        for good in ["https://docs.rs/x", "https://a.example.org/", "http://DOCS.rs:81/"] {
            assert_eq!(docs.egress_class_for(good), Some(UrlTrust::CallArgument), "{good}");
        }
        for bad in
            ["https://xdocs.rs/", "https://example.org/", "https://docs.rs.evil.org/", "file:///x"]
        {
            assert_eq!(docs.egress_class_for(bad), None, "{bad}");
        }
        assert!(matches!(
            docs.egress_class_for("http://127.0.0.1:99/a"),
            Some(UrlTrust::Configured { .. })
        ));
        assert_eq!(docs.egress_class_for("http://127.0.0.1:98/a"), None);
        assert_eq!(
            allowed(&["*"]).egress_class_for("http://127.0.0.1:98/"),
            Some(UrlTrust::CallArgument)
        );
    }
}
