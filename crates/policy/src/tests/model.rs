//! The policy once more, in plain words and plain data: it shares no code with the crate it judges.
//! Sets are lists of texts, levels are numbers, and everything is looked for anew each time.

/// A policy.
#[derive(Debug, Clone, Default)]
pub(super) struct P {
    pub(super) groups: Vec<(String, Vec<String>)>,
    pub(super) global: L,
    pub(super) orgs: Vec<(String, L)>,
    pub(super) roles: Vec<(String, L)>,
    pub(super) default_role: Option<String>,
    pub(super) personas: Vec<(String, L)>,
    pub(super) tasks: Vec<(String, L)>,
    /// Scope, wants an approval.
    pub(super) scopes: Vec<(String, bool)>,
    pub(super) paths: Option<Vec<String>>,
    pub(super) off: Vec<String>,
}

pub(super) type Flat = (bool, Vec<String>, Vec<String>, Vec<String>);
pub(super) type Lent = (Option<Vec<String>>, Vec<String>, bool, bool);

/// A layer.
#[derive(Debug, Clone, Default)]
pub(super) struct L {
    pub(super) limit: Option<u8>,
    pub(super) categories: Option<Vec<String>>,
    pub(super) allow: Option<Vec<String>>,
    pub(super) deny: Vec<String>,
    pub(super) read_only: bool,
    pub(super) no_web: bool,
    /// Web access, categories, allowed, forbidden.
    pub(super) flat: Option<Flat>,
    pub(super) rules: Vec<R>,
}

/// A rule: `deny` or `hold`, for some tools, under a condition, from one hour to another.
#[derive(Debug, Clone)]
pub(super) struct R {
    pub(super) deny: bool,
    pub(super) tools: Option<Vec<String>>,
    pub(super) when: Option<C>,
    pub(super) hours: Option<(u64, u64)>,
}

/// A condition.
#[derive(Debug, Clone)]
pub(super) enum C {
    /// The argument `n` is greater.
    Above(i64),
    /// The argument `s` is this text.
    Is(String),
    /// There is an argument `s`, and it is this text.
    HasAndIs(String),
    /// The caller has this role.
    Role(String),
}

/// A request.
#[derive(Debug, Clone)]
pub(super) struct Q {
    pub(super) org: String,
    pub(super) level: u8,
    pub(super) roles: Vec<String>,
    pub(super) persona: Option<(String, Option<Vec<String>>)>,
    /// Allow, deny, read only, no web.
    pub(super) delegations: Vec<Lent>,
    pub(super) read_only: bool,
    pub(super) no_web: bool,
    pub(super) task: Option<String>,
    pub(super) chain: bool,
    pub(super) tool: T,
    pub(super) n: Option<i64>,
    pub(super) s: Option<String>,
    pub(super) path: Option<String>,
    pub(super) hour: u64,
}

/// A tool.
#[derive(Debug, Clone)]
pub(super) struct T {
    pub(super) org: String,
    pub(super) source: String,
    pub(super) name: String,
    pub(super) level: u8,
    pub(super) safety: u8,
    pub(super) categories: Vec<String>,
    pub(super) scopes: Vec<String>,
    pub(super) effects: Option<Vec<String>>,
    pub(super) destructive: bool,
    pub(super) chain: bool,
}

fn like(pattern: &str, text: &str) -> bool {
    match pattern.chars().next() {
        None => text.is_empty(),
        Some('*') => {
            let rest = pattern.split_at(1).1;
            (0..=text.len()).any(|cut| like(rest, text.split_at(cut).1))
        }
        Some(c) => text.starts_with(c) && like(pattern.split_at(1).1, text.split_at(1).1),
    }
}

fn has(list: &[String], word: &str) -> bool {
    list.iter().any(|item| item == word)
}

fn effects(t: &T) -> bool {
    let harmless = |e: &String| e == "read_only" || e == "network_access" || e == "calls_llm";
    let known = t.effects.as_ref();
    let none =
        known.is_some_and(|e| e.is_empty() || (has(e, "read_only") && e.iter().all(harmless)));
    !none || t.destructive
}

