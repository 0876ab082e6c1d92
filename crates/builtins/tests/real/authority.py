"""Makes files in the folder it is given, and prints a line of JSON for each call: the tool, its arguments, and
what Python itself, its modules, py7zr, ruff, git or sh say the answer is. `pointer` names the part that is compared.
With the word `verify` behind the folder it reads what the tools have written there, and says what is not as asked."""

import base64, csv, datetime, io, json, os, random, sqlite3, subprocess, sys, tarfile, zipfile, zoneinfo
import jmespath, py7zr

WORK = sys.argv[1]
BIN = os.path.dirname(sys.executable)
chance = random.Random(7)


def say(tool, library, authority, args, expect, pointer=None):
    case = {"tool": tool, "library": library, "authority": authority, "args": args, "expect": expect}
    if pointer is not None:
        case["pointer"] = pointer
    print(json.dumps(case))


def put(name, content):
    path = os.path.join(WORK, name)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "wb") as file:
        file.write(content)
    return path


ALPHABET = ["a", "ß", "世", "🙂", ",", ";", '"', "\n", " ", "x", "0", "-"]
texts = random.Random(9)
WRITTEN = {f"written/{number}": "".join(texts.choices(ALPHABET, k=texts.randint(0, 400))) for number in range(20)}
if sys.argv[2:] == ["verify"]:
    for path, text in WRITTEN.items():
        with open(os.path.join(WORK, path), encoding="utf-8", newline="") as file:
            assert file.read() == text, path
    sys.exit()
for path, text in WRITTEN.items():
    say("write_file", "guard", "Python open", {"path": path, "content": text}, len(text.encode()), "/bytes_written")

# csv
for number in range(60):
    header = [f"h{column}" for column in range(chance.randint(1, 5))]
    rows = [["".join(chance.choices(ALPHABET, k=chance.randint(1, 8))) for _ in header] for _ in range(chance.randint(0, 6))]
    delimiter = chance.choice([",", ";", "\t", "|"])
    out = io.StringIO()
    csv.writer(out, delimiter=delimiter).writerows([header, *rows])
    expect = list(csv.DictReader(io.StringIO(out.getvalue(), newline=""), delimiter=delimiter))
    args = {"csv_content": out.getvalue(), "delimiter": delimiter, "numbers": False}
    say("csv_to_json", "csv", "Python csv.DictReader", args, expect)
for number in range(60):
    keys = ["k", "l", "m"]
    rows = [{key: "".join(chance.choices(ALPHABET, k=chance.randint(1, 6))) for key in keys} for _ in range(chance.randint(1, 5))]
    out = io.StringIO()
    writer = csv.DictWriter(out, keys)
    writer.writeheader()
    writer.writerows(rows)
    say("json_to_csv", "csv", "Python csv.DictWriter", {"data": rows}, out.getvalue())

# JMESPath
DATA = {"people": [{"name": name, "age": age, "tags": ["x", name]} for name, age in [("Ann", 41), ("Bo", 29), ("Cy", 35)]], "n": [3, 1, 2]}
for query in ["people[?age > `30`].name", "sort(n)", "people[*].tags[0]", "max_by(people, &age).name", "n[::-1]", "people[].tags[]",
              "length(people)", "{a: n[0], b: people[1].name}", "people[?contains(tags, 'Bo')] | [0]", "missing.key", "sum(n)", "sort(keys(@))",
              "join('-', people[*].name)", "reverse(sort_by(people, &age))[*].name", "to_string(n)", "not_null(x, n[1])", "type(people)",
              "people[1:]", "map(&age, people)", "n[?@ > `1`]"]:
    say("json_query", "jmespath", "jmespath of PyPI", {"data": DATA, "query": query}, jmespath.search(query, DATA))

# SQL
VALUES = [None, 0, 1, -7, 2**40, 0.5, -1.25e10, "", "a", "ß 世", "it's", "10", "9"]
SQL = ["SELECT * FROM t ORDER BY rowid", "SELECT a, count(*) AS n, sum(b) AS s FROM t GROUP BY a ORDER BY a", "SELECT typeof(a) AS x, typeof(b) AS y FROM t",
       "SELECT t.a, u.c FROM t JOIN u ON t.a = u.a ORDER BY t.rowid, u.rowid", "SELECT a, row_number() OVER (ORDER BY b, rowid) AS r FROM t",
       "SELECT upper(a) AS x, length(a) AS l, substr(a, 1, 2) AS s FROM t", "SELECT max(a) AS x, min(b) AS y, avg(b) AS z, group_concat(a, '|') AS g FROM t",
       "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 20) SELECT sum(i) AS s FROM n",
       "SELECT a, b FROM t WHERE b > 0 OR a IS NULL ORDER BY b DESC, rowid", "SELECT DISTINCT b FROM t ORDER BY b", "SELECT a || '-' || b AS x FROM t",
       "SELECT CASE WHEN b IS NULL THEN 'none' WHEN b > 0 THEN 'more' ELSE 'less' END AS x FROM t", "SELECT json_extract('{\"k\": [1, 2]}', '$.k[1]') AS x",
       "SELECT a FROM t UNION SELECT a FROM u ORDER BY 1", "SELECT round(b, 1) AS x, abs(b) AS y FROM t", "SELECT count(*) AS n FROM t, u", "VALUES (1, 'x'), (2, 'y')"]
