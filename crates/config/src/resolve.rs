//! From what is written to what is used: defaults, paths, addresses, and every rule that needs more
//! than one value.

mod approvals;
mod authorization;
mod builtins;
mod mcp_bounds;
mod mcp_servers;
mod modules;
mod nodes;
mod plugins;
mod policy;
mod records;
mod source;
mod tokens;
mod tool_packages;

use std::collections::HashSet;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::Duration;

use egress::HttpStack;
use sandbox::Tier;
use tool::{Secret, SourceName};
use url::Url;

use super::environment::Environment;
use super::field::Field;
use super::high::{Config, LimitsConfig, ServerConfig, SourceConfig};
use super::low;
use super::node::shorten;
use super::sink::Sink;
use super::units;
use super::{Fault, Faults, Place, ReadFile, Setting};

/// The port, where nothing is said.
const LISTEN: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 8080);
/// The largest body that may be configured.
const BODY: usize = 64 << 20;
/// The largest result that may be configured.
const RESULT: usize = 64 << 20;
/// The longest that a background server may stay without a client.
const IDLE: Duration = Duration::from_hours(24);
/// The most calls at once that may be configured.
const CALLS: u64 = 100_000;

/// Resolves one file's values.
pub(crate) struct Resolver<'a> {
    pub(crate) sink: &'a Sink<'a>,
    /// The folder that relative paths begin at, absolute.
    pub(crate) base: &'a Path,
    pub(crate) environment: &'a Environment,
}

