//! Parser for pages. A ```` ```console ```` block has commands after `$ ` and their output, with
//! `…` for anything; ```` ```yaml file=NAME ```` is a file to save.

/// A page, in its order.
#[derive(Debug)]
pub(super) struct GuidePage {
    pub(super) blocks: Vec<PageBlock>,
}

/// One fenced block.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum PageBlock {
    Commands(Vec<PageCommand>),
    File { name: String, text: String },
    Other { language: String, text: String },
}

/// A command and its expected output, if the page shows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct PageCommand {
    pub(super) line: String,
    pub(super) prints: Option<String>,
}

impl GuidePage {
    pub(super) fn read(text: &str) -> Self {
        let mut blocks = Vec::new();
        let mut lines = text.lines();
        while let Some(line) = lines.next() {
            let Some(info) = line.trim_start().strip_prefix("```") else { continue };
            let body: Vec<_> =
                lines.by_ref().take_while(|line| line.trim_start() != "```").collect();
            blocks.push(block(info, &body));
        }
        Self { blocks }
    }

    /// Everything that a reader types, in order: `a && b` is two commands.
    pub(super) fn typed(&self) -> Vec<String> {
        let lines = |block: &PageBlock| match block {
            PageBlock::Commands(commands) => commands.iter().map(|it| it.line.clone()).collect(),
            PageBlock::Other { language, text } if language == "sh" => {
                text.lines().map(str::to_owned).collect()
            }
            _ => Vec::new(),
        };
        let lines: Vec<String> = self.blocks.iter().flat_map(lines).collect();
        lines.iter().flat_map(|line| line.split("&&")).map(|it| it.trim().to_owned()).collect()
    }

    /// The blocks that are neither run nor saved: language and text.
    pub(super) fn others(self) -> Vec<(String, String)> {
        let other = |block| match block {
            PageBlock::Other { language, text } => Some((language, text)),
            _ => None,
        };
        self.blocks.into_iter().filter_map(other).collect()
    }
}

fn block(info: &str, body: &[&str]) -> PageBlock {
    let text = || body.iter().fold(String::new(), |text, line| text + line + "\n");
    match info.split_once(" file=") {
        Some((_, name)) => PageBlock::File { name: name.trim().to_owned(), text: text() },
        None if info == "console" => PageBlock::Commands(commands(body)),
        None => PageBlock::Other { language: info.to_owned(), text: text() },
    }
}

fn commands(body: &[&str]) -> Vec<PageCommand> {
    let mut commands: Vec<PageCommand> = Vec::new();
    for line in body {
        match (line.strip_prefix("$ "), commands.last_mut()) {
            (Some(typed), _) => commands.push(PageCommand { line: typed.to_owned(), prints: None }),
            (None, Some(command)) if goes_on(&command.line) => {
                command.line = format!("{}\n{line}", command.line);
            }
            (None, Some(command)) => {
                let prints = command.prints.get_or_insert_default();
                *prints = format!("{prints}{line}\n");
            }
            (None, None) => panic!("a `console` block begins with `{line}` and not with `$ `"),
        }
    }
    commands
}

/// Whether what was typed so far waits for another line.
fn goes_on(typed: &str) -> bool {
    let heredoc = typed.split_once("<<'").and_then(|(_, rest)| rest.split_once('\''));
    typed.ends_with('\\') || heredoc.is_some_and(|(end, _)| typed.lines().all(|line| line != end))
}

/// Returns whether a text matches the page: the pieces between `…` in order, and nothing else
/// without `…`.
pub(super) fn fits(shown: &str, text: &str) -> bool {
    let (shown, mut rest) = (shown.trim_end(), text.trim_end());
    let pieces: Vec<_> = shown.split('…').collect();
    let [first, middle @ .., last] = pieces.as_slice() else { return shown == rest };
    let Some(after) = rest.strip_prefix(first) else { return false };
    rest = after;
    for piece in middle {
        match rest.split_once(piece) {
            Some((_, after)) => rest = after,
            None => return false,
        }
    }
    rest.ends_with(last)
}

#[test]
fn pages_are_read_as_they_are_meant() {
    let page = GuidePage::read(
        "text\n```console\n$ a \\\n    b && c\nout\n\nmore\n$ d <<'E'\nin\nE\n```\n```yaml file=x.yaml\nk: v\n```\n```sh\ne\n```\n",
    );
    let command = |line: &str, prints: Option<&str>| PageCommand {
        line: line.to_owned(),
        prints: prints.map(str::to_owned),
    };
    let commands =
        vec![command("a \\\n    b && c", Some("out\n\nmore\n")), command("d <<'E'\nin\nE", None)];
    let file = PageBlock::File { name: "x.yaml".to_owned(), text: "k: v\n".to_owned() };
    let other = PageBlock::Other { language: "sh".to_owned(), text: "e\n".to_owned() };
    assert_eq!(page.blocks, [PageBlock::Commands(commands), file, other]);
    assert_eq!(page.typed(), ["a \\\n    b", "c", "d <<'E'\nin\nE", "e"]);
}

#[test]
fn what_is_printed_must_be_what_is_shown() {
    for (shown, text) in [
        ("a\n", "a\n"),
        ("…b…", "abc"),
        ("a…c", "abc"),
        ("a…", "a"),
        ("…", ""),
        ("a…b…", "a\nb\nc"),
    ] {
        assert!(fits(shown, text), "{shown} {text}");
    }
    for (shown, text) in
        [("a", "ab"), ("a…", "ba"), ("…a", "ab"), ("a…b…c", "acb"), ("", "a"), ("a…a", "a")]
    {
        assert!(!fits(shown, text), "{shown} {text}");
    }
}
