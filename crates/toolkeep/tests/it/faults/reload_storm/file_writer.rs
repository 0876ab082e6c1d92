//! Writer of the configuration and the tool file, in every way a file can change.

use std::fs;
use std::os::unix::fs::symlink;

use serde_json::{Value, json};

use super::{EXTRA, POOL};
use crate::support::installation::Installation;
use crate::support::seeded_random::Random;

const CONFIG_FILE: &str = "toolkeep.yaml";

/// Format of the tool file.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Language {
    Json,
    /// Blocks while a file is replaced atomically. Content written in place is in brackets, so that
    /// no prefix is a complete document.
    Yaml,
}

pub(crate) struct FileWriter<'h> {
    home: &'h Installation,
    language: Language,
    module: String,
    random: Random,
    /// The changes from which the files are, as they shall count.
    pub(crate) pool: usize,
    pub(crate) config: usize,
    /// Whether the file has a complete configuration.
    pub(crate) sound: bool,
}

fn mock(name: &str, response: &Value) -> Value {
    json!({
        "name": name,
        "description": "Answers always the same.",
        "parameters": { "type": "object" },
        "implementation": { "type": "mock", "mock_response": response },
    })
}

/// The file whose tool names contain the number of their change; one of the tools is denied.
fn pool(n: usize) -> String {
    let own = (0..POOL).map(|at| mock(&format!("pool{n}_{at}"), &json!(at)));
    let rest = [mock("always", &json!({ "generation": n })), mock("secret", &json!(n))];
    json!({ "tools": own.chain(rest).collect::<Vec<_>>() }).to_string()
}

/// As a person writes YAML.
fn block(value: &Value, indent: usize) -> String {
    let space = " ".repeat(indent);
    let nested = |value: &Value| match value {
        Value::Object(map) if !map.is_empty() => format!("\n{}", block(value, indent + 2)),
        Value::Array(list) if !list.is_empty() => format!("\n{}", block(value, indent + 2)),
        scalar => format!(" {scalar}\n"),
    };
    match value {
        Value::Object(map) => {
            let line = |(key, value)| format!("{space}{key}:{}", nested(value));
            map.iter().map(line).collect::<Vec<_>>().concat()
        }
        Value::Array(list) => {
            let item = |value| format!("{space}- {}", block(value, indent + 2).trim_start());
            list.iter().map(item).collect()
        }
        scalar => format!("{space}{scalar}\n"),
    }
}

impl<'h> FileWriter<'h> {
    pub(crate) fn new(
        home: &'h Installation,
        language: Language,
        module: String,
        random: Random,
    ) -> Self {
        Self { home, language, module, random, pool: 0, config: 0, sound: true }
    }

    fn file(&self) -> &'static str {
        if self.language == Language::Yaml { "pool.yaml" } else { "pool.json" }
    }

    /// A file that is put in whole.
    fn whole(&self, text: String) -> String {
        match self.language {
            Language::Json => text,
            Language::Yaml => block(&serde_json::from_str(&text).unwrap(), 0),
        }
    }

    pub(crate) fn first(&mut self) {
        self.home.write(self.file(), &pool(0));
        let config = self.text(0);
        self.home.write(CONFIG_FILE, &config);
    }

    /// The configuration with a tool file of its own, and the rule.
    fn text(&mut self, n: usize) -> String {
        (self.config, self.sound) = (n, true);
        let extra = (0..EXTRA).map(|at| mock(&format!("extra{n}_{at}"), &json!(at)));
        let file = json!({ "tools": extra.collect::<Vec<_>>() }).to_string();
        self.home.write(&format!("extra{n}.json"), &file);
        json!({
            "version": 1,
            "sources": [
                { "name": "local", "tools": "./tools.yaml" },
                { "name": "good", "module": self.module },
                { "name": "pool", "tools": self.home.path(self.file()) },
                { "name": format!("extra{n}"), "tools": self.home.path(&format!("extra{n}.json")) },
            ],
            "policy": { "deny": ["secret*"] },
        })
        .to_string()
    }

    /// Writes a new file and replaces the old one with it.
    fn put(&self, file: &str, text: &str) {
        self.home.write("whole.new", text);
        fs::rename(self.home.path("whole.new"), self.home.path(file)).unwrap();
    }

    pub(crate) fn put_pool(&mut self, n: usize) {
        self.pool = n;
        self.put(self.file(), &self.whole(pool(n)));
    }

    pub(crate) fn put_config(&mut self, n: usize) {
        let text = self.text(n);
        self.put(CONFIG_FILE, &self.whole(text));
    }

    /// Good to the reader of another format, or to none.
    pub(crate) fn break_pool(&mut self) {
        let other = if self.language == Language::Yaml { "- [" } else { "tools: []" };
        let broken = ["", other, "{\"tools\": [}", "{\"tools\": 7}", "\u{0}"];
        self.home.write(self.file(), broken[self.random.index(broken.len())]);
    }

    pub(crate) fn break_config(&mut self) {
        self.sound = false;
        let broken = [
            "version: 1\nsources: [",
            "version: 1\nsource: []\n",
            "version: 1\npolicy: { deny: }\n",
            "version: 9\n",
            "policy:\n  denny: [secret]\n",
        ];
        self.home.write(CONFIG_FILE, broken[self.random.index(broken.len())]);
    }

    /// In place, and broken off anywhere.
    fn break_off(&mut self, file: &str, mut text: String) {
        text.truncate(1 + self.random.index(text.len() - 2));
        self.home.write(file, &text);
    }

    pub(crate) fn half_pool(&mut self, n: usize) {
        let text = pool(n);
        self.break_off(self.file(), text);
    }

    pub(crate) fn half_config(&mut self, n: usize) {
        let text = self.text(n);
        self.break_off(CONFIG_FILE, text);
    }

    pub(crate) fn finish_pool(&mut self, n: usize) {
        self.pool = n;
        self.home.write(self.file(), &pool(n));
    }

    pub(crate) fn finish_config(&mut self, n: usize) {
        let text = self.text(n);
        self.home.write(CONFIG_FILE, &text);
    }

    /// As Kubernetes does: both files are links into a folder that is itself a link, which is swapped.
    pub(crate) fn swap(&mut self, n: usize) {
        let folder = format!("version{n}");
        fs::create_dir(self.home.path(&folder)).unwrap();
        self.pool = n;
        let config = self.text(n);
        let file = self.file();
        self.home.write(&format!("{folder}/{file}"), &self.whole(pool(n)));
        self.home.write(&format!("{folder}/{CONFIG_FILE}"), &self.whole(config));
        symlink(&folder, self.home.path("..new")).unwrap();
        fs::rename(self.home.path("..new"), self.home.path("..data")).unwrap();
        for file in [file, CONFIG_FILE] {
            if !self.home.path(file).is_symlink() {
                symlink(format!("..data/{file}"), self.home.path("link.new")).unwrap();
                fs::rename(self.home.path("link.new"), self.home.path(file)).unwrap();
            }
        }
    }

    /// Writes the configuration without its rules, as a control.
    pub(crate) fn without_rules(&mut self) {
        let text =
            self.text(self.config).replace(r#""policy":{"deny":["secret*"]}"#, r#""policy":{}"#);
        assert!(!text.contains("deny"), "{text}");
        self.put(CONFIG_FILE, &text);
    }
}
