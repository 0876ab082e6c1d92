//! One tool as search sees it: its terms with their fields, and its word vector.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::field_counts::FieldCounts;
use crate::quantized_vector::QuantizedVector;
use crate::schema_text::{SchemaVisitor, visit_schema};
use crate::stop_words::is_function_word;
use crate::tokenization::{TermHash, WordKind, for_each_word, stem_word};

/// Maximum size in bytes of a text that is read; the rest of a longer one is not searched.
const MAX_TEXT_BYTES: usize = 8_192;
/// Size in bytes of the beginning of a description that the word vector is made of.
const VECTOR_TEXT_BYTES: usize = 300;

/// Searchable fields of a tool.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum SearchField {
    /// Name of the tool.
    Name,
    /// Title for people.
    Title,
    /// Description for the model.
    Description,
    /// Names of parameters.
    ParameterName,
    /// Descriptions and allowed values of parameters.
    ParameterText,
    /// Name and description of the source, and categories.
    Source,
}

impl SearchField {
    /// All fields, in the order of their numbers.
    pub const ALL: [Self; 6] = [
        Self::Name,
        Self::Title,
        Self::Description,
        Self::ParameterName,
        Self::ParameterText,
        Self::Source,
    ];

    /// Returns the word as it appears in responses.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Name => "name",
            Self::Title => "title",
            Self::Description => "description",
            Self::ParameterName => "parameter_name",
            Self::ParameterText => "parameter_text",
            Self::Source => "source",
        }
    }
}

/// Texts of a tool that search reads.
#[derive(Debug, Clone, Copy, Default)]
pub struct ToolText<'a> {
    /// Name under which the tool is listed.
    pub name: &'a str,
    /// Title for people.
    pub title: Option<&'a str>,
    /// Description for the model.
    pub description: &'a str,
    /// JSON Schema of its arguments.
    pub input_schema: Option<&'a Value>,
    /// Name of its source.
    pub source: &'a str,
    /// Description of its source.
    pub source_description: &'a str,
    /// Categories of the tool.
    pub categories: &'a [String],
}

/// A term of a tool, with its counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ToolTerm {
    pub(crate) term: TermHash,
    pub(crate) counts: FieldCounts,
}

/// Number of words in each field.
pub(crate) type FieldLengths = [u16; SearchField::ALL.len()];

/// A tool as search sees it: terms and word vector, made once per definition and shared by indexes.
#[derive(Debug, Clone, PartialEq)]
pub struct AnalyzedTool {
    /// Terms in ascending order of their hashes.
    pub(crate) terms: Box<[ToolTerm]>,
    pub(crate) lengths: FieldLengths,
    /// Words of the name and the title, for the correction of typing errors.
    pub(crate) name_words: Box<[Box<str>]>,
    /// Vectors of name and description; `None` if they have no known word.
    pub(crate) vector: Option<QuantizedVector>,
}

impl AnalyzedTool {
    /// Analyzes the texts of a tool.
    pub fn from_text(text: &ToolText<'_>) -> Self {
        let mut builder = ToolBuilder::default();
        builder.add_name(text.name);
        builder.add_text(SearchField::Title, text.title.unwrap_or_default());
        builder.add_text(SearchField::Description, text.description);
        builder.add_text(SearchField::Source, text.source);
        builder.add_text(SearchField::Source, text.source_description);
        for category in text.categories {
            builder.add_text(SearchField::Source, category);
        }
        if let Some(schema) = text.input_schema {
            visit_schema(schema, &mut builder);
        }
        builder.build(QuantizedVector::of_words(&vector_text(text)))
    }

    /// Returns the memory that it takes, in bytes.
    pub fn memory_bytes(&self) -> usize {
        let words: usize = self.name_words.iter().map(|word| word.len()).sum();
        let vector = self.vector.as_ref().map_or(0, QuantizedVector::dimensions);
        size_of::<Self>()
            + size_of_val(&*self.terms)
            + size_of_val(&*self.name_words)
            + words
            + vector
    }
}

/// Returns the text of a tool that has a vector: its name as words, its title, and the beginning of
/// its description.
pub(crate) fn vector_text(text: &ToolText<'_>) -> String {
    let mut words = String::new();
    for_each_word(beginning(text.name, VECTOR_TEXT_BYTES), |word, kind| {
        if kind != WordKind::Compound {
            words.push_str(word);
            words.push(' ');
        }
    });
    words.push_str(text.title.unwrap_or_default());
    words.push_str(". ");
    words.push_str(beginning(text.description, VECTOR_TEXT_BYTES));
    words
}

fn beginning(text: &str, bytes: usize) -> &str {
    text.get(..text.floor_char_boundary(bytes)).unwrap_or(text)
}

#[derive(Default)]
struct ToolBuilder {
    terms: BTreeMap<TermHash, FieldCounts>,
    lengths: FieldLengths,
    name_words: Vec<Box<str>>,
}

impl ToolBuilder {
    fn add_term(&mut self, field: SearchField, term: &str) {
        self.terms.entry(TermHash::of_term(term)).or_default().add(field);
    }

    fn add_text(&mut self, field: SearchField, text: &str) {
        for_each_word(beginning(text, MAX_TEXT_BYTES), |word, kind| {
            if is_function_word(word) {
                return;
            }
            self.add_term(field, &stem_word(word));
            if kind != WordKind::Compound
                && let Some(length) = self.lengths.get_mut(field as usize)
            {
                *length = length.saturating_add(1);
            }
            if matches!(field, SearchField::Name | SearchField::Title) && word.len() > 2 {
                self.name_words.push(word.into());
            }
        });
    }

    /// Adds the name, also with neighbouring words together: `git_hub` is found as `github`.
    fn add_name(&mut self, name: &str) {
        self.add_text(SearchField::Name, name);
        let mut before = String::new();
        let mut pairs = Vec::new();
        for_each_word(name, |word, kind| {
            if kind == WordKind::Part {
                if !before.is_empty() {
                    pairs.push(before.clone() + word);
                }
                word.clone_into(&mut before);
            }
        });
        for pair in pairs {
            self.add_term(SearchField::Name, &stem_word(&pair));
        }
    }

    fn build(mut self, vector: Option<QuantizedVector>) -> AnalyzedTool {
        self.name_words.sort_unstable();
        self.name_words.dedup();
        let terms = self.terms.into_iter().map(|(term, counts)| ToolTerm { term, counts });
        AnalyzedTool {
            terms: terms.collect(),
            lengths: self.lengths,
            name_words: self.name_words.into(),
            vector,
        }
    }
}

impl SchemaVisitor for ToolBuilder {
    fn visit_name(&mut self, name: &str, _depth: usize) {
        self.add_text(SearchField::ParameterName, name);
    }

    fn visit_text(&mut self, text: &str) {
        self.add_text(SearchField::ParameterText, text);
    }
}
