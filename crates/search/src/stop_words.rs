//! Words that say nothing about a tool: function words, and the words with which people ask.

/// Function words of English, which neither texts nor queries are searched by.
#[rustfmt::skip]
const FUNCTION_WORDS: &[&str] = &[
    "a", "about", "after", "all", "also", "am", "an", "and", "any", "are", "as", "at", "be", "because", "been",
    "before", "being", "but", "by", "can", "could", "d", "did", "do", "does", "doing", "don", "during", "each", "for",
    "from", "had", "has", "have", "having", "he", "her", "here", "him", "his", "how", "i", "if", "in", "into", "is", "it",
    "its", "just", "ll", "m", "may", "me", "might", "more", "most", "must", "my", "no", "nor", "not", "of", "on", "or",
    "other", "our", "out", "over", "re", "s", "shall", "she", "should", "so", "some", "such", "t", "than", "that", "the",
    "their", "them", "then", "there", "these", "they", "this", "those", "through", "to", "too", "under", "up", "us", "ve",
    "very", "was", "we", "were", "what", "when", "where", "which", "while", "who", "whom", "why", "will", "with", "would",
    "you", "your",
];

/// Words with which people ask, which only queries are not searched by.
#[rustfmt::skip]
const REQUEST_WORDS: &[&str] = &[
    "able", "additionally", "again", "anything", "assist", "btw", "curious", "else", "ensure", "etc", "everything", "furthermore",
    "got", "gonna", "hello", "help", "hey", "hi", "interested", "kindly", "know", "let", "like", "lot", "lots", "love", "make",
    "maybe", "moreover", "need", "now", "okay", "one", "please", "really", "something", "sure", "system", "tell", "thank", "thanks",
    "thing", "things", "think", "thinking", "trying", "use", "user", "using", "wanna", "want", "wanted", "way", "well", "wish", "wonder",
    "wondering", "yes",
];

/// Whether the word, in lower case, is a function word.
pub(crate) fn is_function_word(word: &str) -> bool {
    FUNCTION_WORDS.binary_search(&word).is_ok()
}

/// Whether the word, in lower case, only says that somebody asks.
pub(crate) fn is_request_word(word: &str) -> bool {
    REQUEST_WORDS.contains(&word)
}

#[cfg(test)]
mod tests {
    use super::{FUNCTION_WORDS, is_function_word, is_request_word};

    #[test]
    fn the_list_is_sorted_for_its_lookup() {
        assert!(FUNCTION_WORDS.is_sorted());
        assert!(is_function_word("the") && is_request_word("please"));
        assert!(!is_function_word("weather") && !is_request_word("weather"));
    }
}
