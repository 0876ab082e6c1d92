//! Comparison of a server's direct output with its output through Toolkeep, as text.

use std::collections::HashSet;

use serde_json::Value;

use super::gateway_peer::{GatewayPeer, Revision};
use super::mcp_peer::McpPeer;
use super::raw_json::{Raw, members, name, without_prefix};
use super::server_list::{Call, Side};
use crate::support::server_process::Server;

/// A method, the member of its result, and what a server has that offers it.
const LISTS: [(&str, &str, &str); 4] = [
    ("tools/list", "tools", "tools"),
    ("prompts/list", "prompts", "prompts"),
    ("resources/list", "resources", "resources"),
    ("resources/templates/list", "resourceTemplates", "resources"),
];

/// All items of all sources, as `/mcp` lists them in each revision, in the order of [`LISTS`].
pub(super) struct RevisionLists(Vec<(Revision, [Vec<Raw>; 4])>);

impl RevisionLists {
    pub(super) async fn read(server: &Server) -> Self {
        let mut all = Vec::new();
        for revision in Revision::ALL {
            let mut door = McpPeer::Door(GatewayPeer::open(server, "", revision).await);
            let mut lists = [const { Vec::new() }; 4];
            for ((method, member, _), list) in LISTS.into_iter().zip(&mut lists) {
                *list = door.list(method, member).await.unwrap();
            }
            all.push((revision, lists));
        }
        Self(all)
    }

    /// Prompts, resources and templates in each revision.
    fn companion_counts(&self) -> Vec<[usize; 3]> {
        let count = |(_, [_, prompts, resources, templates]): &(_, [Vec<Raw>; 4])| {
            [prompts.len(), resources.len(), templates.len()]
        };
        self.0.iter().map(count).collect()
    }
}

/// Result of one source.
#[derive(Debug)]
pub(super) struct Row {
    source: String,
    /// As it lists directly: tools, prompts, resources, templates.
    counts: [usize; 4],
    /// Of definitions that were compared, over all lists and revisions.
    bytes: usize,
    calls: Vec<String>,
    wrong: Vec<String>,
}

impl Row {
    fn new(source: &str) -> Self {
        let (calls, wrong) = (Vec::new(), Vec::new());
        Self { source: source.to_owned(), counts: [0; 4], bytes: 0, calls, wrong }
    }

    /// Compares the lists of one source.
    pub(super) async fn of(
        (server, source): (&Server, &str),
        alone: &mut McpPeer,
        everywhere: &RevisionLists,
    ) -> Self {
        let mut row = Self::new(source);
        for (at, (method, member, ability)) in LISTS.into_iter().enumerate() {
            if !alone.has(ability) {
                continue;
            }
            // Some servers declare prompts without the method.
            let Ok(own) = alone.list(method, member).await else { continue };
            row.counts[at] = own.len();
            for revision in Revision::ALL {
                let at = format!("{member} in {}", revision.word());
                let mut door = McpPeer::Door(GatewayPeer::open(server, source, revision).await);
                match door.list(method, member).await {
                    Ok(seen) => row.same(&at, &own, seen.iter().map(|it| it.get().to_owned())),
                    Err(error) => row.wrong.push(format!("{at}: {error}")),
                }
            }
            row.compare_all(at, &own, everywhere);
        }
        row
    }

    /// Compares with the list of all sources: tools and prompts are named `SOURCE.NAME`, and a URI
    /// that several sources list has the name of its source in front.
    fn compare_all(&mut self, list: usize, own: &[Raw], everywhere: &RevisionLists) {
        let (prefix, label) = (format!("{}.", self.source), format!("{}+", self.source));
        for (revision, lists) in &everywhere.0 {
            let all = &lists[list];
            let own_texts: HashSet<&str> = own.iter().map(|it| it.get()).collect();
            let of_source = |item: &Raw| match LISTS[list].1 {
                "tools" | "prompts" => without_prefix(item.get(), "name", &prefix),
                "resources" => unqualified(item.get(), "uri", &label, &own_texts),
                _ => unqualified(item.get(), "uriTemplate", &label, &own_texts),
            };
            let seen: Vec<_> = all.iter().filter_map(of_source).collect();
            let at = format!("/mcp, {} in {}", LISTS[list].1, revision.word());
            self.same(&at, own, seen.into_iter());
        }
    }

    fn same(&mut self, at: &str, own: &[Raw], seen: impl ExactSizeIterator<Item = String>) {
        if own.len() != seen.len() {
            self.wrong.push(format!("{at}: {} of {}", seen.len(), own.len()));
        }
        for (own, seen) in own.iter().zip(seen) {
            if own.get() == seen {
                self.bytes += seen.len();
            } else {
                let name = name(own.get()).unwrap_or("?");
                self.wrong.push(format!("{at}: {name} differs:\n  {}\n  {seen}", own.get()));
            }
        }
    }

