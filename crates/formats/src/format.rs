//! The formats there are, and their names.

use std::fmt;
use std::str::FromStr;

/// A provider's way to write tools, calls and outcomes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Format {
    /// OpenAI Chat Completions, and what copies it.
    OpenaiChat,
    /// The same, with strict schemas where they can say what there is to say.
    OpenaiChatStrict,
    /// OpenAI Responses.
    OpenaiResponses,
    /// The same, with strict schemas where they can say what there is to say.
    OpenaiResponsesStrict,
    /// Anthropic Messages.
    Anthropic,
    /// Gemini, all declarations in one list.
    Gemini,
    /// Gemini, one list per tool, as spec 2 has it.
    GeminiPerTool,
    /// Ollama.
    Ollama,
    /// Model Context Protocol.
    Mcp,
}

/// Every format with its names; the first is the one that is written.
const NAMES: &[(Format, &[&str])] = &[
    (Format::OpenaiChat, &["openai_chat", "openai"]),
    (Format::OpenaiChatStrict, &["openai_chat_strict"]),
    (Format::OpenaiResponses, &["openai_responses"]),
    (Format::OpenaiResponsesStrict, &["openai_responses_strict"]),
    (Format::Anthropic, &["anthropic"]),
    (Format::Gemini, &["gemini"]),
    (Format::GeminiPerTool, &["gemini_per_tool"]),
    (Format::Ollama, &["ollama"]),
    (Format::Mcp, &["mcp"]),
];

/// The names, for a sentence.
pub const WORDS: &str = "openai_chat (also openai), openai_chat_strict, openai_responses, \
                         openai_responses_strict, anthropic, gemini, gemini_per_tool, ollama, mcp";

impl Format {
    /// Every format.
    pub const ALL: &'static [Self] = &[
        Self::OpenaiChat,
        Self::OpenaiChatStrict,
        Self::OpenaiResponses,
        Self::OpenaiResponsesStrict,
        Self::Anthropic,
        Self::Gemini,
        Self::GeminiPerTool,
        Self::Ollama,
        Self::Mcp,
    ];

    /// The name, as it is written.
    pub fn as_str(self) -> &'static str {
        let names = NAMES.iter().find(|(format, _)| *format == self);
        names.and_then(|(_, names)| names.first()).copied().unwrap_or_default()
    }
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for Format {
    type Err = UnknownFormat;

    /// Takes the name, or spec 2's `openai`.
    fn from_str(word: &str) -> Result<Self, UnknownFormat> {
        let found = NAMES.iter().find(|(_, names)| names.contains(&word));
        found.map(|(format, _)| *format).ok_or_else(|| UnknownFormat { word: word.to_owned() })
    }
}

/// A word that names no format.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("unknown format `{}`; use one of {WORDS}", word.escape_debug())]
pub struct UnknownFormat {
    /// The word.
    pub word: String,
}

impl UnknownFormat {
    /// The same in spec 2's words, for its routes.
    pub fn as_provider(&self) -> String {
        format!("Unsupported provider for tool format conversion: \"{}\"", self.word)
    }
}

#[cfg(test)]
mod tests {
    use super::{Format, NAMES, WORDS};

    #[test]
    fn names_read_back() {
        for format in Format::ALL {
            assert_eq!(format.to_string().parse::<Format>().unwrap(), *format);
        }
        assert_eq!("openai".parse::<Format>().unwrap(), Format::OpenaiChat);
        assert_eq!(NAMES.len(), Format::ALL.len());
    }

    #[test]
    fn an_unknown_name_is_told_what_there_is() {
        let error = "ollma".parse::<Format>().unwrap_err();
        assert_eq!(error.to_string(), format!("unknown format `ollma`; use one of {WORDS}"));
        let spec2 = "Unsupported provider for tool format conversion: \"ollma\"";
        assert_eq!(error.as_provider(), spec2);
        for (_, names) in NAMES {
            for name in *names {
                assert!(WORDS.contains(name), "{name} is not listed");
            }
        }
    }
}
