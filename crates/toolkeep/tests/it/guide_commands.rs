//! Tests that the commands of README.md and the guide print what the pages show, run in an empty
//! folder.

mod guide_page;
mod guide_terminal;

use std::path::{Path, PathBuf};

use guide_page::{GuidePage, PageBlock, PageCommand};
use guide_terminal::GuideTerminal;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn page(path: &str) -> GuidePage {
    let path = root().join(path);
    let text = std::fs::read_to_string(&path);
    GuidePage::read(&text.unwrap_or_else(|error| panic!("{}: {error}", path.display())))
}

/// Runs all of a page from top to bottom.
fn follow(page: &GuidePage) -> GuideTerminal {
    let mut terminal = GuideTerminal::new();
    for block in &page.blocks {
        match block {
            PageBlock::Commands(commands) => commands.iter().for_each(|it| terminal.run(it)),
            PageBlock::File { name, text } => terminal.save(name, text),
            PageBlock::Other { .. } => {}
        }
    }
    terminal
}

#[test]
fn the_readme_leads_to_a_first_call_within_five_commands() {
    let page = page("README.md");
    let typed = page.typed();
    let clone = typed.iter().position(|command| command.starts_with("git clone ")).unwrap();
    let start = typed[clone..].iter().position(|command| command.ends_with(" serve")).unwrap();
    // By a package manager, and from a clone: each starts at nothing and goes on alike.
    let (packaged, rest) = typed.split_at(clone);
    let (cloned, rest) = rest.split_at(start + 1);
    assert_eq!(packaged, ["uvx toolkeep serve"]);
    assert_eq!(cloned.last().unwrap(), &format!("{} serve", guide_terminal::BY_CARGO));
    for way in [packaged, cloned] {
        let call = rest.iter().position(|command| command.contains("tool call")).unwrap();
        let commands = [way, &rest[..=call]].concat();
        assert!(commands.len() <= 5, "{commands:?} are more than five");
    }
    let terminal = follow(&page);
    assert!(terminal.answers.iter().any(|answer| answer.contains("42")), "{:?}", terminal.answers);
}

#[test]
fn the_commands_of_the_guide_print_what_it_says() {
    let mut pages = 0;
    for entry in std::fs::read_dir(root().join("docs/guide")).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|it| it == "md") {
            follow(&GuidePage::read(&std::fs::read_to_string(path).unwrap()));
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
                let mut terminal = GuideTerminal::new();
                terminal.save("mcp.json", r#"{ "mcpServers": {} }"#);
                terminal.save("tools.yaml", crate::support::installation::TOOL_FILE);
                terminal.save("toolkeep.yaml", &text);
                let line = "toolkeep config check --config toolkeep.yaml".to_owned();
                terminal.run(&PageCommand { line, prints: None });
            }
            "json" => drop(serde_json::from_str::<serde_json::Value>(&text).unwrap()),
            "sh" => {}
            other => panic!("a block of `{other}` that nothing looks at"),
        }
    }
}
