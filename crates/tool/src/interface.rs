//! Defines the interfaces through which calls reach Toolkeep: REST, MCP, gRPC, programs and others.

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

macro_rules! interfaces {
    ($($variant:ident = $word:literal, $summary:literal;)+) => {
        /// Interface by which a call, or a decision about one, arrived. Records, metrics and
        /// responses name it in fields named `door`; a word never changes its meaning.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum Interface {
            $(#[doc = $summary] $variant,)+
            /// An interface that this version does not know, in a record or a row of another
            /// version.
            Unknown,
        }

        impl Interface {
            /// Every interface there is.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)+ Self::Unknown];

            /// Returns the word as records have it.
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $word,)+ Self::Unknown => "unknown" }
            }
        }
    };
}

interfaces! {
    Rest = "rest", "The REST interface, `/v1`, the command line among its clients.";
    Mcp = "mcp", "MCP, of both protocol eras.";
    Grpc = "grpc", "gRPC: calls and streams of nodes' protocol.";
    Cluster = "cluster", "The cluster tools' routes, `/cluster-tools`.";
    Modules = "modules", "The module API's routes, `/execute` and `/api/modules`.";
    Program = "program", "A running program, which calls for its caller.";
    Tool = "tool", "A call of one of Toolkeep's own tools, such as `run_program`.";
    Library = "library", "A program that embeds the library.";
    Callback = "callback", "A function of an embedding program that decides about pending calls.";
    Console = "console", "The web console, `/ui`.";
    Cli = "cli", "The command line without a server; in old records.";
}

impl fmt::Display for Interface {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for Interface {
    type Err = String;

    fn from_str(word: &str) -> Result<Self, String> {
        let found = Self::ALL.iter().find(|interface| interface.as_str() == word);
        found.copied().ok_or_else(|| {
            let words: Vec<_> = Self::ALL.iter().map(|interface| interface.as_str()).collect();
            format!("no interface `{}`; use one of {}", word.escape_debug(), words.join(", "))
        })
    }
}

impl Serialize for Interface {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

/// Parses an unknown word as [`Interface::Unknown`]: records of any version are readable.
impl<'de> Deserialize<'de> for Interface {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let word = Cow::<'de, str>::deserialize(deserializer)?;
        Ok(word.parse().unwrap_or(Self::Unknown))
    }
}

#[cfg(test)]
mod tests {
    use super::Interface;

    #[test]
    fn every_interface_reads_back_from_the_word_that_records_have() {
        for interface in Interface::ALL {
            let word = interface.as_str();
            assert_eq!(word.parse(), Ok(*interface));
            assert_eq!(serde_json::to_string(interface).unwrap(), format!("\"{word}\""));
            let read: Interface = serde_json::from_str(&format!("\"{word}\"")).unwrap();
            assert_eq!(read, *interface);
        }
        let words = ["rest", "mcp", "grpc", "cluster", "modules", "program", "tool", "library"];
        assert!(words.iter().all(|word| word.parse::<Interface>().is_ok()));
    }

    #[test]
    fn a_word_of_another_version_is_read_and_not_taken_from_a_user() {
        assert_eq!(
            serde_json::from_str::<Interface>("\"carrier pigeon\"").unwrap(),
            Interface::Unknown
        );
        let told = "carrier".parse::<Interface>().unwrap_err();
        assert!(told.contains("`carrier`") && told.contains("grpc"), "{told}");
    }
}
