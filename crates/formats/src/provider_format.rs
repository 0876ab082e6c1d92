//! Provider formats and their names.

use std::fmt;
use std::str::FromStr;

/// Format in which a provider expects tools, calls and results.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ProviderFormat {
    /// OpenAI Chat Completions, and what copies it.
    OpenaiChat,
    /// OpenAI Chat Completions with strict schemas, for tools that strict mode can express.
    OpenaiChatStrict,
    /// OpenAI Responses.
    OpenaiResponses,
    /// OpenAI Responses with strict schemas, for tools that strict mode can express.
    OpenaiResponsesStrict,
    /// Anthropic Messages.
    Anthropic,
    /// Gemini, all declarations in one list.
    Gemini,
    /// Gemini, one list per tool, as the tool-file registry has it.
    GeminiPerTool,
    /// Ollama.
    Ollama,
    /// Model Context Protocol.
    Mcp,
}

/// All formats with their names. The first name is the canonical one.
const FORMAT_NAMES: &[(ProviderFormat, &[&str])] = &[
    (ProviderFormat::OpenaiChat, &["openai_chat", "openai"]),
    (ProviderFormat::OpenaiChatStrict, &["openai_chat_strict"]),
    (ProviderFormat::OpenaiResponses, &["openai_responses"]),
    (ProviderFormat::OpenaiResponsesStrict, &["openai_responses_strict"]),
    (ProviderFormat::Anthropic, &["anthropic"]),
    (ProviderFormat::Gemini, &["gemini"]),
    (ProviderFormat::GeminiPerTool, &["gemini_per_tool"]),
    (ProviderFormat::Ollama, &["ollama"]),
    (ProviderFormat::Mcp, &["mcp"]),
];

/// All names, as text for messages.
pub const FORMAT_NAMES_TEXT: &str = "openai_chat (also openai), openai_chat_strict, openai_responses, \
                         openai_responses_strict, anthropic, gemini, gemini_per_tool, ollama, mcp";

impl ProviderFormat {
    /// All formats that Toolkeep can render.
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

    /// Returns the canonical name.
    pub fn as_str(self) -> &'static str {
        let names = FORMAT_NAMES.iter().find(|(format, _)| *format == self);
        names.and_then(|(_, names)| names.first()).copied().unwrap_or_default()
    }
}

impl fmt::Display for ProviderFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for ProviderFormat {
    type Err = UnknownFormatError;

    /// Takes the name, or the tool-file registry's `openai`.
    fn from_str(word: &str) -> Result<Self, UnknownFormatError> {
        let found = FORMAT_NAMES.iter().find(|(_, names)| names.contains(&word));
        found.map(|(format, _)| *format).ok_or_else(|| UnknownFormatError { name: word.to_owned() })
    }
}

/// Error of an unknown format name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("unknown format `{}`; use one of {FORMAT_NAMES_TEXT}", name.escape_debug())]
pub struct UnknownFormatError {
    /// The word.
    pub name: String,
}

impl UnknownFormatError {
    /// Returns the error message that the tool-file registry defines for its routes.
    pub fn tool_file_message(&self) -> String {
        format!("Unsupported provider for tool format conversion: \"{}\"", self.name)
    }
}

#[cfg(test)]
mod tests {
    use super::{FORMAT_NAMES, FORMAT_NAMES_TEXT, ProviderFormat};

    #[test]
    fn names_read_back() {
        for format in ProviderFormat::ALL {
            assert_eq!(format.to_string().parse::<ProviderFormat>().unwrap(), *format);
        }
        assert_eq!("openai".parse::<ProviderFormat>().unwrap(), ProviderFormat::OpenaiChat);
        assert_eq!(FORMAT_NAMES.len(), ProviderFormat::ALL.len());
    }

    #[test]
    fn an_unknown_name_is_told_what_there_is() {
        let error = "ollma".parse::<ProviderFormat>().unwrap_err();
        assert_eq!(
            error.to_string(),
            format!("unknown format `ollma`; use one of {FORMAT_NAMES_TEXT}")
        );
        let expected_message = "Unsupported provider for tool format conversion: \"ollma\"";
        assert_eq!(error.tool_file_message(), expected_message);
        for (_, names) in FORMAT_NAMES {
            for name in *names {
                assert!(FORMAT_NAMES_TEXT.contains(name), "{name} is not listed");
            }
        }
    }
}
