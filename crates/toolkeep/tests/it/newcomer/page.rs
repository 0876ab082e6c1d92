//! The blocks of a page. ```` ```console ```` holds commands, each after `$ `, and below it what it
//! prints, `…` for anything; ```` ```yaml file=NAME ```` is a file to save.

/// A page, in its order.
#[derive(Debug)]
pub(super) struct Page {
    pub(super) blocks: Vec<Block>,
}

/// One fenced block.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Block {
    Commands(Vec<Command>),
    File { name: String, text: String },
    Other { language: String, text: String },
}

/// What is typed, and what is to be seen then; nothing where the page does not say.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Command {
    pub(super) line: String,
    pub(super) prints: Option<String>,
}

impl Page {
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
        let lines = |block: &Block| match block {
            Block::Commands(commands) => commands.iter().map(|it| it.line.clone()).collect(),
            Block::Other { language, text } if language == "sh" => {
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
            Block::Other { language, text } => Some((language, text)),
            _ => None,
        };
        self.blocks.into_iter().filter_map(other).collect()
    }
}

fn block(info: &str, body: &[&str]) -> Block {
    let text = || body.iter().fold(String::new(), |text, line| text + line + "\n");
    match info.split_once(" file=") {
        Some((_, name)) => Block::File { name: name.trim().to_owned(), text: text() },
        None if info == "console" => Block::Commands(commands(body)),
        None => Block::Other { language: info.to_owned(), text: text() },
    }
}

fn commands(body: &[&str]) -> Vec<Command> {
    let mut commands: Vec<Command> = Vec::new();
    for line in body {
        match (line.strip_prefix("$ "), commands.last_mut()) {
            (Some(typed), _) => commands.push(Command { line: typed.to_owned(), prints: None }),
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

/// Whether a text is what the page shows: the pieces between `…` in their order, and nothing else
/// where there is no `…`.
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
    let page = Page::read(
        "text\n```console\n$ a \\\n    b && c\nout\n\nmore\n$ d <<'E'\nin\nE\n```\n```yaml file=x.yaml\nk: v\n```\n```sh\ne\n```\n",
    );
    let command = |line: &str, prints: Option<&str>| Command {
        line: line.to_owned(),
        prints: prints.map(str::to_owned),
    };
    let commands =
        vec![command("a \\\n    b && c", Some("out\n\nmore\n")), command("d <<'E'\nin\nE", None)];
    let file = Block::File { name: "x.yaml".to_owned(), text: "k: v\n".to_owned() };
    let other = Block::Other { language: "sh".to_owned(), text: "e\n".to_owned() };
    assert_eq!(page.blocks, [Block::Commands(commands), file, other]);
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