    /// Makes the calls at both, in step, and compares what comes back.
    pub(super) async fn calls(
        mut self,
        [door, alone]: [&mut McpPeer; 2],
        calls: [&[Call]; 2],
        sides: [&Side; 2],
    ) -> Self {
        for (through, direct) in calls[0].iter().zip(calls[1]) {
            let seen = door.ask("tools/call", through.params()).await;
            let own = alone.ask("tools/call", direct.params()).await;
            let told = match (seen, own) {
                (Ok(seen), Ok(own)) => {
                    let [seen, own] = [seen.get(), own.get()];
                    if !through.is_answered_by(own) || !through.is_answered_by(seen) {
                        self.wrong.push(format!("{}: {own}\n  {seen}", through.tool));
                    }
                    let seen = through.mask(sides[0].neutral(seen));
                    alike(&seen, &direct.mask(sides[1].neutral(own)))
                }
                (seen, own) => Err(format!("{seen:?}\n  {own:?}")),
            };
            let tool = through.tool;
            match told {
                Ok(how) => self.calls.push(format!("{tool} {how}")),
                Err(why) => {
                    self.calls.push(format!("{tool} DIFFERS"));
                    self.wrong.push(format!("{tool}: {why}"));
                }
            }
        }
        self
    }
}

/// An item of this source in the list of all, as the source lists it.
fn unqualified(item: &str, member: &str, label: &str, own: &HashSet<&str>) -> Option<String> {
    let plain = own.contains(item).then(|| item.to_owned());
    plain.or_else(|| without_prefix(item, member, label))
}

/// Returns how far two results are equal: as text; or as values, if only one declares that it is
/// complete, as 2026-07-28 requires.
fn alike(seen: &str, own: &str) -> Result<&'static str, String> {
    if seen == own {
        return Ok("byte for byte");
    }
    let [mut values, owns] = [seen, own].map(|it| serde_json::from_str::<Value>(it).unwrap());
    if owns.get("resultType").is_none() && values["resultType"] == "complete" {
        values.as_object_mut().unwrap().shift_remove("resultType");
        let parts = [seen, own].map(members);
        let kept = parts[1]
            .iter()
            .all(|(key, part)| parts[0].get(key).is_some_and(|other| other.get() == part.get()));
        if values == owns && kept {
            return Ok("byte for byte but resultType");
        }
    }
    Err(format!("\n  {own}\n  {seen}"))
}

/// All sources.
#[derive(Debug, Default)]
pub(super) struct Verdict(pub(super) Vec<Row>);

impl Verdict {
    /// Calls that were made through Toolkeep.
    pub(super) fn calls(&self) -> usize {
        self.0.iter().map(|row| row.calls.len()).sum()
    }

    /// The table, and what is wrong; then fails where anything is.
    pub(super) fn judge(&self, again: &str, tools: usize, everywhere: &RevisionLists) {
        println!("source: tools prompts resources templates, bytes compared, calls");
        for Row { source, counts: [tools, prompts, resources, templates], bytes, calls, .. } in
            &self.0
        {
            let calls = calls.join("; ");
            println!("{source}: {tools} {prompts} {resources} {templates}, {bytes}, {calls}");
        }
        // A server that is also reachable over HTTP is not another server.
        let others = || self.0.iter().filter(|row| row.source != again);
        let all: usize = others().map(|row| row.counts[0]).sum();
        let bytes: usize = self.0.iter().map(|row| row.bytes).sum();
        println!("{} servers, {all} tools, {bytes} bytes compared", others().count());
        let sums = [1, 2, 3].map(|list| self.0.iter().map(|row| row.counts[list]).sum::<usize>());
        println!("prompts, resources and templates of all: {sums:?}");
        for counts in everywhere.companion_counts() {
            assert_eq!(counts, sums, "`/mcp` has the items of all servers and no others");
        }
        let wrong: Vec<_> = self
            .0
            .iter()
            .flat_map(|row| row.wrong.iter().map(|why| format!("{}: {why}", row.source)))
            .collect();
        assert!(wrong.is_empty(), "{}", wrong.join("\n"));
        assert_eq!(all, tools, "the servers themselves list other tools than they did");
    }
}

#[test]
fn a_definition_that_changed_or_is_gone_is_seen() {
    let raw = |text: &str| vec![serde_json::value::RawValue::from_string(text.to_owned()).unwrap()];
    let own = raw(r#"{"name":"a", "n":1.0}"#);
    let wrong = |seen: &[&str]| {
        let mut row = Row::new("s");
        row.same("here", &own, seen.iter().map(|&it| it.to_owned()));
        (row.wrong.len(), row.bytes)
    };
    assert_eq!(wrong(&[own[0].get()]), (0, own[0].get().len()));
    assert_eq!(wrong(&[r#"{"name":"a","n":1.0}"#]), (1, 0));
    assert_eq!(wrong(&[]), (1, 0));
}

#[test]
fn a_change_of_one_byte_is_seen() {
    let own = r#"{"content":[],"n":1.0}"#;
    assert_eq!(alike(own, own), Ok("byte for byte"));
    let modern = r#"{"resultType":"complete","content":[],"n":1.0}"#;
    assert_eq!(alike(modern, own), Ok("byte for byte but resultType"));
    assert!(alike(&modern.replace("1.0", "1.00"), own).is_err());
    assert!(alike(&own.replace("1.0", "1.00"), own).is_err());
}
