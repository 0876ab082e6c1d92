#!/usr/bin/env python3
"""Renames symbols of this workspace through rust-analyzer, which `rustup component add rust-analyzer` installs.

usage: ren.py ROOT SPEC [--log FILE]
A line of SPEC:  crates/x/src/file.rs PATH -> new_name     PATH: Type, Type.field, Type::method, Type::Variant, func, mod name
                 MOVE crates/x/src/told.rs -> progress_stream    (renames the module and its file)
"""
import json, os, re, subprocess, sys, threading, time, queue, shutil
ROOT = os.path.realpath(sys.argv[1]); SPEC = sys.argv[2]
def uri(p): return "file://" + os.path.join(ROOT, p)
def path(u): return u[7:]
class Lsp:
    def __init__(self):
        env = dict(os.environ, CARGO_INCREMENTAL="0")
        self.p = subprocess.Popen(["nice", "-n", "10", "rust-analyzer"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=env, cwd=ROOT)
        self.n = 0; self.wait = {}; self.ready = threading.Event(); self.status = None
        threading.Thread(target=self.read, daemon=True).start()
    def send(self, m):
        b = json.dumps(dict(jsonrpc="2.0", **m)).encode()
        self.p.stdin.write(b"Content-Length: %d\r\n\r\n" % len(b) + b); self.p.stdin.flush()
    def read(self):
        f = self.p.stdout
        while True:
            n = None
            while True:
                l = f.readline()
                if not l: os._exit(3)
                l = l.strip()
                if not l: break
                if l.lower().startswith(b"content-length"): n = int(l.split(b":")[1])
            m = json.loads(f.read(n))
            if "method" in m:
                if m["method"] == "experimental/serverStatus":
                    self.status = m["params"]
                    (self.ready.set if m["params"].get("quiescent") else self.ready.clear)()
                if "id" in m:
                    r = None
                    if m["method"] == "workspace/configuration": r = [CONFIG for _ in m["params"]["items"]]
                    self.send(dict(id=m["id"], result=r))
            elif m.get("id") in self.wait: self.wait.pop(m["id"]).put(m)
    def req(self, method, params, timeout=600):
        self.n += 1; q = queue.Queue(); self.wait[self.n] = q
        self.send(dict(id=self.n, method=method, params=params))
        m = q.get(timeout=timeout)
        return m
    def call(self, method, params):
        for k in range(200):
            m = self.req(method, params)
            if "error" in m and m["error"]["code"] in (-32801, -32802, -32800): time.sleep(0.3); continue
            return m
        return m
    def note(self, method, params): self.send(dict(method=method, params=params))
CONFIG = {"checkOnSave": False, "cachePriming": {"enable": False}, "cargo": {"buildScripts": {"enable": True}, "allTargets": True},
  "procMacro": {"enable": True}, "files": {"watcher": "client", "exclude": ["target", ".git", "docs"]}, "diagnostics": {"enable": False}, "lru": {"capacity": 512}}
lsp = Lsp()
t0 = time.time()
lsp.req("initialize", dict(processId=os.getpid(), rootUri="file://"+ROOT, workspaceFolders=[dict(uri="file://"+ROOT, name="r")],
  initializationOptions=CONFIG, capabilities=dict(workspace=dict(workspaceEdit=dict(documentChanges=True, resourceOperations=["rename","create","delete"]), configuration=True, didChangeWatchedFiles=dict(dynamicRegistration=True)),
  window=dict(workDoneProgress=False), textDocument=dict(documentSymbol=dict(hierarchicalDocumentSymbolSupport=True), rename=dict(prepareSupport=True)), general=dict(positionEncodings=["utf-8"]), experimental=dict(serverStatusNotification=True))))
lsp.note("initialized", {})
lsp.ready.wait(1200)
def settle():
    time.sleep(0.05)
    lsp.ready.wait(600)
print(f"ready after {time.time()-t0:.0f} s: {lsp.status}", flush=True)
def apply(edit):
    """Applies a WorkspaceEdit to the disk; returns the changed files."""
    changed, moved = {}, []
    changes = edit.get("documentChanges") or [dict(textDocument=dict(uri=u), edits=e) for u, e in (edit.get("changes") or {}).items()]
    for c in changes:
        if "kind" in c: moved.append((path(c["oldUri"]), path(c["newUri"]))); continue
        f = path(c["textDocument"]["uri"])
        if not f.startswith(ROOT + "/") : raise RuntimeError("edit outside: " + f)
        data = open(f, "rb").read(); starts = [0]
        for i, b in enumerate(data):
            if b == 10: starts.append(i + 1)
        es = sorted(c["edits"], key=lambda e: (e["range"]["start"]["line"], e["range"]["start"]["character"]), reverse=True)
        for e in es:
            a = starts[e["range"]["start"]["line"]] + e["range"]["start"]["character"]
            b = starts[e["range"]["end"]["line"]] + e["range"]["end"]["character"]
            data = data[:a] + e["newText"].encode() + data[b:]
        changed[f] = data
    for f, d in changed.items(): open(f, "wb").write(d)
    events = [dict(uri="file://" + f, type=2) for f in changed]
    for a, b in moved:
        isdir = os.path.isdir(a)
        files = [os.path.join(d, x) for d, _, fs in os.walk(a) for x in fs] if isdir else [a]
        os.makedirs(os.path.dirname(b), exist_ok=True)
        shutil.move(a, b)
        for x in files:
            y = b + x[len(a):]
            events += [dict(uri="file://" + x, type=3), dict(uri="file://" + y, type=1)]
    lsp.note("workspace/didChangeWatchedFiles", dict(changes=events))
    settle()
    return len(changed), moved
def symbols(f):
    m = lsp.call("textDocument/documentSymbol", dict(textDocument=dict(uri=uri(f))))
    return m.get("result") or []
def find(f, p):
    want = re.split(r"::|\.", p)
    hits = []
    def walk(nodes, prefix):
        for s in nodes:
            name = s["name"]
            im = re.match(r"impl(?:<.*?>)?\s+(?:.* for )?([A-Za-z_]\w*)", name)
            here = prefix + [im.group(1)] if im else prefix + [name]
            if not im and here[-len(want):] == want: s["up"] = list(up); hits.append((len(here) , s))
            up.append(s); walk(s.get("children") or [], here); up.pop()
    up = []
    walk(symbols(f), [])
    hits.sort(key=lambda h: h[0])
    return [s for n, s in hits]
def serde_guard(f, s, parents, old):
    """Keeps the wire name of a field or variant whose container derives serde: inserts the attribute above it."""
    full = os.path.join(ROOT, f); text = open(full, encoding="utf8").read().split("\n")
    top = parents[-1]
    head = "\n".join(text[top["range"]["start"]["line"]: top["selectionRange"]["start"]["line"] + 1])
    if not re.search(r"derive\([^)]*(Serialize|Deserialize)", head): return ""
    a = s["range"]["start"]["line"]; own = "\n".join(text[a: s["selectionRange"]["start"]["line"] + 1])
    if re.search(r"serde\([^\]]*(rename\s*=|flatten|skip\b|skip\s*[,)])", own) or "untagged" in head: return ""
    style = re.search(r'rename_all\s*=\s*"([^"]+)"', head); style = style.group(1) if style else None
    wire = old
    variant = s["kind"] == 22
    if style:
        words = [w.lower() for w in (re.findall(r"[A-Z][a-z0-9]*", old) if variant else old.split("_"))]
        wire = {"lowercase": "".join(words) if variant else old, "UPPERCASE": "".join(words).upper() if variant else old.upper(), "snake_case": "_".join(words), "camelCase": words[0] + "".join(w.title() for w in words[1:]),
                "PascalCase": "".join(w.title() for w in words), "kebab-case": "-".join(words), "SCREAMING_SNAKE_CASE": "_".join(words).upper()}.get(style, old)
    n = s["selectionRange"]["start"]["line"]; indent = re.match(r"\s*", text[n]).group(0)
    text.insert(n, f'{indent}#[serde(rename = "{wire}")]')
    open(full, "w", encoding="utf8").write("\n".join(text))
    lsp.note("workspace/didChangeWatchedFiles", dict(changes=[dict(uri="file://" + full, type=2)])); settle()
    return f", wire name `{wire}` kept"
def comment_links(old, new, scope):
    """Renames `old` in backticks within comments of a folder."""
    n = 0
    for d, _, fs in os.walk(os.path.join(ROOT, scope)):
        for x in fs:
            if not x.endswith(".rs"): continue
            q = os.path.join(d, x); t = open(q, encoding="utf8").read()
            if old not in t: continue
            u = re.sub(r"(?m)^(\s*//.*)$", lambda m: re.sub(r"`((?:[A-Za-z_]\w*::)*)" + re.escape(old) + r"((?:::\w+)?(?:\(\))?)`", lambda k: "`" + k.group(1) + new + k.group(2) + "`", m.group(1)), t)
            if u != t:
                open(q, "w", encoding="utf8").write(u); n += 1
                lsp.note("workspace/didChangeWatchedFiles", dict(changes=[dict(uri="file://" + q, type=2)]))
    return n
def unique(name):
    """Whether no type of this name is declared any more, so that every mention meant the renamed one."""
    r = subprocess.run(["git", "grep", "-lwE", r"(struct|enum|trait|type|union) " + name], cwd=ROOT, capture_output=True, text=True)
    return not r.stdout.strip()
def local(f, p, ident, new):
    hits = find(f, p)
    if not hits: return "NOT FOUND"
    s = hits[0]; text = open(os.path.join(ROOT, f), "rb").read().split(b"\n")
    for n in range(s["selectionRange"]["start"]["line"], s["range"]["end"]["line"] + 1):
        code = text[n].split(b"//")[0]
        for k in re.finditer(rb"(?<![\w.\"])" + ident.encode() + rb"\b", code):
            m = lsp.call("textDocument/rename", dict(textDocument=dict(uri=uri(f)), position=dict(line=n, character=k.start()), newName=new))
            if m.get("result"):
                c, moved = apply(m["result"]); return f"{c} files (local)"
    return "NO LOCAL"
def rename(f, p, new):
    hits = find(f, p)
    if not hits: return "NOT FOUND"
    s = hits[0]
    if p.count("::") == 0 and len(hits) > 1: pass
    m = lsp.call("textDocument/rename", dict(textDocument=dict(uri=uri(f)), position=s["selectionRange"]["start"], newName=new))
    if "error" in m: return "ERROR " + m["error"]["message"]
    if not m["result"]: return "EMPTY"
    n, moved = apply(m["result"]); old = s["name"]; more = ""
    if s["kind"] in (8, 22) and s["up"]:
        up = s["up"]; again = [h for h in find(f, "::".join([u["name"] for u in up[-1:]] + [new]))]
        if again: more = serde_guard(f, again[0], again[0]["up"], old)
    elif s["kind"] != 8: 
        k = comment_links(old, new, "crates" if old[:1].isupper() and new != old and unique(old) else "/".join(f.split("/")[:2]))
        if k: more = f", comments of {k} files"
    return f"{n} files" + more + (f", moved {moved}" if moved else "") + (f" (of {len(hits)} hits)" if len(hits) > 1 else "")
def move(f, new):
    """The parent's `mod x;` is found and renamed."""
    d, b = os.path.split(f); old = b[:-3]
    for parent in ([d + ".rs"] if not d.endswith("/src") else []) + [d + "/lib.rs", d + "/main.rs", d + "/mod.rs"]:
        if os.path.exists(os.path.join(ROOT, parent)):
            for s in find(parent, old):
                if s["kind"] == 2:
                    m = lsp.call("textDocument/rename", dict(textDocument=dict(uri=uri(parent)), position=s["selectionRange"]["start"], newName=new))
                    if "error" in m: return "ERROR " + m["error"]["message"]
                    n, moved = apply(m["result"]); return f"{n} files, moved {len(moved)}"
    return "NO PARENT"
for line in open(SPEC):
    line = line.split("#")[0].strip()
    if not line: continue
    t = time.time()
    try:
        if line.startswith("MOVE "):
            f, new = re.match(r"MOVE (\S+) -> (\w+)$", line).groups(); r = move(f, new)
        else:
            f, p, new = re.match(r"(\S+) (\S+) -> (\w+)$", line).groups()
            r = local(f, *p.split("@"), new) if "@" in p else rename(f, p, new)
    except Exception as e: r = f"EXCEPTION {type(e).__name__} {e}"
    print(f"{time.time()-t:5.1f} s  {line}: {r}", flush=True)
lsp.req("shutdown", None); lsp.note("exit", None)
