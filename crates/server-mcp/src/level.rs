//! MCP's log levels, ordered by severity.

use std::sync::LazyLock;

use tool::Json;

/// A log level of RFC 5424, ordered from least to most severe.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Level(usize);

const WORDS: [&str; 8] =
    ["debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"];

impl Level {
    pub(crate) const LEAST: Self = Self(0);

    /// Parses a level; `None` if the name is unknown.
    pub(crate) fn read(json: &Json) -> Option<Self> {
        let word: String = json.read().ok()?;
        WORDS.iter().position(|known| *known == word).map(Self)
    }

    /// The name of the level as JSON.
    pub(crate) fn word(self) -> Json {
        Json::of(WORDS.get(self.0).unwrap_or(&"debug"))
    }

    /// A `_meta` object with only this level. Nearly every call sends it, so each is built once.
    pub(crate) fn alone(self) -> Json {
        static MADE: LazyLock<[Json; WORDS.len()]> = LazyLock::new(|| {
            WORDS.map(|word| Json::fields([(mcp::meta::LOG_LEVEL, &Json::of(word))]))
        });
        MADE.get(self.0).cloned().unwrap_or_else(Json::empty)
    }

    /// The names of all levels, separated by commas.
    pub(crate) fn words() -> String {
        WORDS.join(", ")
    }
}

#[cfg(test)]
mod tests {
    use tool::Json;

    use super::Level;

    #[test]
    fn levels_have_an_order() {
        let read = |word: &str| Level::read(&Json::of(word));
        assert!(read("debug") < read("warning") && read("warning") < read("emergency"));
        assert_eq!(read("debug"), Some(Level::LEAST));
        assert_eq!((read("loud"), Level::read(&Json::of(&3))), (None, None));
    }
}
