//! Spec 0's settings: modules and lists from the environment, under the names they have there.
//!
//! The file comes first: a source that it names, and a list that it holds, are not replaced from here.
//! A module that cannot be used is left out, and the others stay.

use std::collections::BTreeSet;
use std::time::Duration;

use serde_json::{Map, Value};
use tool::{Secret, SourceName};

use crate::context::FileContext;
use crate::file::is_redis;
use crate::node::shorten;
use crate::sections::{
    NO_TOKEN, SourceConfig, SourceKind, SourceSettings, http_url, is_token, listed,
};
use crate::{Fault, Place};

const SERVICES: &str = "MODULE_SERVICES";
const SLOW: &str = "SLOW_MODULES";
const TIMEOUT: &str = "TOOL_EXECUTION_TIMEOUT";
const TOKEN: &str = "SERVICE_AUTH_TOKEN";
const GUESTS: &str = "DEFAULT_GUEST_MODULES";
const REDIS: &str = "REDIS_URL";

/// The slow modules, where nothing is said (spec 0).
const SLOW_DEFAULT: &str = "garmin,renpho_biometrics,claude_code,deployer";
/// The most modules of one variable, and the most names of one list.
const MOST: usize = 1_000;

impl FileContext<'_> {
    fn setting(&self, name: &str) -> Option<&str> {
        self.environment.get(name).map(str::trim).filter(|text| !text.is_empty())
    }

    fn wrong(&self, variable: &str, message: impl Into<String>, fix: &str) {
        self.sink.add(Fault::flag(variable, message).fix(fix));
    }

    /// The modules of `MODULE_SERVICES`, in its order.
    pub(crate) fn services(&self) -> Vec<SourceConfig> {
        let Some(text) = self.setting(SERVICES) else { return Vec::new() };
        let slow = self.setting(SLOW).unwrap_or(SLOW_DEFAULT);
        let slow = self.listed(SLOW, slow).unwrap_or_default();
        let common = Settings { slow, limit: self.limit(), token: self.token() };
        let pairs = self.pairs(text);
        pairs.iter().filter_map(|(name, url)| self.service(name, url, &common)).collect()
    }

    /// Names with their URLs: an object, or names alone, each of which then is its host's.
    fn pairs(&self, text: &str) -> Vec<(String, String)> {
        let pairs: Vec<_> = match serde_json::from_str::<Map<String, Value>>(text) {
            Ok(map) => {
                let pair = |(name, url): (String, Value)| {
                    if let Value::String(url) = url {
                        return Some((name, url));
                    }
                    let message = format!("the URL of `{}` is no text", shorten(&name));
                    self.wrong(SERVICES, message, "write it as `http://HOST:PORT`");
                    None
                };
                map.into_iter().filter_map(pair).collect()
            }
            Err(error) if text.starts_with('{') => {
                let fix = "write it as `{\"research\": \"http://research:8000\"}`";
                self.wrong(SERVICES, format!("this is no JSON: {error}"), fix);
                Vec::new()
            }
            Err(_) => {
                let names = self.listed(SERVICES, text).unwrap_or_default();
                let url = |name: &String| format!("http://{}:8000", name.replace('_', "-"));
                names.iter().map(|name| (name.clone(), url(name))).collect()
            }
        };
        if pairs.len() > MOST {
            let message = format!("these are {} modules; {MOST} are allowed", pairs.len());
            self.wrong(SERVICES, message, "put the others into the file");
        }
        pairs.into_iter().take(MOST).collect()
    }

    fn service(&self, name: &str, url: &str, settings: &Settings) -> Option<SourceConfig> {
        let slow = settings.slow.iter().any(|slow| slow == name);
        let named = SourceName::of_operator(name).map_err(|fault| fault.to_string());
        let url = named.and_then(|name| Ok((name, http_url(url)?)));
        let (name, url) = url
            .map_err(|message| {
                let message = format!("the module `{}`: {message}", shorten(name));
                self.wrong(SERVICES, message, "write it as `\"NAME\": \"http://HOST:PORT\"`");
            })
            .ok()?;
        let settings = SourceSettings::of_module(
            slow,
            settings.limit.filter(|_| slow),
            settings.token.clone(),
        );
        Some(settings.source(name, SourceKind::Module(url), (SERVICES.into(), Place::NONE)))
    }

    /// Of slow modules, as spec 0 has it: in whole seconds.
    fn limit(&self) -> Option<Duration> {
        let text = self.setting(TIMEOUT)?;
        if let Ok(seconds @ 1..=600) = text.parse() {
            return Some(Duration::from_secs(seconds));
        }
        let message = format!("`{}` is no time for a call", shorten(text));
        self.wrong(TIMEOUT, message, "write whole seconds, from 1 to 600");
        None
    }

    fn token(&self) -> Option<Secret> {
        let token = self.setting(TOKEN)?;
        if is_token(token) {
            return Some(Secret::new(token));
        }
        self.sink.add(Fault::flag(TOKEN, NO_TOKEN));
        None
    }

    /// The sources of those who have no persona: of the file, else of the environment.
    pub(crate) fn guest_modules(
        &self,
        of_file: Option<(BTreeSet<String>, Place)>,
    ) -> Option<BTreeSet<String>> {
        let names = match of_file {
            Some((names, _)) => names,
            None => self.listed(GUESTS, self.setting(GUESTS)?)?.into_iter().collect(),
        };
        Some(names.into_iter().take(MOST).collect())
    }

    /// The Redis of the environment, for the modules of the environment.
    pub(crate) fn redis_of_services(&self) -> Option<Secret> {
        self.setting(SERVICES)?;
        let url = self.setting(REDIS)?;
        if is_redis(url) {
            return Some(Secret::new(url));
        }
        self.wrong(REDIS, "this is no URL of a Redis", "write it as `redis://HOST:PORT`");
        None
    }

    fn listed(&self, variable: &str, text: &str) -> Option<Vec<String>> {
        let told = |error| self.wrong(variable, error, "write it as `a,b` or as `[\"a\", \"b\"]`");
        listed(text).map_err(told).ok()
    }
}

struct Settings {
    slow: Vec<String>,
    limit: Option<Duration>,
    token: Option<Secret>,
}

#[cfg(test)]
mod tests;