impl Resolver<'_> {
    /// Everything but the sources. Whether the result may be used is for the faults to say.
    pub(crate) fn main(&self, low: &low::File, setting: &Setting) -> Config {
        self.version(low);
        Config {
            file: setting.file.clone(),
            listen: self.listen(low, setting),
            data: self.data(low, setting),
            sources: Vec::new(),
            server: self.server(low.server.get(), &setting.allowed_hosts),
            notes: Faults::default(),
            approvals: low.approvals.get().map(|it| self.approvals(it)).unwrap_or_default(),
            limits: low.limits.get().map(|limits| self.limits(limits)).unwrap_or_default(),
            builtins: low.builtins.get().map(|it| self.builtins(it)).unwrap_or_default(),
            checkpoints_also: self.checkpoints_also(low),
            keep: self.keep(low),
            record_file: self.record_file(low),
            tool_packages: self.tool_packages(low),
            policy: self.policy(low.policy.get()),
            policy_said: !low.policy.is_absent(),
            redis: self.redis(low),
            nodes: self.nodes(low),
            plugins: self.plugins(low),
            tokens: self.tokens(low),
            default_guest_modules: self.guest_modules(low),
            guest_modules_at: low.default_guest_modules.given().map(|(_, place)| place),
        }
    }

    /// The sources that can be used, and the files that were read for them. One name, one source: the
    /// first stays.
    pub(crate) fn sources(&self, low: &[Field<low::Source>]) -> (Vec<SourceConfig>, Vec<ReadFile>) {
        let (mut found, mut included) = (Vec::new(), Vec::new());
        let mut names: HashSet<SourceName> = HashSet::new();
        for field in low {
            let Some((source, place)) = field.given() else { continue };
            for source in self.source(source, field.is_sound(), place, &mut included) {
                if names.insert(source.name.clone()) {
                    found.push(source);
                } else {
                    let (file, place) = source.written;
                    let message = format!("there is a source `{}` already", source.name);
                    let fault = Fault::new(&file, place, message);
                    self.sink.add(fault.fix("give it another name"));
                }
            }
        }
        (found, included)
    }

    fn version(&self, low: &low::File) {
        match &low.version {
            Field::Absent => {
                let fix = "write `version: 1` as the first line";
                self.sink.tell(Place::TOP, "the key `version` is missing", fix);
            }
            Field::Given { value: 1, .. } | Field::Faulty => {}
            Field::Given { value, place, .. } => {
                let message = format!("version {value} is not known");
                self.sink.tell(*place, message, "this version of toolkeep reads version 1");
            }
        }
    }

    fn listen(&self, low: &low::File, setting: &Setting) -> SocketAddr {
        let in_file = low.server.get().and_then(|server| server.behind_tls.get());
        let behind_tls = setting.behind_tls || in_file == Some(&true);
        let (text, flag) = match (&setting.listen, low.listen.given()) {
            (Some(text), _) => (text, None),
            (None, Some((text, place))) => (text, Some(place)),
            (None, None) => return LISTEN,
        };
        let wrong = |message: String, fix: &str| {
            match flag {
                Some(place) => self.sink.tell(place, message, fix),
                None => self.sink.add(Fault::flag("--listen", message).fix(fix)),
            }
            LISTEN
        };
        let Some(address) = address(text) else {
            let message = format!("`{}` is no address to listen on", shorten(text));
            return wrong(message, "write an IP address and a port, such as `127.0.0.1:8080`");
        };
        if !address.ip().is_loopback() && !behind_tls {
            let message = format!("`{address}` is open to the network, and this is plain HTTP");
            let fix = "listen on 127.0.0.1; or put a TLS proxy in front, or keep the network private, and say so: \
                       `serve --behind-tls`, TOOLKEEP_BEHIND_TLS=true, or `server: { behind_tls: true }` in the \
                       configuration";
            return wrong(message, fix);
        }
        address
    }

    fn data(&self, low: &low::File, setting: &Setting) -> PathBuf {
        if let Some(data) = &setting.data {
            return setting.folder.join(data);
        }
        if let Some(data) = low.data.get() {
            return self.path(data);
        }
        self.environment.data_home().unwrap_or_else(|| {
            let message = "there is no home folder to keep data in";
            self.sink.add(Fault::flag("--data", message).fix("say where: `--data DIR`"));
            setting.folder.join("toolkeep-data")
        })
    }

    fn server(&self, low: Option<&low::Server>, flags: &[String]) -> ServerConfig {
        let default = ServerConfig::default();
        let of_flag = |text: &String| {
            let host = host(text);
            if host.is_none() {
                let message = format!("`{}` is no host name", shorten(text));
                self.sink.add(Fault::flag("--allowed-host", message).fix(HOST_FIX));
            }
            host
        };
        let flags: Vec<_> = flags.iter().filter(|it| !it.is_empty()).filter_map(of_flag).collect();
        let Some(low) = low else { return ServerConfig { allowed_hosts: flags, ..default } };
        let texts = |field: &'_ Field<Vec<Field<String>>>| {
            let all = field.get().into_iter().flatten();
            all.filter_map(|text| text.given().map(|(text, place)| (text.clone(), place)))
                .collect::<Vec<_>>()
        };
        let hosts = texts(&low.allowed_hosts).into_iter();
        let origins = texts(&low.allowed_origins).into_iter();
        ServerConfig {
            allowed_hosts: hosts
                .filter_map(|(text, place)| self.host(&text, place))
                .chain(flags)
                .collect(),
            allowed_origins: origins
                .filter_map(|(text, place)| self.origin(&text, place))
                .collect(),
            max_body: self.size(&low.max_body, BODY).unwrap_or(default.max_body),
            cage: low.cage.get().map_or(default.cage, |word| match word {
                low::CageWord::Whole => Tier::Whole,
                low::CageWord::Fenced => Tier::Fenced,
            }),
            idle_timeout: self.time_within(&low.idle_timeout, IDLE).unwrap_or(default.idle_timeout),
            http: low.http.get().map_or(default.http, |word| match word {
                low::HttpWord::Fast => HttpStack::Fast,
                low::HttpWord::Standard => HttpStack::Standard,
            }),
        }
    }

    fn host(&self, text: &str, place: Place) -> Option<String> {
        let host = host(text);
        if host.is_none() {
            let message = format!("`{}` is no host name", shorten(text));
            self.sink.tell(place, message, HOST_FIX);
        }
        host
    }

    fn origin(&self, text: &str, place: Place) -> Option<String> {
        let origin = Url::parse(text).ok().map(|url| url.origin());
        let origin =
            origin.filter(url::Origin::is_tuple).map(|origin| origin.ascii_serialization());
        if origin.as_deref() == Some(text.trim_end_matches('/')) {
            return origin;
        }
        let message = format!("`{}` is no origin", shorten(text));
        self.sink.tell(
            place,
            message,
            "write scheme, host and port only: `https://console.example`",
        );
        None
    }

    fn limits(&self, low: &low::Limits) -> LimitsConfig {
        let default = LimitsConfig::default();
        let calls = |field: &Field<u64>| match field.given() {
            Some((1..=CALLS, _)) => field.get().and_then(|calls| usize::try_from(*calls).ok()),
            Some((_, place)) => {
                let message = format!("use a number from 1 to {CALLS}");
                self.sink.tell(place, message, "");
                None
            }
            None => None,
        };
        let per_source = calls(&low.calls_per_source).unwrap_or(default.bounds.per_source);
        let bounds = option_types::Bounds {
            calls: calls(&low.calls).unwrap_or(default.bounds.calls),
            per_key: calls(&low.calls_per_key).unwrap_or(default.bounds.per_key),
            per_source,
            per_key_and_source: calls(&low.calls_per_key_and_source)
                .unwrap_or_else(|| option_types::Bounds::share(per_source)),
        };
        LimitsConfig {
            bounds,
            result_bytes: self.size(&low.result_bytes, RESULT).unwrap_or(default.result_bytes),
        }
    }

    /// A time from 1 ms to `longest`.
    fn time_within(&self, field: &Field<String>, longest: Duration) -> Option<Duration> {
        let (text, place) = field.given()?;
        let told = |advice: String| {
            self.sink.tell(place, format!("`{}` is no such time", shorten(text)), &advice);
        };
        units::time(text, longest).map_err(told).ok()
    }

    fn size(&self, field: &Field<low::Size>, most: usize) -> Option<usize> {
        let (size, place) = field.given()?;
        match units::size(&size.0) {
            Ok(bytes) if (1024..=most).contains(&bytes) => Some(bytes),
            Ok(_) => {
                let message = format!("`{}` is out of range", shorten(&size.0));
                self.sink.tell(place, message, &format!("use 1KiB to {}MiB", most >> 20));
                None
            }
            Err(advice) => {
                self.sink.tell(place, format!("`{}` is no size", shorten(&size.0)), &advice);
                None
            }
        }
    }

    fn redis(&self, low: &low::File) -> Option<Secret> {
        let Some((text, place)) = low.redis.given() else { return self.redis_of_services() };
        if is_redis(text) {
            return Some(Secret::new(text.clone()));
        }
        let fix = "write it as `redis://HOST:PORT`, or `rediss://` for TLS";
        self.sink.tell_hidden(place, "this is no URL of a Redis", fix);
        None
    }

    /// A path, relative to the file; `~/` is the home folder.
    pub(crate) fn path(&self, text: &str) -> PathBuf {
        match (text.strip_prefix("~/"), self.environment.home()) {
            (Some(rest), Some(home)) => home.join(rest),
            // As components, so that `./` does not show in what is told of the path.
            _ => self.base.join(text).components().collect(),
        }
    }
}

fn is_redis(text: &str) -> bool {
    let fits = |url: &Url| matches!(url.scheme(), "redis" | "rediss") && url.has_host();
    Url::parse(text).is_ok_and(|url| fits(&url))
}

/// What to do about a host name that is none.
const HOST_FIX: &str = "write the name alone, such as `tools.example`";

/// A host name or an IPv6 address in brackets, in lower case and without port.
fn host(text: &str) -> Option<String> {
    let host = text.to_ascii_lowercase();
    let letters = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_');
    let address = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
    let is_address = address.is_some_and(|text| text.parse::<std::net::Ipv6Addr>().is_ok());
    let is_name = (1..=255).contains(&host.len()) && host.chars().all(letters);
    (is_name || is_address).then_some(host)
}

/// An address to listen on: an IP address or `localhost`, and a port.
fn address(text: &str) -> Option<SocketAddr> {
    match text.strip_prefix("localhost:") {
        Some(port) => Some(SocketAddr::new(Ipv4Addr::LOCALHOST.into(), port.parse().ok()?)),
        None => text.parse().ok(),
    }
}

#[cfg(test)]
mod tests;
