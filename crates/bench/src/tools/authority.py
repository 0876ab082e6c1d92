# What the tools do, as Python does it: the arguments are read from a file, the answer is written to one.
import csv, io, json, sqlite3, sys, time

job, source, target = sys.argv[1:]
began = time.perf_counter()
with open(source, encoding="utf-8") as file:
    call = json.loads(file.read())
if job == "csv_to_json":
    answer = list(csv.DictReader(io.StringIO(call["csv_content"], newline="")))
else:
    connection = sqlite3.connect(":memory:")
    for name, rows in call["tables"].items():
        columns = list(rows[0])
        connection.execute(f"create table {name} ({', '.join(columns)})")
        marks = ", ".join("?" * len(columns))
        connection.executemany(f"insert into {name} values ({marks})", (tuple(row.values()) for row in rows))
    cursor = connection.execute(call["query"])
    names = [column[0] for column in cursor.description]
    answer = [dict(zip(names, row)) for row in cursor]
text = json.dumps(answer, ensure_ascii=False, separators=(",", ":"))
with open(target, "w", encoding="utf-8") as file:
    file.write(text)
print(time.perf_counter() - began)