for query in SQL:
    for number in range(6):
        tables = {name: [dict(zip(keys, chance.choices(VALUES, k=2))) for _ in range(chance.randint(1, 8))] for name, keys in [("t", "ab"), ("u", "ac")]}
        connection = sqlite3.connect(":memory:")
        for name, rows in tables.items():
            connection.execute(f"CREATE TABLE {name} ({', '.join(rows[0])})")
            connection.executemany(f"INSERT INTO {name} VALUES (?, ?)", [tuple(row.values()) for row in rows])
        cursor = connection.execute(query)
        names = [column[0] for column in cursor.description]
        say("sql_query", "rusqlite", "Python sqlite3", {"query": query, "tables": tables}, [dict(zip(names, row)) for row in cursor])

# Python
PURE = ["1 + 2 * 3", "7 // -2", "7 % -3", "-7 // 2", "2 ** 0.5", "divmod(17, 5)", "1e3 / 7", "round(2.5)", "round(2.675, 2)", "int('ff', 16)", "abs(-3.5)",
        "sum(i * i for i in range(10))", "[x for x in range(20) if x % 3 == 0]", "{k: v for k, v in zip('abc', range(3))}", "sorted({3, 1, 2})", "'abc'[::-1]",
        "'a,b,,c'.split(',')", "'-'.join(['x', 'y'])", "'Straße'.upper()", "'  x '.strip()", "f'{3.14159:.2f}|{42:>5}|{255:x}'", "'%05.1f' % 2.25", "'ß'.encode().hex()",
        "max([3, 1, 2], key=lambda x: -x)", "any([0, '', 1])", "all([])", "list(map(str, range(3)))", "list(zip([1, 2], 'ab'))", "list(enumerate('ab', 1))",
        "(lambda x, *y: x + sum(y))(1, 2, 3)", "[1, 2, 3][-2:]", "not [] and 1", "None is None", "1 < 2 < 3", "'a' in {'a': 1}", "bool('0')", "0.1 + 0.2", "1_000 * 3",
        "[[j for j in range(i)] for i in range(4)]", "'x' * 3 + 'y'", "len('世界🙂')", "ord('ß')", "chr(8364)", "min('b', 'a')", "tuple([1, 2]) + (3,)", "'abc'.find('c')",
        "'Hello World'.swapcase()", "'a\\tb'.expandtabs(4)", "list(reversed([1, 2]))", "'{:,}'.format(1234567)", "bin(10) + oct(8) + hex(255)", "5 & 3 | 8 ^ 2", "~5 << 2",
        "import math\nmath.gcd(84, 30)", "import math\n[math.floor(-1.5), math.ceil(1.2), math.hypot(3, 4)]", "import json\njson.loads('{\"a\": [1, 2.5, null]}')",
        "import re\nre.findall(r'\\d+', 'a1b22c333')", "import re\nre.sub('a+', 'x', 'caaandaab')", "def f(n):\n    return 1 if n < 2 else n * f(n - 1)\nf(15)",
        "x = 0\nfor i in range(5):\n    x += i\nx", "try:\n    1 / 0\nexcept ZeroDivisionError as e:\n    r = str(e)\nr"]
for number in range(80):
    numbers = [str(chance.choice([chance.randint(-99, 99), round(chance.uniform(-9, 9), 3)])) for _ in range(5)]
    text = f"({numbers[0]})"
    for term in numbers[1:]:
        text = f"({text} {chance.choice(['+', '-', '*', '<', '=='])} ({term}))"
    PURE.append(text)
for code in PURE:
    lines = code.split("\n")
    names = {}
    exec("\n".join(lines[:-1]), names)
    say("python_eval", "monty", "CPython", {"expression": code}, json.loads(json.dumps(eval(lines[-1], names))))

# a shell
SHELL = ["printf 'a\\nb\\n' | sort -r", "seq 1 10 | awk '{s += $1} END {print s}'", "exit 3", "echo err >&2; exit 1", "for i in 1 2 3; do echo $i; done", "cat <<X\nhere $((6 * 7))\nX",
         "false || echo no", "true && echo yes", "echo 'größe' | wc -c", "x=5; echo ${x}px", "echo a b c | cut -d' ' -f2", "test -f nothing; echo $?", "printf '%s' \"$0\"",
         "echo one > made && cat made && rm made", "kill -9 $$", "printf 'x%.0s' 1 2 3", "tr a-z A-Z < text/0 | head -c 0; echo ok", "sed 's/b/B/' <<< 'abc' 2>/dev/null || echo dash",
         "echo $(echo nested)", "set -- a b; echo $#", "ls bytes | sort -n | tail -1", "read x </dev/null; echo $?", "(exit 4); echo $?", "command -v nothing-there", "no-such-program"]

