//! Rules on names and first doc lines: names without meaning outside their file, first lines that
//! describe nothing, one type name for many types.

use std::collections::BTreeMap;

use super::TidyFinding;
use super::source_rules::RustSource;

/// Words that are no name of a module or of a public type, after the reason.
///
/// A name of several words may contain them: `kept` says nothing, `kept_records` does.
const DENIED: &[(&str, &str)] = &[
    (
        "an adverb or a preposition",
        "about above again ago alone apart aside at away behind below beside early elsewhere \
         far gone here lately later meanwhile near nearby never next now nowhere off on once \
         onward out outside over soon still then there through together under until within",
    ),
    (
        "a pronoun",
        "all any anybody anyone each every everyone everything his it its mine most much nobody \
         nothing other others own some somebody someone something that their them they this \
         those what which who whom whose why you your",
    ),
    (
        "a participle",
        "asking begun bound broken brought came chosen done drawn fed felt found gave given \
         going got had hanging hearing heard held hidden holding keeping kept known laid left \
         lent lost made making meant met put said saying seen sent shaken sharing shown shut \
         sought spoken spoiled standing stood sworn taken taking taught telling thought told \
         torn trying unbegun undone unheard unseen unsent waiting wanting watching woken won \
         worn written",
    ),
    (
        "a verb without an object",
        "ask asks bear begin bring brings come comes do does get gets give gives go goes hear \
         hears holds keep keeps know knows let lets look looks make makes mend needs say says \
         see sees sends sit sits speak speaks stand stands stay stays take takes tell tells \
         think tries wait waits want wants",
    ),
    (
        "an adjective",
        "bad big fresh good large little long old plain quick quiet real short slow small stale \
         sure whole",
    ),
    (
        "a figure of speech",
        "asker bell cage cord desk door doors ears eye fate fence hand herald house keeper leg \
         lens mouth news outlet patience place places ration ring room seat shelf teller tomb \
         tombs ways weigh workshop world",
    ),
    ("a filler word", "impl info item items misc stuff thing things"),
];

/// Names that end as a participle does and are none, or are a contract's own word.
const NOUNS: &[&str] = &["embed", "feed", "need", "seed", "speed", "generated", "specialized"];

/// Beginnings that a first doc line must not have.
const DENIED_BEGINNINGS: &[&str] = &["What", "Who", "The same"];

/// Minimum number of words of a first doc line.
const MIN_WORDS: usize = 4;

/// Maximum number of types of one name in the workspace.
const MAX_SAME_NAME: usize = 4;

/// Type names that are an idiom of Rust.
const IDIOMS: &[&str] = &["Error", "Result"];

/// A type and the place of its declaration.
#[derive(Debug)]
struct Declaration<'a> {
    path: &'a str,
    line: usize,
    name: &'a str,
    is_public: bool,
}

/// Checks every rule on the names and first doc lines of `sources`.
pub(super) fn check_names(sources: &[RustSource<'_>]) -> Vec<TidyFinding> {
    let product: Vec<&RustSource<'_>> =
        sources.iter().filter(|source| is_product(source)).collect();
    let types: Vec<Declaration<'_>> =
        product.iter().flat_map(|source| list_declarations(source)).collect();
    let mut findings: Vec<TidyFinding> =
        product.iter().filter_map(|source| check_module(source)).collect();
    findings.extend(types.iter().filter(|found| found.is_public).filter_map(check_public_type));
    findings.extend(sources.iter().filter_map(check_module_line));
    findings.extend(product.iter().flat_map(|source| check_item_lines(source)));
    findings.extend(find_repeated_types(&types));
    findings
}

/// Whether the file has code of a crate, or of this program, that is no test.
fn is_product(source: &RustSource<'_>) -> bool {
    source.path.contains("src/") && source.product_lines().next().is_some()
}

fn check_module(source: &RustSource<'_>) -> Option<TidyFinding> {
    let name = source.path.rsplit('/').next()?.strip_suffix(".rs")?;
    let what = format!("the module `{name}` is named by {}", denial_reason(name)?);
    Some(TidyFinding::new(source.path, 0, what, "name it by the noun of what it holds"))
}

fn check_public_type(found: &Declaration<'_>) -> Option<TidyFinding> {
    let rest = found.name.strip_prefix(char::is_uppercase)?;
    if rest.contains(char::is_uppercase) {
        return None;
    }
    let what = format!(
        "the type `{}` is named by {}",
        found.name,
        denial_reason(&found.name.to_lowercase())?
    );
    Some(TidyFinding::new(found.path, found.line, what, "name it by the noun of what it is"))
}

/// Returns the reason why a single word is no name, if there is one.
fn denial_reason(word: &str) -> Option<&'static str> {
    if NOUNS.contains(&word) {
        return None;
    }
    let listed = DENIED.iter().find(|(_, words)| words.split(' ').any(|denied| denied == word));
    let is_one_word = word.chars().all(|letter| letter.is_ascii_lowercase());
    let participle = is_one_word && word.len() > 4 && word.ends_with("ed");
    listed.map(|(why, _)| *why).or_else(|| participle.then_some("a participle"))
}

