//! MCP's log levels, ordered by severity.

use std::sync::LazyLock;

use tool::Json;

/// A log level of RFC 5424, ordered from least to most severe.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct LogLevel(usize);

const LEVEL_NAMES: [&str; 8] =
    ["debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"];

impl LogLevel {
    pub(crate) const DEBUG: Self = Self(0);

    /// Parses a level; `None` if the name is unknown.
    pub(crate) fn from_json(json: &Json) -> Option<Self> {
        let word: String = json.decode().ok()?;
        LEVEL_NAMES.iter().position(|known| *known == word).map(Self)
    }

    /// The name of the level as JSON.
    pub(crate) fn to_json(self) -> Json {
        Json::encode(LEVEL_NAMES.get(self.0).unwrap_or(&"debug"))
    }

    /// A `_meta` object with only this level. Nearly every call sends it, so each is built once.
    pub(crate) fn to_meta(self) -> Json {
        static MADE: LazyLock<[Json; LEVEL_NAMES.len()]> = LazyLock::new(|| {
            LEVEL_NAMES.map(|word| Json::object_from([(mcp::meta::LOG_LEVEL, &Json::encode(word))]))
        });
        MADE.get(self.0).cloned().unwrap_or_else(Json::empty_object)
    }

    /// The names of all levels, separated by commas.
    pub(crate) fn level_names() -> String {
        LEVEL_NAMES.join(", ")
    }
}

#[cfg(test)]
mod tests {
    use tool::Json;

    use super::LogLevel;

    #[test]
    fn levels_have_an_order() {
        let read = |word: &str| LogLevel::from_json(&Json::encode(word));
        assert!(read("debug") < read("warning") && read("warning") < read("emergency"));
        assert_eq!(read("debug"), Some(LogLevel::DEBUG));
        assert_eq!((read("loud"), LogLevel::from_json(&Json::encode(&3))), (None, None));
    }
}