# files
for number in range(20):
    content = chance.randbytes(chance.randint(0, 3000))
    put(f"bytes/{number}", content)
    args = {"path": f"bytes/{number}", "encoding": "base64"}
    say("read_file", "guard", "Python open", args, base64.b64encode(content).decode(), "/content")
    text = "".join(chance.choices(ALPHABET, k=50))
    put(f"text/{number}", text.encode())
    say("read_file", "guard", "Python open", {"path": f"text/{number}"}, text, "/content")
for path, recursive in [("bytes", False), ("text", False)]:
    names = sorted(os.listdir(os.path.join(WORK, path)))
    for at, name in enumerate(names):
        args = {"path": path, "recursive": recursive}
        say("list_directory", "guard", "Python os.listdir", args, name, f"/{at}/name")
        say("list_directory", "guard", "Python os.stat", args, os.stat(os.path.join(WORK, path, name)).st_size, f"/{at}/size")

for command in SHELL:
    ran = subprocess.run(["/bin/sh", "-c", command], cwd=WORK, capture_output=True, stdin=subprocess.DEVNULL)
    say("run_shell", "guard", "/bin/sh", {"command": command}, ran.stdout.decode(), "/stdout")
    say("run_shell", "guard", "/bin/sh", {"command": command}, ran.returncode, "/returncode")

# dates: the clock of the test stands
NOW = datetime.datetime.fromtimestamp(1782945015.25, datetime.timezone.utc)
for zone in ["UTC", "Europe/Berlin", "Asia/Kathmandu", "America/New_York", "Pacific/Chatham", "Australia/Lord_Howe", "Africa/Casablanca"]:
    local = NOW.astimezone(zoneinfo.ZoneInfo(zone))
    date = {"date": local.strftime("%Y-%m-%d"), "weekday": local.strftime("%A"), "year": local.year, "month": local.month, "day": local.day}
    say("get_current_date", "jiff", "Python zoneinfo", {"timezone": zone}, date)
    say("get_current_time", "jiff", "Python zoneinfo", {"timezone": zone}, local.replace(microsecond=0).isoformat(), "/datetime")
    say("get_current_datetime", "jiff", "Python zoneinfo", {"timezone": zone}, local.strftime("%H:%M:%S"), "/time")

# archives
FILES = {"docs/one.md": "# One\ntext\n## Two\nneedle here\n".encode(), "größe.txt": "zwölf\n".encode(), "deep/a/b/c.bin": chance.randbytes(5000),
         "empty": b"", "long/" + "n" * 120 + ".txt": b"long name"}


def zipped(name, method):
    with zipfile.ZipFile(os.path.join(WORK, name), "w", method) as archive:
        for path, content in FILES.items():
            archive.writestr(path, content)
    with zipfile.ZipFile(os.path.join(WORK, name)) as archive:
        return {info.filename: archive.read(info) for info in archive.infolist()}


def tarred(name, mode, form):
    with tarfile.open(os.path.join(WORK, name), mode, format=form) as archive:
        for path, content in FILES.items():
            info = tarfile.TarInfo(path)
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
    with tarfile.open(os.path.join(WORK, name)) as archive:
        return {info.name: archive.extractfile(info).read() for info in archive}


def sevened(name, filters=None):
    with py7zr.SevenZipFile(os.path.join(WORK, name), "w", filters=filters) as archive:
        for path, content in FILES.items():
            archive.writestr(content, path)
    return FILES


def zstd(name):
    try:
        from backports import zstd as packer
    except ImportError:
        from compression import zstd as packer
    plain = io.BytesIO()
    with tarfile.open(fileobj=plain, mode="w") as archive:
        for path, content in FILES.items():
            info = tarfile.TarInfo(path)
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
    put(name, packer.compress(plain.getvalue()))
    return FILES


