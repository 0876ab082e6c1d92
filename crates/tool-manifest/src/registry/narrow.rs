//! Operator restrictions of single tools. They can only make a tool stricter.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tool::{CallerType, Json, Level, Safety, Tool, Traits};

use super::{Declared, Registry};
use crate::builtin::Builtin;

/// Restrictions of one tool. Name, description, parameters, result, scopes and effects cannot be
/// changed, because they describe what it does.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Narrowing {
    /// Whether the tool is disabled.
    pub off: bool,
    /// Safety level, at least the tool's own.
    pub safety: Option<Safety>,
    /// Required level, at least the tool's own.
    pub level: Option<Level>,
    /// Marks the tool as destructive; only `true` has an effect.
    pub destructive: Option<bool>,
    /// Whether programs may call the tool; only `false` has an effect.
    pub chain: Option<bool>,
    /// Timeout, at most the tool's own.
    pub timeout: Option<Duration>,
    /// Largest arguments in bytes, at most the tool's own.
    pub arguments: Option<usize>,
    /// Maxima of numeric arguments, each at most the tool's own.
    pub maximum: BTreeMap<String, u64>,
}

impl Narrowing {
    /// Checks that `registry` has the tool and that the restriction does not widen it.
    ///
    /// # Errors
    /// A message for the operator that names what would be widened.
    pub fn check(&self, registry: &Registry, name: &str) -> Result<(), String> {
        let Some(declared) = registry.get(name) else {
            let name: String = name.chars().take(64).flat_map(char::escape_debug).collect();
            return Err(format!("there is no built-in tool `{name}`"));
        };
        self.fits(name, &declared.tool.traits)?;
        for (parameter, most) in &self.maximum {
            let own = declared.bound(parameter).most;
            if own == 0 {
                return Err(format!("`{name}` has no number `{parameter}` with a maximum"));
            }
            if *most > own || *most == 0 {
                return Err(wider(&format!("maximum: {parameter}"), name, &own));
            }
        }
        Ok(())
    }

    /// Checks the restriction for a tool of another crate. Its numeric limits are fixed, because
    /// its defaults are its own.
    ///
    /// # Errors
    /// As [`Narrowing::check`].
    pub fn check_tool(&self, tool: &Tool) -> Result<(), String> {
        let name = tool.name.as_str();
        if !self.maximum.is_empty() {
            return Err(format!("`maximum` cannot be given for `{name}`; its limits are fixed"));
        }
        self.fits(name, &tool.traits)
    }

    fn fits(&self, name: &str, traits: &Traits) -> Result<(), String> {
        if self.safety.is_some_and(|safety| safety < traits.safety) {
            return Err(wider("safety", name, &traits.safety));
        }
        if self.level.is_some_and(|level| level < traits.level) {
            return Err(wider("required_permission", name, &traits.level));
        }
        if self.destructive == Some(false) && traits.destructive {
            return Err(wider("destructive", name, &true));
        }
        if self.chain == Some(true) && !traits.callers.contains(&CallerType::Chain) {
            return Err(wider("chain", name, &false));
        }
        if let (Some(own), Some(timeout)) = (traits.timeout, self.timeout)
            && timeout > own
        {
            return Err(wider("timeout", name, &format!("{}s", own.as_secs())));
        }
        let own = traits.limits().bytes;
        if self.arguments.is_some_and(|bytes| bytes > own) {
            return Err(wider("arguments", name, &format!("{} MiB", own >> 20)));
        }
        Ok(())
    }

    fn take_from(&self, traits: &mut Traits) {
        traits.safety = self.safety.unwrap_or(traits.safety).max(traits.safety);
        traits.level = self.level.unwrap_or(traits.level).max(traits.level);
        traits.destructive |= self.destructive == Some(true);
        if self.chain == Some(false) {
            traits.callers.retain(|caller| *caller != CallerType::Chain);
        }
        traits.timeout = [traits.timeout, self.timeout].into_iter().flatten().min();
        let own = traits.limits().bytes;
        traits.arguments = self.arguments.map(|bytes| bytes.min(own)).or(traits.arguments);
    }

    /// Restricts a tool of another crate; `None` if it is disabled or the restriction is invalid.
    pub fn applied(&self, builtin: Builtin) -> Option<Builtin> {
        if self.off || self.check_tool(&builtin.tool).is_err() {
            return None;
        }
        let mut tool = Tool::clone(&builtin.tool);
        self.take_from(&mut tool.traits);
        Some(Builtin { tool: Arc::new(tool), ..builtin })
    }
}

fn wider(what: &str, name: &str, own: &dyn std::fmt::Display) -> String {
    format!("`{what}` of `{name}` is {own} and can only be made stricter")
}

impl Registry {
    /// Applies restrictions by tool name. A tool whose restriction [`Narrowing::check`] rejects is
    /// not offered.
    #[must_use]
    pub fn narrowed(&self, by: &BTreeMap<String, Narrowing>) -> Self {
        let narrowed = |declared: &Declared| {
            let name = declared.tool.name.as_str();
            match by.get(name) {
                None => Some(declared.clone()),
                Some(it) if it.off || it.check(self, name).is_err() => None,
                Some(it) => Some(declared.narrowed(it)),
            }
        };
        Self(self.0.iter().filter_map(narrowed).collect())
    }
}

impl Declared {
    fn narrowed(&self, by: &Narrowing) -> Self {
        let mut tool = Tool::clone(&self.tool);
        by.take_from(&mut tool.traits);
        let mut input = self.input.clone();
        for (parameter, most) in &by.maximum {
            let schema = input.pointer_mut(&format!("/properties/{parameter}"));
            let Some(Value::Object(schema)) = schema else { continue };
            let usual = schema.get("default").and_then(Value::as_u64);
            schema.insert("maximum".to_owned(), json!(most));
            if let Some(usual) = usual {
                schema.insert("default".to_owned(), json!(usual.min(*most)));
            }
        }
        tool.input = Json::of(&input);
        let mut received = tool.received.value();
        if let Some(received) = received.as_object_mut() {
            received.insert("parameters".to_owned(), input.clone());
        }
        tool.received = Json::of(&received);
        Self { tool: Arc::new(tool), input, ..self.clone() }
    }
}
