//! Environment variables of the module API, such as `MODULE_SERVICES`, read as sources and lists.
//!
//! The file wins: a variable replaces neither a source nor a list of the file. An invalid module is dropped, and the
//! others stay.

use std::collections::BTreeSet;
use std::time::Duration;

use serde_json::{Map, Value};
use tool::{Secret, SourceName};

use crate::config_file::is_redis_url;
use crate::file_context::FileContext;
use crate::sections::{
    INVALID_TOKEN, SourceConfig, SourceKind, SourceSettings, is_bearer_token, parse_http_url,
    parse_name_list,
};
use crate::yaml_tree::shorten_text;
use crate::{ConfigError, ConfigLocation, ConfigPosition};

const SERVICES_VARIABLE: &str = "MODULE_SERVICES";
const SLOW_VARIABLE: &str = "SLOW_MODULES";
const TIMEOUT_VARIABLE: &str = "TOOL_EXECUTION_TIMEOUT";
const TOKEN_VARIABLE: &str = "SERVICE_AUTH_TOKEN";
const GUESTS_VARIABLE: &str = "DEFAULT_GUEST_MODULES";
const REDIS_VARIABLE: &str = "REDIS_URL";

/// The slow modules by default (spec 0).
const DEFAULT_SLOW_MODULES: &str = "garmin,renpho_biometrics,claude_code,deployer";
/// The most modules or names of one variable.
const MAX_NAMES: usize = 1_000;

impl FileContext<'_> {
    fn variable_text(&self, name: &str) -> Option<&str> {
        self.environment.get(name).map(str::trim).filter(|text| !text.is_empty())
    }

    fn report_variable(&self, variable: &str, message: impl Into<String>, help: &str) {
        self.errors.push_error(ConfigError::for_flag(variable, message).with_help(help));
    }

    /// The modules of `MODULE_SERVICES`, in its order.
    pub(crate) fn module_services(&self) -> Vec<SourceConfig> {
        let Some(text) = self.variable_text(SERVICES_VARIABLE) else { return Vec::new() };
        let slow = self.variable_text(SLOW_VARIABLE).unwrap_or(DEFAULT_SLOW_MODULES);
        let slow_modules = self.parse_names(SLOW_VARIABLE, slow).unwrap_or_default();
        let options = ServiceOptions {
            slow_modules,
            slow_timeout: self.slow_module_timeout(),
            token: self.service_token(),
        };
        let services = self.parse_services(text);
        services.iter().filter_map(|(name, url)| self.module_source(name, url, &options)).collect()
    }

    /// Parses names with their URLs: an object, or names alone, whose URLs are `http://NAME:8000`.
    fn parse_services(&self, text: &str) -> Vec<(String, String)> {
        let services: Vec<_> = match serde_json::from_str::<Map<String, Value>>(text) {
            Ok(map) => {
                let service = |(name, url): (String, Value)| {
                    if let Value::String(url) = url {
                        return Some((name, url));
                    }
                    let message = format!("the URL of `{}` is not a string", shorten_text(&name));
                    let help = "write it as `http://HOST:PORT`";
                    self.report_variable(SERVICES_VARIABLE, message, help);
                    None
                };
                map.into_iter().filter_map(service).collect()
            }
            Err(error) if text.starts_with('{') => {
                let help = "write it as `{\"research\": \"http://research:8000\"}`";
                self.report_variable(SERVICES_VARIABLE, format!("invalid JSON: {error}"), help);
                Vec::new()
            }
            Err(_) => {
                let names = self.parse_names(SERVICES_VARIABLE, text).unwrap_or_default();
                let url = |name: &String| format!("http://{}:8000", name.replace('_', "-"));
                names.iter().map(|name| (name.clone(), url(name))).collect()
            }
        };
        if services.len() > MAX_NAMES {
            let count = services.len();
            let message = format!("{count} modules are too many; at most {MAX_NAMES} are allowed");
            self.report_variable(SERVICES_VARIABLE, message, "put the others into the file");
        }
        services.into_iter().take(MAX_NAMES).collect()
    }

    fn module_source(
        &self,
        name: &str,
        url: &str,
        options: &ServiceOptions,
    ) -> Option<SourceConfig> {
        let is_slow = options.slow_modules.iter().any(|slow| slow == name);
        let parsed = SourceName::from_operator(name).map_err(|error| error.to_string());
        let parsed = parsed.and_then(|name| Ok((name, parse_http_url(url)?)));
        let (name, url) = parsed
            .map_err(|message| {
                let message = format!("the module `{}`: {message}", shorten_text(name));
                let help = "write it as `\"NAME\": \"http://HOST:PORT\"`";
                self.report_variable(SERVICES_VARIABLE, message, help);
            })
            .ok()?;
        let settings = SourceSettings::for_module(
            is_slow,
            options.slow_timeout.filter(|_| is_slow),
            options.token.clone(),
        );
        let location =
            ConfigLocation { file: SERVICES_VARIABLE.into(), position: ConfigPosition::UNKNOWN };
        Some(settings.into_source(name, SourceKind::Module(url), location))
    }

    /// The timeout of slow modules in whole seconds (spec 0).
    fn slow_module_timeout(&self) -> Option<Duration> {
        let text = self.variable_text(TIMEOUT_VARIABLE)?;
        if let Ok(seconds @ 1..=600) = text.parse() {
            return Some(Duration::from_secs(seconds));
        }
        let message = format!("invalid call timeout `{}`", shorten_text(text));
        self.report_variable(TIMEOUT_VARIABLE, message, "write whole seconds, from 1 to 600");
        None
    }

    fn service_token(&self) -> Option<Secret> {
        let token = self.variable_text(TOKEN_VARIABLE)?;
        if is_bearer_token(token) {
            return Some(Secret::new(token));
        }
        self.errors.push_error(ConfigError::for_flag(TOKEN_VARIABLE, INVALID_TOKEN));
        None
    }

    /// The sources that callers without a persona may use: from the file, else from the environment.
    pub(crate) fn resolve_guest_modules(
        &self,
        file_names: Option<(BTreeSet<String>, ConfigPosition)>,
    ) -> Option<BTreeSet<String>> {
        let names = if let Some((names, _)) = file_names {
            names
        } else {
            let text = self.variable_text(GUESTS_VARIABLE)?;
            self.parse_names(GUESTS_VARIABLE, text)?.into_iter().collect()
        };
        Some(names.into_iter().take(MAX_NAMES).collect())
    }

    /// The Redis for the modules of the environment.
    pub(crate) fn module_redis_url(&self) -> Option<Secret> {
        self.variable_text(SERVICES_VARIABLE)?;
        let url = self.variable_text(REDIS_VARIABLE)?;
        if is_redis_url(url) {
            return Some(Secret::new(url));
        }
        let help = "write it as `redis://HOST:PORT`";
        self.report_variable(REDIS_VARIABLE, "invalid Redis URL", help);
        None
    }

    fn parse_names(&self, variable: &str, text: &str) -> Option<Vec<String>> {
        let report = |error| {
            self.report_variable(variable, error, "write it as `a,b` or as `[\"a\", \"b\"]`");
        };
        parse_name_list(text).map_err(report).ok()
    }
}

/// Options that all modules of the environment share.
struct ServiceOptions {
    slow_modules: Vec<String>,
    slow_timeout: Option<Duration>,
    token: Option<Secret>,
}

#[cfg(test)]
mod tests;
