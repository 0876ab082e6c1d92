//! What README.md and the guide say is what happens: their commands are run as a newcomer types them,
//! in an empty folder, and must print what stands below them.

mod page;
mod terminal;

use std::path::{Path, PathBuf};

use page::{Block, Command, Page};
use terminal::Terminal;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn page(path: &str) -> Page {
    let path = root().join(path);
    let text = std::fs::read_to_string(&path);
    Page::read(&text.unwrap_or_else(|error| panic!("{}: {error}", path.display())))
}

/// Runs all of a page from top to bottom.
fn follow(page: &Page) -> Terminal {
    let mut terminal = Terminal::new();
    for block in &page.blocks {
        match block {
            Block::Commands(commands) => commands.iter().for_each(|it| terminal.run(it)),
            Block::File { name, text } => terminal.save(name, text),
            Block::Other { .. } => {}
        }
    }
    terminal
}

#[test]
fn the_readme_leads_to_a_first_call_within_five_commands() {
    let page = page("README.md");
    let typed = page.typed();
    let first = typed.iter().position(|command| command.contains("tool call")).unwrap();
    assert!(typed[0].starts_with("git clone "), "the path begins at nothing: {typed:?}");
    assert!(first < 5, "{:?} are more than five", &typed[..=first]);
    let terminal = follow(&page);
    assert!(terminal.answers.iter().any(|answer| answer.contains("42")), "{:?}", terminal.answers);
}

#[test]
fn the_commands_of_the_guide_print_what_it_says() {
    let mut pages = 0;
    for entry in std::fs::read_dir(root().join("docs/guide")).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|it| it == "md") {
            follow(&Page::read(&std::fs::read_to_string(path).unwrap()));
            pages += 1;
        }
    }
    assert!(pages > 0, "there is no guide");
}

#[test]
fn the_configurations_and_settings_shown_are_sound() {
    let pages = [
        "README.md",
        "docs/guide/getting-started.md",
        "docs/guide/modules.md",
        "docs/guide/approvals.md",
    ];
    for (language, text) in pages.iter().flat_map(|path| page(path).others()) {
        match language.as_str() {
            "yaml" => {
                let mut terminal = Terminal::new();
                terminal.save("mcp.json", r#"{ "mcpServers": {} }"#);
                terminal.save("tools.yaml", crate::support::home::TOOLS);
                terminal.save("toolkeep.yaml", &text);
                let line = "toolkeep config check --config toolkeep.yaml".to_owned();
                terminal.run(&Command { line, prints: None });
            }
            "json" => drop(serde_json::from_str::<serde_json::Value>(&text).unwrap()),
            "sh" => {}
            other => panic!("a block of `{other}` that nothing looks at"),
        }
    }
}
