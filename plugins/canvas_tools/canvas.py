"""Graphs as JSON Canvas 1.0 (jsoncanvas.org), and what people change in them.

A graph is `{"nodes": [{"id", "label", "kind"?, "confidence"?, "evidence"?: [text]}],
"edges": [{"from", "to", "relation"?}]}`, by its type: in a JSON file, or in SQLite in the tables
nodes(graph_type, id, label, kind, confidence), edges(graph_type, source, target, relation) and
evidence(graph_type, node, text).
"""
import json
import math
import os
import sqlite3

import toolkeep

MOST_BYTES = 16_000_000
MOST_CANVASES = 500
WIDTH, HEIGHT, GAP = 320, 140, 80
COLOURS = {"supported": "4", "confirmed": "4", "rejected": "1", "failed": "1", "failure": "1", "open": "3", "cause": "2"}


def _place(path, base=None):
    base = base or toolkeep.write_folder or "."
    return path if os.path.isabs(path) else os.path.normpath(os.path.join(base, path))


def _canvases():
    return _place(toolkeep.settings["canvas_directory"])


def _failed(error):
    return {"success": False, "error": str(error)}


def _read(place):
    with open(place, "rb") as file:
        data = file.read(MOST_BYTES + 1)
    if len(data) > MOST_BYTES:
        raise ValueError(f"{place} is longer than {MOST_BYTES} bytes")
    return json.loads(data)


def _graph(kind):
    database = toolkeep.settings["graph_database"]
    if not database:
        graphs = _read(_place(toolkeep.settings["graph_file"]))
        if kind not in graphs:
            raise ValueError(f"there is no graph of the type {kind!r}; there are: {', '.join(sorted(graphs)) or 'none'}")
        return graphs[kind]
    place = _place(database)
    if not os.path.isfile(place):
        raise ValueError(f"there is no database {place}")
    with sqlite3.connect(f"file:{place}?immutable=1", uri=True) as base:
        nodes = {
            row[0]: {"id": row[0], "label": row[1], "kind": row[2], "confidence": row[3], "evidence": []}
            for row in base.execute("SELECT id, label, kind, confidence FROM nodes WHERE graph_type = ? ORDER BY rowid", (kind,))
        }
        if not nodes:
            raise ValueError(f"there is no graph of the type {kind!r}")
        for node, text in base.execute("SELECT node, text FROM evidence WHERE graph_type = ? ORDER BY rowid", (kind,)):
            if node in nodes:
                nodes[node]["evidence"].append(text)
        edges = [
            {"from": row[0], "to": row[1], "relation": row[2]}
            for row in base.execute("SELECT source, target, relation FROM edges WHERE graph_type = ? ORDER BY rowid", (kind,))
        ]
    return {"nodes": list(nodes.values()), "edges": edges}


def _canvas(graph, with_evidence):
    nodes, edges = [], []
    across = max(1, math.ceil(math.sqrt(len(graph["nodes"]))))
    known = set()
    for index, node in enumerate(graph["nodes"]):
        text = str(node["label"])
        if node.get("confidence") is not None:
            text += f"\n\nconfidence {node['confidence']}"
        if with_evidence and node.get("evidence"):
            text += "\n\n" + "\n".join(f"- {line}" for line in node["evidence"])
        made = {
            "id": str(node["id"]), "type": "text", "text": text,
            "x": (index % across) * (WIDTH + GAP), "y": (index // across) * (HEIGHT + GAP),
            "width": WIDTH, "height": HEIGHT + 24 * (len(node.get("evidence") or []) if with_evidence else 0),
        }
        colour = COLOURS.get(str(node.get("kind", "")).lower())
        if colour:
            made["color"] = colour
        nodes.append(made)
        known.add(made["id"])
    for index, edge in enumerate(graph.get("edges", [])):
        source, target = str(edge["from"]), str(edge["to"])
        if source not in known or target not in known:
            raise ValueError(f"an edge leads from {source!r} to {target!r}, and one of them is not there")
        made = {"id": f"edge-{index}", "fromNode": source, "toNode": target}
        if edge.get("relation"):
            made["label"] = str(edge["relation"])
        edges.append(made)
    return {"nodes": nodes, "edges": edges}


def _baseline(place):
    folder, name = os.path.split(place)
    return os.path.join(folder, f".{name}.baseline")


def _write(place, canvas):
    os.makedirs(os.path.dirname(place), exist_ok=True)
    beside = place + ".part"
    with open(beside, "w", encoding="utf-8") as file:
        json.dump(canvas, file, ensure_ascii=False, indent=2)
    os.replace(beside, place)


def export_reasoning_canvas(graph_type="hypothesis", include_evidence=True, output_path=None):
    try:
        canvas = _canvas(_graph(graph_type), include_evidence)
        place = _place(output_path or f"{os.path.basename(graph_type)}.canvas", _canvases())
        _write(place, canvas)
        _write(_baseline(place), canvas)
    except (OSError, ValueError, KeyError, TypeError, sqlite3.Error) as error:
        return _failed(error)
    return {
        "success": True, "canvas_path": place, "graph_type": graph_type,
        "node_count": len(canvas["nodes"]), "edge_count": len(canvas["edges"]),
    }


def _by_id(canvas, what):
    items = canvas.get(what, [])
    if not isinstance(items, list) or not all(isinstance(it, dict) and "id" in it for it in items):
        raise ValueError(f"it is no JSON Canvas: '{what}' must be a list of objects with an id")
    return {it["id"]: it for it in items}


def _changes(before, after):
    changed = []
    for key in after:
        if key in before and before[key] != after[key]:
            fields = sorted(f for f in {*before[key], *after[key]} if before[key].get(f) != after[key].get(f))
            changed.append({"id": key, "fields": fields, "before": before[key], "after": after[key]})
    return {
        "added": [after[key] for key in after if key not in before],
        "removed": [before[key] for key in before if key not in after],
        "changed": changed,
    }


def import_canvas_edits(canvas_path, baseline_path=None):
    place = _place(canvas_path, _canvases())
    try:
        after = _read(place)
        before = _read(_place(baseline_path, _canvases()) if baseline_path else _baseline(place))
        if not isinstance(after, dict) or not isinstance(before, dict):
            raise ValueError("it is no JSON Canvas: it must be an object")
        nodes = _changes(_by_id(before, "nodes"), _by_id(after, "nodes"))
        edges = _changes(_by_id(before, "edges"), _by_id(after, "edges"))
    except (OSError, ValueError) as error:
        return _failed(error)
    count = sum(len(part) for change in (nodes, edges) for part in change.values())
    return {"success": True, "canvas_path": place, "nodes": nodes, "edges": edges, "change_count": count}


def list_canvases(directory=None):
    place = _place(directory, None) if directory else _canvases()
    try:
        names = sorted(name for name in os.listdir(place) if name.endswith(".canvas"))
        canvases = []
        for name in names[:MOST_CANVASES]:
            full = os.path.join(place, name)
            canvases.append({"name": name, "path": full, "size": os.path.getsize(full), "modified": int(os.path.getmtime(full))})
    except FileNotFoundError:
        if directory:
            return _failed(f"no such folder: {directory}")
        names, canvases = [], []
    except OSError as error:
        return _failed(error)
    return {"success": True, "canvases": canvases, "directory": place, "count": len(names), "truncated": len(names) > len(canvases)}