fn reads(t: &T) -> bool {
    ["list_dir", "read_file", "search_files", "web_fetch"].contains(&t.name.as_str())
}

fn mild(t: &T) -> bool {
    let harmless = |e: &String| e == "read_only" || e == "network_access" || e == "calls_llm";
    !t.destructive && t.effects.as_ref().is_some_and(|e| e.iter().all(harmless))
}

fn changes_files(t: &T) -> bool {
    let runs = |e: &Vec<String>| {
        has(e, "local_exec") && e.iter().all(|e| e == "local_exec" || e == "read_only")
    };
    let named = ["write_file", "edit_file", "run_shell"].contains(&t.name.as_str());
    named || (effects(t) && !(reads(t) && mild(t)) && !t.effects.as_ref().is_some_and(runs))
}

fn web(t: &T) -> bool {
    has(&t.categories, "web")
        || has(&t.scopes, "network")
        || t.effects.as_ref().is_some_and(|e| has(e, "network_access"))
}

fn group(p: &P, name: &str, t: &T, depth: usize) -> bool {
    let named = |names: &str| names.split(' ').any(|name| name == t.name);
    let effect = |word| t.effects.as_ref().is_some_and(|e| has(e, word));
    match name {
        "all" => true,
        "read" => {
            let only_files = t.scopes.iter().all(|scope| scope == "filesystem");
            reads(t) || (!effects(t) && !web(t) && only_files)
        }
        "write" => {
            named("write_file edit_file run_shell") || (effects(t) && !(reads(t) && mild(t)))
        }
        "code" => {
            named("list_dir read_file search_files write_file edit_file run_shell")
                || has(&t.categories, "code")
                || has(&t.scopes, "shell")
                || effect("local_exec")
        }
        "data" => named("query_db read_file search_files") || has(&t.categories, "data"),
        "web" => named("web_fetch web_search web_research") || web(t),
        "math" => named("calculate plot") || has(&t.categories, "math"),
        own => {
            let members = p.groups.iter().find(|(name, _)| name == own).map(|(_, members)| members);
            depth < 9
                && members.is_some_and(|members| members.iter().any(|m| fits(p, m, t, depth + 1)))
        }
    }
}

fn fits(p: &P, pattern: &str, t: &T, depth: usize) -> bool {
    match pattern.split_once(':') {
        Some(("group", name)) => group(p, name, t, depth),
        Some((_, source)) => like(source, &t.source),
        None => like(pattern, &t.name),
    }
}

fn any(p: &P, list: &[String], t: &T) -> bool {
    list.iter().any(|pattern| fits(p, pattern, t, 0))
}

fn layers<'a>(p: &'a P, q: &Q) -> Vec<&'a L> {
    let find = |all: &'a [(String, L)], name: &str| all.iter().find(|(own, _)| own == name);
    let mut roles = q.roles.clone();
    if roles.is_empty() {
        roles.extend(p.default_role.clone());
    }
    let mut all = vec![&p.global];
    all.extend(find(&p.orgs, &q.org).map(|(_, l)| l));
    all.extend(roles.iter().filter_map(|role| find(&p.roles, role)).map(|(_, l)| l));
    all.extend(q.persona.iter().filter_map(|(name, _)| find(&p.personas, name)).map(|(_, l)| l));
    all.extend(q.task.iter().filter_map(|name| find(&p.tasks, name)).map(|(_, l)| l));
    all
}

fn in_hours(r: &R, hour: u64) -> bool {
    r.hours.is_none_or(|(from, to)| {
        if from < to { from <= hour && hour < to } else { hour >= from || hour < to }
    })
}

fn passes(p: &P, l: &L, q: &Q) -> bool {
    let t = &q.tool;
    let shares = |wanted: &[String]| t.categories.iter().any(|c| has(wanted, c));
    let is_web = group(p, "web", t, 0);
    let flat = l.flat.as_ref().is_none_or(|(access, categories, allowed, forbidden)| {
        !any(p, forbidden, t)
            && (any(p, allowed, t) || (shares(categories) && (*access || !is_web)))
    });
    let hides = |r: &R| {
        r.deny
            && r.when.is_none()
            && r.tools.as_ref().is_none_or(|tools| any(p, tools, t))
            && in_hours(r, q.hour)
    };
    l.allow.as_ref().is_none_or(|allow| any(p, allow, t))
        && !any(p, &l.deny, t)
        && l.limit.is_none_or(|limit| t.safety <= limit)
        && l.categories.as_ref().is_none_or(|wanted| shares(wanted))
        && !(l.read_only && group(p, "write", t, 0))
        && !(l.no_web && is_web)
        && flat
        && !l.rules.iter().any(hides)
}

