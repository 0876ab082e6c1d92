//! Operator restrictions of single tools. They can only make a tool stricter.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tool::display_text::truncate_and_escape_debug;
use tool::{CallerType, Json, PermissionLevel, SafetyLevel, Tool, ToolTraits};

use super::{ManifestRegistry, ToolDeclaration};
use crate::builtin_tool::BuiltinTool;

/// Restrictions of one tool. Name, description, parameters, result, scopes and effects cannot be
/// changed, because they describe what it does.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ToolRestriction {
    /// Whether the tool is disabled.
    pub is_disabled: bool,
    /// Safety level, at least the tool's own.
    pub safety: Option<SafetyLevel>,
    /// Required level, at least the tool's own.
    pub min_level: Option<PermissionLevel>,
    /// Marks the tool as destructive; only `true` has an effect.
    pub destructive: Option<bool>,
    /// Whether programs may call the tool; only `false` has an effect.
    pub allows_chain: Option<bool>,
    /// Timeout, at most the tool's own.
    pub timeout: Option<Duration>,
    /// Largest arguments in bytes, at most the tool's own.
    pub max_argument_bytes: Option<usize>,
    /// Maxima of numeric arguments, each at most the tool's own.
    pub max_values: BTreeMap<String, u64>,
}

impl ToolRestriction {
    /// Checks that `registry` has the tool and that the restriction does not widen it.
    ///
    /// # Errors
    /// A message for the operator that names what would be widened.
    pub fn validate_for(&self, registry: &ManifestRegistry, name: &str) -> Result<(), String> {
        let Some(declared) = registry.find_tool(name) else {
            let name = truncate_and_escape_debug(name, 64);
            return Err(format!("no built-in tool `{name}`"));
        };
        self.validate_traits(name, &declared.tool.traits)?;
        for (parameter, most) in &self.max_values {
            let own = declared.numeric_limit(parameter).max;
            if own == 0 {
                return Err(format!(
                    "`{name}` has no numeric parameter `{parameter}` with a \
                    maximum"
                ));
            }
            if *most > own || *most == 0 {
                return Err(widening_error(&format!("maximum: {parameter}"), name, &own));
            }
        }
        Ok(())
    }

    /// Checks the restriction for a tool of another crate. Its numeric limits are fixed, because
    /// its defaults are its own.
    ///
    /// # Errors
    /// As [`ToolRestriction::validate_for`].
    pub fn validate_for_tool(&self, tool: &Tool) -> Result<(), String> {
        let name = tool.name.as_str();
        if !self.max_values.is_empty() {
            return Err(format!("`maximum` is not supported for `{name}`; its limits are fixed"));
        }
        self.validate_traits(name, &tool.traits)
    }

    fn validate_traits(&self, name: &str, traits: &ToolTraits) -> Result<(), String> {
        if self.safety.is_some_and(|safety| safety < traits.safety) {
            return Err(widening_error("safety", name, &traits.safety));
        }
        if self.min_level.is_some_and(|level| level < traits.min_level) {
            return Err(widening_error("required_permission", name, &traits.min_level));
        }
        if self.destructive == Some(false) && traits.is_destructive {
            return Err(widening_error("destructive", name, &true));
        }
        if self.allows_chain == Some(true) && !traits.allowed_callers.contains(&CallerType::Chain) {
            return Err(widening_error("chain", name, &false));
        }
        if let (Some(own), Some(timeout)) = (traits.timeout, self.timeout)
            && timeout > own
        {
            return Err(widening_error("timeout", name, &format!("{}s", own.as_secs())));
        }
        let own = traits.argument_limits().max_bytes;
        if self.max_argument_bytes.is_some_and(|bytes| bytes > own) {
            return Err(widening_error("arguments", name, &format!("{} MiB", own >> 20)));
        }
        Ok(())
    }

    fn restrict_traits(&self, traits: &mut ToolTraits) {
        traits.safety = self.safety.unwrap_or(traits.safety).max(traits.safety);
        traits.min_level = self.min_level.unwrap_or(traits.min_level).max(traits.min_level);
        traits.is_destructive |= self.destructive == Some(true);
        if self.allows_chain == Some(false) {
            traits.allowed_callers.retain(|caller| *caller != CallerType::Chain);
        }
        traits.timeout = [traits.timeout, self.timeout].into_iter().flatten().min();
        let own = traits.argument_limits().max_bytes;
        traits.max_argument_bytes =
            self.max_argument_bytes.map(|bytes| bytes.min(own)).or(traits.max_argument_bytes);
    }

    /// Restricts a tool of another crate; `None` if it is disabled or the restriction is invalid.
    pub fn restrict_tool(&self, builtin: BuiltinTool) -> Option<BuiltinTool> {
        if self.is_disabled || self.validate_for_tool(&builtin.tool).is_err() {
            return None;
        }
        let mut tool = Tool::clone(&builtin.tool);
        self.restrict_traits(&mut tool.traits);
        Some(BuiltinTool { tool: Arc::new(tool), ..builtin })
    }
}

fn widening_error(what: &str, name: &str, own: &dyn std::fmt::Display) -> String {
    format!("`{what}` of `{name}` is {own} and can only be made stricter")
}

impl ManifestRegistry {
    /// Applies restrictions by tool name. A tool whose restriction [`ToolRestriction::validate_for`] rejects is
    /// not offered.
    #[must_use]
    pub fn with_restrictions(&self, restrictions: &BTreeMap<String, ToolRestriction>) -> Self {
        let narrowed = |declared: &ToolDeclaration| {
            let name = declared.tool.name.as_str();
            match restrictions.get(name) {
                None => Some(declared.clone()),
                Some(it) if it.is_disabled || it.validate_for(self, name).is_err() => None,
                Some(it) => Some(declared.with_restriction(it)),
            }
        };
        Self(self.0.iter().filter_map(narrowed).collect())
    }
}

impl ToolDeclaration {
    fn with_restriction(&self, by: &ToolRestriction) -> Self {
        let mut tool = Tool::clone(&self.tool);
        by.restrict_traits(&mut tool.traits);
        let mut input = self.input.clone();
        for (parameter, most) in &by.max_values {
            let schema = input.pointer_mut(&format!("/properties/{parameter}"));
            let Some(Value::Object(schema)) = schema else { continue };
            let usual = schema.get("default").and_then(Value::as_u64);
            schema.insert("maximum".to_owned(), json!(most));
            if let Some(usual) = usual {
                schema.insert("default".to_owned(), json!(usual.min(*most)));
            }
        }
        tool.input_schema = Json::encode(&input);
        let mut received = tool.raw_definition.to_value();
        if let Some(received) = received.as_object_mut() {
            received.insert("parameters".to_owned(), input.clone());
        }
        tool.raw_definition = Json::encode(&received);
        Self { tool: Arc::new(tool), input, ..self.clone() }
    }
}
