//! The formats there are, and their names.

use std::fmt;
use std::str::FromStr;

/// A provider's way to write tools, calls and outcomes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Format {
    /// OpenAI Chat Completions, and what copies it.
    OpenaiChat,
    /// Model Context Protocol.
    Mcp,
}

impl Format {
    /// Every format.
    pub const ALL: &'static [Self] = &[Self::OpenaiChat, Self::Mcp];

    /// The name, as it is written.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::OpenaiChat => "openai_chat",
            Self::Mcp => "mcp",
        }
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
        match word {
            "openai_chat" | "openai" => Ok(Self::OpenaiChat),
            "mcp" => Ok(Self::Mcp),
            _ => Err(UnknownFormat { word: word.to_owned() }),
        }
    }
}

/// A word that names no format.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("unknown format `{word}`; use one of openai_chat (also openai), mcp")]
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
    use super::Format;

    #[test]
    fn names_read_back() {
        for format in Format::ALL {
            assert_eq!(format.to_string().parse::<Format>().unwrap(), *format);
        }
        assert_eq!("openai".parse::<Format>().unwrap(), Format::OpenaiChat);
    }

    #[test]
    fn an_unknown_name_is_told_what_there_is() {
        let error = "ollma".parse::<Format>().unwrap_err();
        assert_eq!(
            error.to_string(),
            "unknown format `ollma`; use one of openai_chat (also openai), mcp"
        );
        let spec2 = "Unsupported provider for tool format conversion: \"ollma\"";
        assert_eq!(error.as_provider(), spec2);
        for format in Format::ALL {
            assert!(error.to_string().contains(format.as_str()), "{format} is not listed");
        }
    }
}
