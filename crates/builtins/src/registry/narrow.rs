//! What an operator takes from a tool. Nothing here gives one more than it is shipped with.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tool::{CallerType, Json, Level, Safety, Tool};

use super::{Declared, Registry};

/// What is taken from one tool. Its name, description, parameters, result, scopes and effects stay what
/// they are: they say what it does.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Narrowing {
    /// It is not offered.
    pub off: bool,
    /// At least as high as its own.
    pub safety: Option<Safety>,
    /// At least as high as its own.
    pub level: Option<Level>,
    /// Only `true` changes something.
    pub destructive: Option<bool>,
    /// Only `false` changes something.
    pub chain: Option<bool>,
    /// At most its own.
    pub timeout: Option<Duration>,
    /// Maxima of numbers among its arguments, each at most its own.
    pub maximum: BTreeMap<String, u64>,
}

impl Narrowing {
    /// That there is such a tool, and that it has no more afterwards.
    ///
    /// # Errors
    /// What would widen it, in words for the operator.
    pub fn check(&self, name: &str) -> Result<(), String> {
        let Some(declared) = Registry::shipped().get(name) else {
            let name: String = name.chars().take(64).flat_map(char::escape_debug).collect();
            return Err(format!("there is no built-in tool `{name}`"));
        };
        let traits = &declared.tool.traits;
        let wider = |what: &str, own: &dyn std::fmt::Display| {
            Err(format!("`{what}` of `{name}` is {own} and can only be made stricter"))
        };
        if self.safety.is_some_and(|safety| safety < traits.safety) {
            return wider("safety", &traits.safety);
        }
        if self.level.is_some_and(|level| level < traits.level) {
            return wider("required_permission", &traits.level);
        }
        if self.destructive == Some(false) && traits.destructive {
            return wider("destructive", &true);
        }
        if self.chain == Some(true) && !traits.callers.contains(&CallerType::Chain) {
            return wider("chain", &false);
        }
        if let (Some(own), Some(timeout)) = (traits.timeout, self.timeout)
            && timeout > own
        {
            return wider("timeout", &format!("{}s", own.as_secs()));
        }
        for (parameter, most) in &self.maximum {
            let own = declared.bound(parameter).most;
            if own == 0 {
                return Err(format!("`{name}` has no number `{parameter}` with a maximum"));
            }
            if *most > own || *most == 0 {
                return wider(&format!("maximum: {parameter}"), &own);
            }
        }
        Ok(())
    }
}

impl Registry {
    /// With less for some tools. What [`Narrowing::check`] refuses is not offered at all.
    pub(crate) fn narrowed(&self, by: &BTreeMap<String, Narrowing>) -> Self {
        let narrowed = |declared: &Declared| {
            let name = declared.tool.name.as_str();
            match by.get(name) {
                None => Some(declared.clone()),
                Some(it) if it.off || it.check(name).is_err() => None,
                Some(it) => Some(declared.narrowed(it)),
            }
        };
        Self(self.0.iter().filter_map(narrowed).collect())
    }
}

impl Declared {
    fn narrowed(&self, by: &Narrowing) -> Self {
        let mut tool = Tool::clone(&self.tool);
        let traits = &mut tool.traits;
        traits.safety = by.safety.unwrap_or(traits.safety).max(traits.safety);
        traits.level = by.level.unwrap_or(traits.level).max(traits.level);
        traits.destructive |= by.destructive == Some(true);
        if by.chain == Some(false) {
            traits.callers.retain(|caller| *caller != CallerType::Chain);
        }
        traits.timeout = [traits.timeout, by.timeout].into_iter().flatten().min();
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

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use tool::{CallerType, Level, Safety};

    use super::{Narrowing, Registry};
    use crate::registry::Bound;

    #[test]
    fn a_tool_has_less_afterwards() {
        let maximum = BTreeMap::from([("max_bytes".to_owned(), 10)]);
        let less = Narrowing {
            safety: Some(Safety::Dangerous),
            level: Some(Level::Admin),
            destructive: Some(true),
            chain: Some(false),
            maximum,
            ..Narrowing::default()
        };
        less.check("read_file").unwrap();
        let off = Narrowing { off: true, ..Narrowing::default() };
        let wider = Narrowing { safety: Some(Safety::Safe), ..Narrowing::default() };
        assert!(wider.check("write_file").is_err());
        let by = [("read_file", less), ("echo", off), ("write_file", wider)];
        let by = by.into_iter().map(|(name, it)| (name.to_owned(), it)).collect();
        let registry = Registry::shipped().narrowed(&by);
        assert!(registry.get("echo").is_none() && registry.get("write_file").is_none());
        let read = registry.get("read_file").unwrap();
        assert_eq!(read.bound("max_bytes"), Bound { usual: 10, most: 10 });
        let traits = &read.tool.traits;
        assert_eq!((traits.safety, traits.level), (Safety::Dangerous, Level::Admin));
        assert!(traits.destructive && traits.callers == [CallerType::Direct]);
        assert_eq!(read.tool.input.value(), read.tool.received.value()["parameters"]);
        let same = registry.get("calculator").unwrap();
        assert_eq!(same.tool, Registry::shipped().get("calculator").unwrap().tool);
    }
}