fn visible(p: &P, q: &Q) -> bool {
    let t = &q.tool;
    let off = |flag: &str| has(&p.off, flag);
    let known = |role: &String| p.roles.iter().any(|(own, _)| own == role);
    let mut roles = q.roles.clone();
    if roles.is_empty() {
        roles.extend(p.default_role.clone());
    }
    let listed = p.orgs.iter().any(|(org, l)| *org == q.org && l.allow.is_some());
    let quiet =
        q.no_web || q.task.as_deref().is_some_and(|task| ["math", "thinking"].contains(&task));
    let lent =
        |(allow, deny, read_only, no_web): &(Option<Vec<String>>, Vec<String>, bool, bool)| {
            allow.as_ref().is_none_or(|allow| any(p, allow, t))
                && !any(p, deny, t)
                && (!*read_only || !group(p, "write", t, 0))
                && (!*no_web || !group(p, "web", t, 0))
        };
    !off("tools")
        && !((off("side_effect_tracking") || off("structured_tool_output")) && t.destructive)
        && !(off("scripts") && q.chain)
        && (!off("cascading_tool_policy")
            || p.roles.is_empty()
            || q.level == 3
            || roles.iter().any(known))
        && (t.org == "default" || t.org == q.org)
        && (q.org == "default" || listed)
        && q.level >= t.level
        && t.chain >= q.chain
        && (p.roles.is_empty() || roles.iter().all(known))
        && q.persona.iter().all(|(_, modules)| modules.as_ref().is_none_or(|m| has(m, &t.source)))
        && !(q.read_only && group(p, "write", t, 0))
        && !(quiet && group(p, "web", t, 0))
        && q.delegations.iter().all(lent)
        && layers(p, q).iter().all(|l| passes(p, l, q))
}

fn holds(c: &C, q: &Q) -> Option<bool> {
    Some(match c {
        C::Above(least) => q.n? > *least,
        C::Is(text) => q.s.as_ref()? == text,
        C::HasAndIs(text) => q.s.as_ref() == Some(text),
        C::Role(role) => has(&q.roles, role),
    })
}

/// `hidden`, `deny`, `hold` or `allow`.
pub(super) fn judge(p: &P, q: &Q) -> &'static str {
    let t = &q.tool;
    if !visible(p, q) {
        return "hidden";
    }
    let inside =
        |path: &String, folder: &String| path.starts_with(folder.as_str()) && !path.contains("..");
    if let Some(allowed) = p.paths.as_ref().filter(|_| has(&t.scopes, "filesystem"))
        && !q.path.as_ref().is_some_and(|path| allowed.iter().any(|folder| inside(path, folder)))
    {
        return "deny";
    }
    let scope = |scope: &String| {
        let said = p.scopes.iter().find(|(own, _)| own == scope).map(|(_, wants)| *wants);
        said.unwrap_or(scope == "shell" || (scope == "filesystem" && changes_files(t)))
    };
    let mut held = t.safety == 2 || t.destructive || t.scopes.iter().any(scope);
    for r in layers(p, q).iter().flat_map(|l| &l.rules) {
        let speaks = r.tools.as_ref().is_none_or(|tools| any(p, tools, t)) && in_hours(r, q.hour);
        match r.when.as_ref().map_or(Some(true), |c| holds(c, q)) {
            _ if !speaks => {}
            None => return "deny",
            Some(true) if r.deny => return "deny",
            Some(applies) => held |= applies,
        }
    }
    let none = has(&p.off, "approval_gates") || has(&p.off, "resume_tokens");
    if held { if none { "deny" } else { "hold" } } else { "allow" }
}
