//! MCP's log levels, ordered by severity.

use std::sync::LazyLock;

use tool::Json;

/// A log level of RFC 5424, ordered from least to most severe.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum LogLevel {
    Debug,
    Info,
    Notice,
    Warning,
    Error,
    Critical,
    Alert,
    Emergency,
}

impl LogLevel {
    const ALL: [Self; 8] = [
        Self::Debug,
        Self::Info,
        Self::Notice,
        Self::Warning,
        Self::Error,
        Self::Critical,
        Self::Alert,
        Self::Emergency,
    ];

    /// The name of the level in MCP.
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Debug => "debug",
            Self::Info => "info",
            Self::Notice => "notice",
            Self::Warning => "warning",
            Self::Error => "error",
            Self::Critical => "critical",
            Self::Alert => "alert",
            Self::Emergency => "emergency",
        }
    }

    /// Parses a level; `None` if the name is unknown.
    pub(crate) fn from_json(json: &Json) -> Option<Self> {
        let word: String = json.decode().ok()?;
        Self::ALL.into_iter().find(|level| level.as_str() == word)
    }

    /// The name of the level as JSON.
    pub(crate) fn to_json(self) -> Json {
        Json::encode(self.as_str())
    }

    /// A `_meta` object with only this level. Nearly every call sends it, so each is built once.
    pub(crate) fn to_meta(self) -> Json {
        static META_OBJECTS: LazyLock<[(LogLevel, Json); LogLevel::ALL.len()]> =
            LazyLock::new(|| LogLevel::ALL.map(|level| (level, level.encode_meta())));
        let cached = META_OBJECTS.iter().find(|(level, _)| *level == self);
        cached.map_or_else(|| self.encode_meta(), |(_, meta)| meta.clone())
    }

    fn encode_meta(self) -> Json {
        Json::object_from([(mcp::meta::LOG_LEVEL, &self.to_json())])
    }

    /// The names of all levels, separated by commas.
    pub(crate) fn level_names() -> String {
        Self::ALL.map(Self::as_str).join(", ")
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
        assert_eq!(read("debug"), Some(LogLevel::Debug));
        assert_eq!((read("loud"), LogLevel::from_json(&Json::encode(&3))), (None, None));
    }

    #[test]
    fn each_level_is_listed_once_in_order_with_its_own_meta() {
        assert!(LogLevel::ALL.is_sorted());
        for level in LogLevel::ALL {
            assert_eq!(LogLevel::from_json(&level.to_json()), Some(level));
            let meta = level.to_meta().get(mcp::meta::LOG_LEVEL).unwrap();
            assert_eq!(LogLevel::from_json(&meta), Some(level));
        }
    }
}
