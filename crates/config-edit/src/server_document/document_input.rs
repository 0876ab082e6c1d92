//! Values that a server document asks for, and the texts in which they appear.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::{ImportError, quote_text};

/// Maximum number of values of one server.
const MAX_INPUTS: usize = 200;
/// Maximum number of choices that an error lists.
const MAX_LISTED: usize = 10;

/// A value as a document describes it.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Input {
    description: String,
    is_required: bool,
    is_secret: bool,
    default: Option<String>,
    value: Option<String>,
    choices: Vec<String>,
    variables: BTreeMap<String, Self>,
}

/// A header or an environment variable.
#[derive(Debug, Clone, Deserialize)]
pub(super) struct KeyedInput {
    pub(super) name: String,
    #[serde(flatten)]
    pub(super) input: Input,
}

/// A value that the caller may supply.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerInput {
    /// The name by which it is supplied.
    pub key: String,
    /// The document's description: any text.
    pub description: String,
    /// Whether it must be supplied: it is required and has no default.
    pub is_missing: bool,
    /// Whether it is a secret, which is supplied as a reference to a variable.
    pub is_secret: bool,
}

/// The values that the caller supplies, by key.
#[derive(Debug, Default)]
pub struct InputAnswers(BTreeMap<String, Vec<String>>);

/// Collects the values of a document.
#[derive(Debug, Default)]
pub(super) struct InputScope(Vec<ServerInput>);

impl InputScope {
    pub(super) fn add_keyed(&mut self, keyed: &KeyedInput) {
        self.add(&keyed.name, &keyed.input);
    }

    pub(super) fn add_variables(&mut self, variables: &BTreeMap<String, Input>) {
        for (key, input) in variables {
            self.add(key, input);
        }
    }

    /// Adds a value, or the variables of which its text consists.
    pub(super) fn add(&mut self, key: &str, input: &Input) {
        if input.is_preset() {
            return self.add_variables(&input.variables);
        }
        let has_default = input.default.is_some() && !input.is_secret;
        let is_missing = input.is_required && !has_default;
        match self.0.iter_mut().find(|found| found.key == key) {
            Some(found) => {
                found.is_missing |= is_missing;
                found.is_secret |= input.is_secret;
            }
            None => self.0.push(ServerInput {
                key: key.to_owned(),
                description: input.description.clone(),
                is_missing,
                is_secret: input.is_secret,
            }),
        }
    }

    pub(super) fn into_inputs(self) -> Vec<ServerInput> {
        self.0
    }
}

impl Input {
    /// Whether the document sets its text. A secret without variables is not set: what everybody
    /// can read is no secret.
    fn is_preset(&self) -> bool {
        self.value.is_some() && !(self.is_secret && self.variables.is_empty())
    }
}

impl InputAnswers {
    /// Adds a value: `KEY=VALUE`, or `KEY` for the environment variable of that name.
    ///
    /// # Errors
    /// A key without a value that is no name of a variable.
    pub fn add_text(&mut self, text: &str) -> Result<(), ImportError> {
        match text.split_once('=') {
            Some((key, value)) => self.add_value(key, value.to_owned()),
            None => self.add_variable(text, text)?,
        }
        Ok(())
    }

    /// Adds a value as it appears in the configuration.
    pub fn add_value(&mut self, key: &str, value: String) {
        self.0.entry(key.to_owned()).or_default().push(value);
    }

    /// Adds a reference to an environment variable of the server.
    ///
    /// # Errors
    /// A name that no variable has.
    pub fn add_variable(&mut self, key: &str, variable: &str) -> Result<(), ImportError> {
        if !is_variable_name(variable) {
            let message =
                format!("`{}` is no name of an environment variable", quote_text(variable));
            let help = format!("pass `--set '{}=${{VARIABLE}}'`", quote_text(key));
            return Err(ImportError::input(message).with_help(help));
        }
        self.add_value(key, format!("${{{variable}}}"));
        Ok(())
    }

    /// Whether a value is supplied for the key.
    pub fn has(&self, key: &str) -> bool {
        self.0.contains_key(key)
    }

    /// Checks that the document asks for every value.
    pub(super) fn check_known(&self, inputs: &[ServerInput]) -> Result<(), ImportError> {
        if inputs.len() > MAX_INPUTS {
            let message = format!("the document asks for more than {MAX_INPUTS} values");
            return Err(ImportError::invalid(message));
        }
        let is_unknown = |key: &&String| inputs.iter().all(|input| input.key != **key);
        let Some(unknown) = self.0.keys().find(is_unknown) else { return Ok(()) };
        let message = format!("the server has no input `{}`", quote_text(unknown));
        let known = list_quoted(inputs.iter().map(|input| input.key.as_str()));
        Err(ImportError::input(message).with_help(format!("its inputs are {known}")))
    }

    /// Renders headers or environment variables; those without a value are left out.
    pub(super) fn render_keyed(
        &self,
        inputs: &[KeyedInput],
    ) -> Result<Map<String, Value>, ImportError> {
        let mut values = Map::new();
        for KeyedInput { name, input } in inputs {
            let Some(value) = self.render_values(name, input, false)?.pop() else { continue };
            if values.insert(name.clone(), json!(value)).is_some() {
                let message = format!("the document has `{}` twice", quote_text(name));
                return Err(ImportError::invalid(message));
            }
        }
        Ok(values)
    }

    /// Renders the values of one input: none, one, or several of a repeated argument.
    pub(super) fn render_values(
        &self,
        key: &str,
        input: &Input,
        is_repeated: bool,
    ) -> Result<Vec<String>, ImportError> {
        let values = self.resolve_values(key, input, is_repeated)?;
        values.into_iter().map(join_segments).collect()
    }

