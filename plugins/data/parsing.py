"""JSON, read as strictly as the standard says."""
import json
import re

STEP = re.compile(r"\.?([^.\[\]]+)|\[(-?\d+)\]")
KINDS = [(bool, "boolean"), (dict, "object"), (list, "array"), (str, "string"), (int, "integer"), (float, "number")]


def _constant(word):
    raise ValueError(f"{word} is no JSON")


def _kind(value):
    return next((name for kind, name in KINDS if isinstance(value, kind)), "null")


def json_parse(content, extract_path=None):
    try:
        value = json.loads(content, parse_constant=_constant)
        at = 0
        while extract_path and at < len(extract_path):
            step = STEP.match(extract_path, at)
            if not step:
                raise ValueError(f"extract_path cannot be read at {extract_path[at:]!r}")
            name, place = step.groups()
            if name is not None:
                if not isinstance(value, dict) or name not in value:
                    raise ValueError(f"there is no `{name}` at {extract_path[:at] or 'the top'}")
                value = value[name]
            else:
                if not isinstance(value, list) or not -len(value) <= int(place) < len(value):
                    raise ValueError(f"there is no [{place}] at {extract_path[:at] or 'the top'}")
                value = value[int(place)]
            at = step.end()
    except (ValueError, RecursionError) as error:
        return {"success": False, "error": f"Invalid JSON: {error}" if isinstance(error, json.JSONDecodeError) else str(error)}
    return {"success": True, "data": value, "type": _kind(value)}