fn list_declarations<'a>(source: &'a RustSource<'_>) -> Vec<Declaration<'a>> {
    let found = |(line, text): (usize, &'a str)| {
        let (rest, is_public) = without_visibility(text.trim_start());
        let rest = rest.strip_prefix("unsafe ").unwrap_or(rest);
        let (keyword, rest) = rest.split_once(' ')?;
        // An indented `type` belongs to a trait or an implementation of one.
        let is_type = match keyword {
            "struct" | "enum" | "trait" | "union" => true,
            "type" => !text.starts_with(' '),
            _ => false,
        };
        let letters = |c: char| !c.is_alphanumeric() && c != '_';
        let name = rest.split(letters).next().filter(|name| is_type && !name.is_empty())?;
        Some(Declaration { path: source.path, line, name, is_public })
    };
    source.product_lines().filter_map(found).collect()
}

/// Splits off `pub` or `pub(…)`; the flag says whether one of them was there.
fn without_visibility(text: &str) -> (&str, bool) {
    let Some(rest) = text.strip_prefix("pub") else { return (text, false) };
    let rest = match rest.strip_prefix('(') {
        Some(inside) => inside.split_once(')').map_or(inside, |(_, after)| after),
        None => rest,
    };
    rest.strip_prefix(' ').map_or((text, false), |rest| (rest, true))
}

/// Finds type names that stand for too many types, each at its first declaration.
fn find_repeated_types(types: &[Declaration<'_>]) -> Vec<TidyFinding> {
    let mut by_name: BTreeMap<&str, Vec<&Declaration<'_>>> = BTreeMap::new();
    for found in types.iter().filter(|found| !IDIOMS.contains(&found.name)) {
        by_name.entry(found.name).or_default().push(found);
    }
    let finding = |(name, all): (&str, Vec<&Declaration<'_>>)| {
        let first = all.first().filter(|_| all.len() > MAX_SAME_NAME)?;
        let what = format!("`{name}` is the name of {} types, at most {MAX_SAME_NAME}", all.len());
        let mut others: Vec<&str> = all.iter().skip(1).map(|found| found.path).collect();
        others.dedup();
        let fix = format!("say of what each is one; the others are in {}", others.join(", "));
        Some(TidyFinding::new(first.path, first.line, what, fix))
    };
    by_name.into_iter().filter_map(finding).collect()
}

/// Checks the first doc line of a module, also of one with tests.
fn check_module_line(source: &RustSource<'_>) -> Option<TidyFinding> {
    let line = source.masked.comments.lines().next()?.trim().strip_prefix("//!")?;
    check_first_line(source, 0, line)
}

fn check_first_line(source: &RustSource<'_>, index: usize, line: &str) -> Option<TidyFinding> {
    let fix = "say in the present tense what the item is or does";
    describe_unclear_line(line.trim())
        .map(|problem| TidyFinding::new(source.path, index + 1, problem, fix))
}

/// Checks the first doc lines of public items.
fn check_item_lines(source: &RustSource<'_>) -> Vec<TidyFinding> {
    let comments = source.masked.comments.lines().map(str::trim);
    let lines: Vec<(&str, &str)> =
        comments.zip(source.product_lines().map(|(_, code)| code)).collect();
    let mut findings = Vec::new();
    let mut before = false;
    for (index, (comment, _)) in lines.iter().enumerate() {
        let doc = comment.strip_prefix("///");
        if let Some(line) = doc.filter(|_| !before) {
            let code = lines.iter().skip(index).map(|(_, code)| *code);
            if is_public_item(code) {
                findings.extend(check_first_line(source, index, line));
            }
        }
        before = doc.is_some();
    }
    findings
}

/// Whether the first line of `code` that is no attribute begins an item with `pub`.
fn is_public_item<'a>(code: impl Iterator<Item = &'a str>) -> bool {
    let mut in_attribute = false;
    for line in code.map(str::trim).filter(|line| !line.is_empty()) {
        if in_attribute || line.starts_with("#[") {
            in_attribute = !line.ends_with(']');
            continue;
        }
        let (rest, is_public) = without_visibility(line);
        // A field has a colon behind its name, an item has a keyword before it.
        let keyword = rest.split(' ').next().unwrap_or_default();
        let items = ["async", "const", "enum", "extern", "fn", "mod", "static", "struct", "trait"];
        let others = ["type", "union", "unsafe"];
        return is_public && (items.contains(&keyword) || others.contains(&keyword));
    }
    false
}