    /// Renders a text in which `{NAME}` stands for a variable. Everything else is literal.
    pub(super) fn render_template(
        &self,
        template: &str,
        variables: &BTreeMap<String, Input>,
    ) -> Result<String, ImportError> {
        join_segments(self.resolve_template(template, variables)?)
    }

    fn resolve_values(
        &self,
        key: &str,
        input: &Input,
        is_repeated: bool,
    ) -> Result<Vec<Vec<Segment>>, ImportError> {
        if input.is_preset() {
            let template = input.value.as_deref().unwrap_or_default();
            return Ok(vec![self.resolve_template(template, &input.variables)?]);
        }
        match (self.0.get(key).map(Vec::as_slice), &input.default) {
            (Some([_, _, ..]), _) if !is_repeated => {
                let message = format!("`{}` is given twice", quote_text(key));
                Err(ImportError::input(message).with_help("pass it once"))
            }
            (Some(values), _) => {
                let answer = |value: &String| {
                    check_answer(key, input, value).map(|()| vec![Segment::Caller(value.clone())])
                };
                values.iter().map(answer).collect()
            }
            (None, Some(default)) if !input.is_secret => {
                Ok(vec![vec![Segment::Document(default.clone())]])
            }
            (None, _) if input.is_required => Err(missing_error(key, input)),
            (None, _) => Ok(Vec::new()),
        }
    }

    fn resolve_template(
        &self,
        template: &str,
        variables: &BTreeMap<String, Input>,
    ) -> Result<Vec<Segment>, ImportError> {
        let (mut segments, mut literal, mut rest) = (Vec::new(), String::new(), template);
        while let Some((before, after)) = rest.split_once('{') {
            literal.push_str(before);
            let variable = after.split_once('}');
            let found = variable.and_then(|(name, tail)| Some((name, variables.get(name)?, tail)));
            let Some((name, input, tail)) = found else {
                literal.push('{');
                rest = after;
                continue;
            };
            segments.push(Segment::Document(std::mem::take(&mut literal)));
            segments.extend(self.resolve_values(name, input, false)?.into_iter().flatten());
            rest = tail;
        }
        literal.push_str(rest);
        segments.push(Segment::Document(literal));
        Ok(segments)
    }
}

/// A part of a text, by its author.
#[derive(Debug)]
enum Segment {
    /// Of the document: literal.
    Document(String),
    /// Of the caller: may refer to variables.
    Caller(String),
}

/// Joins the parts of a text, so that no part of the document begins or completes a reference to a
/// variable.
fn join_segments(segments: Vec<Segment>) -> Result<String, ImportError> {
    let (mut text, mut literal) = (String::new(), String::new());
    let is_split = |text: &str, next: &str| text.ends_with('$') && next.starts_with(['$', '{']);
    for segment in segments {
        match segment {
            Segment::Document(part) => literal.push_str(&part),
            Segment::Caller(part) => {
                let escaped = escape_variables(&std::mem::take(&mut literal));
                let splits = is_split(&text, &escaped) || is_split(&escaped, &part);
                text.push_str(&escaped);
                if splits || is_split(&text, &part) {
                    return Err(split_error());
                }
                text.push_str(&part);
            }
        }
    }
    let escaped = escape_variables(&literal);
    if is_split(&text, &escaped) {
        return Err(split_error());
    }
    Ok(text + &escaped)
}

fn split_error() -> ImportError {
    ImportError::unsupported("a text of the document has `$` beside a value")
        .with_help("add the server by hand: `toolkeep source add NAME --mcp URL`")
}

fn missing_error(key: &str, input: &Input) -> ImportError {
    let shown = quote_text(key);
    let about = quote_text(&input.description);
    let about = if about.is_empty() { about } else { format!(": {about}") };
    if input.is_secret {
        let help = format!(
            "set an environment variable of the server, and pass its name: `--set '{shown}=${{VARIABLE}}'`"
        );
        return ImportError::input(format!("the secret `{shown}` is missing{about}"))
            .with_help(help);
    }
    ImportError::input(format!("the value `{shown}` is missing{about}"))
        .with_help(format!("pass `--set '{shown}=VALUE'`"))
}

/// Checks a value of the caller: a secret is one reference to a variable, and a choice is listed.
fn check_answer(key: &str, input: &Input, value: &str) -> Result<(), ImportError> {
    let reference = value.strip_prefix("${").and_then(|rest| rest.strip_suffix('}'));
    let is_reference = reference.is_some_and(is_variable_name);
    if input.is_secret && !is_reference {
        let shown = quote_text(key);
        let message = format!("`{shown}` is a secret, which is not written into the configuration");
        return Err(ImportError::input(message).with_help(format!(
            "set an environment variable of the server, and pass its name: `--set '{shown}=${{VARIABLE}}'`"
        )));
    }
    if !input.choices.is_empty() && !is_reference && !input.choices.iter().any(|it| it == value) {
        let message = format!("`{}` is not a choice of `{}`", quote_text(value), quote_text(key));
        let choices = list_quoted(input.choices.iter().map(String::as_str));
        return Err(ImportError::input(message).with_help(format!("choose one of {choices}")));
    }
    Ok(())
}

/// Escapes references to variables, so that a document reads no variable of the server.
pub(super) fn escape_variables(text: &str) -> String {
    text.replace("${", "$${")
}

fn is_variable_name(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && text.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

fn list_quoted<'a>(texts: impl Iterator<Item = &'a str>) -> String {
    let texts: Vec<_> =
        texts.take(MAX_LISTED).map(|text| format!("`{}`", quote_text(text))).collect();
    if texts.is_empty() { "none".to_owned() } else { texts.join(", ") }
}