ARCHIVES = [
    ("z1.zip", "zip", "Python zipfile", zipped("z1.zip", zipfile.ZIP_DEFLATED)),
    ("z2.zip", "zip", "Python zipfile", zipped("z2.zip", zipfile.ZIP_STORED)),
    ("z3.zip", "zip, bzip2", "Python zipfile", zipped("z3.zip", zipfile.ZIP_BZIP2)),
    ("t1.tar", "tar", "Python tarfile", tarred("t1.tar", "w", tarfile.PAX_FORMAT)),
    ("t2.tar", "tar", "Python tarfile", tarred("t2.tar", "w", tarfile.GNU_FORMAT)),
    ("t3.tar.gz", "tar, flate2", "Python tarfile, gzip", tarred("t3.tar.gz", "w:gz", tarfile.PAX_FORMAT)),
    ("t4.tar.bz2", "tar, bzip2", "Python tarfile, bz2", tarred("t4.tar.bz2", "w:bz2", tarfile.PAX_FORMAT)),
    ("t5.tar.xz", "tar, lzma-rust2", "Python tarfile, lzma", tarred("t5.tar.xz", "w:xz", tarfile.PAX_FORMAT)),
    ("t6.tar.zst", "tar, ruzstd", "zstd of PyPI", zstd("t6.tar.zst")),
    ("s1.7z", "sevenz-rust2", "py7zr", sevened("s1.7z")),
    ("s2.7z", "sevenz-rust2", "py7zr", sevened("s2.7z", [{"id": py7zr.FILTER_LZMA}])),
    ("s3.7z", "sevenz-rust2", "py7zr", sevened("s3.7z", [{"id": py7zr.FILTER_BZIP2}])),
    ("s4.7z", "sevenz-rust2", "py7zr", sevened("s4.7z", [{"id": py7zr.FILTER_COPY}])),
]
for name, library, authority, held in ARCHIVES:
    say("archive_open", library, authority, {"path": name}, len(held), "/total_files")
    say("archive_open", library, authority, {"path": name}, sum(map(len, held.values())), "/total_bytes")
    for path, content in held.items():
        args = {"archive_name": name, "filename": path, "encoding": "base64"}
        say("archive_file", library, authority, args, base64.b64encode(content).decode())
    say("archive_search", library, authority, {"archive_name": name, "query": "needle"}, 4, "/0/line")
    say("archive_extract", library, authority, {"archive_name": name, "into": "out-" + name}, len(held), "/extracted")
    for path, content in held.items():
        args = {"path": f"out-{name}/{path}", "encoding": "base64"}
        print(json.dumps({"tool": "read_file", "library": "guard", "authority": "what archive_extract wrote, " + authority,
                          "args": args, "expect": base64.b64encode(content).decode(), "pointer": "/content"}))

# git
REPO = os.path.join(WORK, "repo")


def git(*args):
    clean = {"PATH": os.environ["PATH"], "HOME": WORK, "GIT_CONFIG_NOSYSTEM": "1"}
    return subprocess.run(["git", "-C", REPO, "-c", "user.name=a", "-c", "user.email=a@b", *args], check=True, capture_output=True, env=clean).stdout.decode()


os.makedirs(REPO)
git("init", "-q", "-b", "main")
put("repo/.gitignore", b"ignored\n")
for name in ["same", "changed", "gone", "both", "sub/x"]:
    put("repo/" + name, name.encode())
git("add", ".")
git("commit", "-q", "-m", "first")
put("repo/changed", b"other")
put("repo/both", b"staged")
git("add", "both")
put("repo/both", b"and changed")
put("repo/new", b"new")
git("add", "new")
put("repo/untracked/deep", b"x")
put("repo/ignored", b"x")
os.remove(os.path.join(REPO, "gone"))
modified, staged, untracked = [], [], []
for line in git("status", "--porcelain=v1", "-uall", "--no-renames").splitlines():
    index, tree, path = line[0], line[1], line[3:]
    if line.startswith("??"):
        untracked.append(path)
        continue
    if index != " ":
        staged.append(path)
    if tree != " ":
        modified.append(path)
for key, expect in [("branch", "main"), ("modified", sorted(modified)), ("staged", sorted(staged)), ("untracked", sorted(untracked))]:
    say("git_status", "gix", "git status", {"repo_path": "repo"}, expect, "/" + key)

# ruff
SELECT = "--select=E,W,F,B,UP,I"
for code in ["import os\nx = 1\n", "def f(:\n", "x = 1\n", "import sys, os\nprint(os)\n", "if x == None:\n    pass\n", "def f(a=[]):\n    return a\n"]:
    ran = subprocess.run([BIN + "/ruff", "check", "--isolated", "--no-cache", SELECT, "--output-format=json", "-"], input=code, capture_output=True, text=True)
    issues = [{"code": it["code"] if it["code"] not in (None, "invalid-syntax") else "E999", "message": it["message"],
               "line": it["location"]["row"], "column": it["location"]["column"]} for it in json.loads(ran.stdout)]
    say("lint_python", "ruff", "ruff", {"code": code}, issues, "/issues")
    fixed = subprocess.run([BIN + "/ruff", "check", "--isolated", "--no-cache", SELECT, "--fix-only", "--quiet", "-"], input=code, capture_output=True, text=True)
    say("lint_python", "ruff", "ruff", {"code": code, "fix": True}, fixed.stdout, "/fixed_code")