fn describe_unclear_line(line: &str) -> Option<String> {
    let begins = |beginning: &&&str| {
        let rest = line.strip_prefix(**beginning);
        rest.is_some_and(|rest| !rest.starts_with(char::is_alphanumeric))
    };
    if let Some(beginning) = DENIED_BEGINNINGS.iter().find(begins) {
        return Some(format!("the first doc line begins with `{beginning}`"));
    }
    let words = line.split_whitespace().count();
    (words < MIN_WORDS)
        .then(|| format!("the first doc line has {words} words, at least {MIN_WORDS}"))
}

#[cfg(test)]
mod tests {
    use super::{DENIED, RustSource, check_names};
    use crate::tidy::texts;

    fn findings(files: &[(&str, &str)]) -> Vec<String> {
        let files = texts(files);
        let sources: Vec<RustSource<'_>> = files.iter().filter_map(RustSource::from_text).collect();
        check_names(&sources).iter().map(|found| format!("{}:{}", found.path, found.line)).collect()
    }

    #[test]
    fn modules_and_public_types_are_named_by_nouns() {
        for (_, words) in DENIED {
            for word in words.split(' ') {
                let path = format!("crates/a/src/{word}.rs");
                assert_eq!(findings(&[(&path, "x;")]), [format!("{path}:0")]);
            }
        }
        for name in ["Told", "Seated", "Which", "Beside"] {
            let text = format!("\npub(crate) struct {name}<'a>(&'a str);");
            assert_eq!(findings(&[("crates/a/src/b.rs", &text)]), ["crates/a/src/b.rs:2"]);
        }
    }

    #[test]
    fn nouns_of_several_words_private_types_and_tests_pass() {
        let files = [
            ("crates/a/src/progress_stream.rs", "pub enum KeptRecord {}\nstruct Told;"),
            ("crates/a/src/seed.rs", "pub struct Embed;\n// pub struct Told;"),
            ("crates/a/src/b.rs", "x;\n#[cfg(test)]\nmod tests {\npub struct Told;\n}"),
            ("crates/a/tests/it/told.rs", "pub struct Told;"),
        ];
        assert_eq!(findings(&files), [""; 0]);
    }

    #[test]
    fn first_doc_lines_say_what_an_item_is() {
        let fine = "//! Parser of one entry of a file.\n\n/// Returns the entry that follows.\n\
                    #[expect(\n    lint,\n    reason = \"r\"\n)]\npub fn next_entry() {}\n";
        assert_eq!(findings(&[("crates/a/src/b.rs", fine)]), [""; 0]);
        for fault in
            ["What a call came to.", "Who may call it.", "The same with a limit.", "A key."]
        {
            let module = format!("//! {fault}\n\nx;");
            assert_eq!(findings(&[("crates/a/src/b.rs", &module)]), ["crates/a/src/b.rs:1"]);
            let test = format!("//! {fault}\n\n#[test]\nfn survives() {{}}");
            assert_eq!(
                findings(&[("crates/a/tests/it/b.rs", &test)]),
                ["crates/a/tests/it/b.rs:1"]
            );
            let item = fine.replace("Returns the entry that follows.", fault);
            assert_eq!(findings(&[("crates/a/src/b.rs", &item)]), ["crates/a/src/b.rs:3"]);
            let private = item.replace("pub fn", "fn");
            assert_eq!(findings(&[("crates/a/src/b.rs", &private)]), [""; 0]);
            let field = format!("struct B {{\n    /// {fault}\n    pub c: u8,\n}}");
            assert_eq!(findings(&[("crates/a/src/b.rs", &field)]), [""; 0]);
        }
        let whether =
            fine.replace("Returns the entry that follows.", "Whether an entry follows it.");
        assert_eq!(findings(&[("crates/a/src/b.rs", &whether)]), [""; 0]);
    }

    #[test]
    fn a_type_name_stands_for_few_types() {
        let paths: Vec<String> = (1..=5).map(|n| format!("crates/a{n}/src/b.rs")).collect();
        let declare = |text| -> Vec<(&str, &str)> {
            paths.iter().map(|path| (path.as_str(), text)).collect()
        };
        let files = declare("x;\nenum Row {}");
        assert_eq!(findings(&files), ["crates/a1/src/b.rs:2"]);
        assert_eq!(findings(&files[..4]), [""; 0]);
        for fine in ["type Result = ();", "impl A for B {\n    type Row = u8;\n}", "// enum Row {}"]
        {
            assert_eq!(findings(&declare(fine)), [""; 0], "{fine}");
        }
    }
}
