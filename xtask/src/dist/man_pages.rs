//! Manual pages of section 1, from the command line reference in `docs/reference/cli.md`, which is
//! itself written from the help of each command.

use std::collections::BTreeMap;
use std::fs;

use crate::workspace::{Workspace, file_error};

/// Reference of the command line, from the root of the repository.
const REFERENCE: &str = "docs/reference/cli.md";

/// A manual page of one command.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct ManPage {
    /// Such as `toolkeep-tool.1`.
    pub(crate) file_name: String,
    /// Source in the language of `man`.
    pub(crate) text: String,
}

/// Help of one command.
#[derive(Debug)]
struct CommandHelp {
    /// Such as `toolkeep tool call`.
    command: String,
    help: String,
}

/// Renders a page for the program and one for each command, which has its subcommands, with a date
/// such as `2026-11-26`.
///
/// # Errors
/// If the reference cannot be read or contains no command.
pub(crate) fn render_pages(workspace: &Workspace, date: &str) -> Result<Vec<ManPage>, String> {
    let path = workspace.root_dir.join(REFERENCE);
    let reference = fs::read_to_string(&path).map_err(|e| file_error(&path, &e))?;
    let commands = parse_reference(&reference);
    let mut pages: BTreeMap<String, Vec<&CommandHelp>> = BTreeMap::new();
    for command in &commands {
        let words: Vec<&str> = command.command.split(' ').take(2).collect();
        pages.entry(words.join("-")).or_default().push(command);
    }
    if pages.len() < 2 {
        return Err(format!("{REFERENCE} has no `## toolkeep …` with a text block"));
    }
    let names: Vec<String> = pages.keys().cloned().collect();
    let rendered = pages.iter().map(|(name, commands)| ManPage {
        file_name: format!("{name}.1"),
        text: render_page(name, date, commands, &names),
    });
    Ok(rendered.collect())
}

/// Returns the text blocks below headings that name a command.
fn parse_reference(reference: &str) -> Vec<CommandHelp> {
    let sections = reference.split("\n## ").skip(1);
    let commands = sections.filter_map(|section| {
        let (heading, rest) = section.split_once('\n')?;
        let (_, block) = rest.split_once("```text\n")?;
        let (help, _) = block.split_once("\n```")?;
        let command = heading.trim().trim_matches('`').to_owned();
        command.starts_with("toolkeep").then(|| CommandHelp { command, help: help.to_owned() })
    });
    commands.collect()
}

fn render_page(name: &str, date: &str, commands: &[&CommandHelp], all_names: &[String]) -> String {
    let mut parts = vec![format!(".TH {} 1 {date} toolkeep\n", name.to_uppercase())];
    for (index, command) in commands.iter().enumerate() {
        let (summary, rest) = command.help.split_once('\n').unwrap_or((&command.help, ""));
        let summary = summary.trim_end_matches('.');
        if index == 0 {
            parts.push(format!(
                ".SH NAME\n{} \\- {}\n.SH DESCRIPTION\n.nf\n",
                escape_text(name),
                escape_text(summary)
            ));
        } else {
            parts.push(format!(
                ".SH {}\n{}.\n.PP\n.nf\n",
                escape_text(&command.command).to_uppercase(),
                escape_text(summary)
            ));
        }
        parts.push(format!("{}\n.fi\n", escape_lines(rest.trim_matches('\n'))));
    }
    let others: Vec<String> = all_names
        .iter()
        .filter(|other| *other != name && (name == "toolkeep" || *other == "toolkeep"))
        .map(|other| format!(".BR {} (1)", escape_text(other)))
        .collect();
    parts.push(format!(".SH \"SEE ALSO\"\n{}\n", others.join(" ,\n")));
    parts.concat()
}

fn escape_lines(text: &str) -> String {
    let lines: Vec<String> = text.lines().map(|line| escape_text(line.trim_end())).collect();
    lines.join("\n")
}

/// Escapes what the language of `man` would interpret.
fn escape_text(line: &str) -> String {
    let line = line.replace('\\', "\\e").replace('-', "\\-").replace('`', "\\`");
    let line = line.replace('\'', "\\(aq").replace('~', "\\(ti").replace('^', "\\(ha");
    if line.starts_with(['.', '\'']) { format!("\\&{line}") } else { line }
}

#[cfg(test)]
mod tests {
    use super::{escape_text, parse_reference, render_pages};
    use crate::workspace::Workspace;

    #[test]
    fn each_command_of_the_reference_has_a_page_or_a_section() {
        let workspace = Workspace::load_workspace().unwrap();
        let pages = render_pages(&workspace, "2026-11-26").unwrap();
        let names: Vec<&str> = pages.iter().map(|page| page.file_name.as_str()).collect();
        assert!(names.contains(&"toolkeep.1") && names.contains(&"toolkeep-serve.1"), "{names:?}");
        let tool = pages.iter().find(|page| page.file_name == "toolkeep-tool.1").unwrap();
        assert!(tool.text.contains(".SH TOOLKEEP TOOL CALL\n"), "{}", tool.text);
        let reference = std::fs::read_to_string(workspace.root_dir.join(super::REFERENCE)).unwrap();
        let sections: usize = pages.iter().map(|page| page.text.matches("\n.nf\n").count()).sum();
        assert_eq!(sections, reference.matches("\n## toolkeep").count());
    }

    #[test]
    fn text_is_escaped() {
        assert_eq!(escape_text(".SH 'a' -x"), "\\&.SH \\(aqa\\(aq \\-x");
        let help = parse_reference("# A\n\n## toolkeep a\n\n```text\nDo it.\n```\n");
        assert_eq!((help[0].command.as_str(), help[0].help.as_str()), ("toolkeep a", "Do it."));
    }
}
