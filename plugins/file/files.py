"""Files and folders, as far as the operator granted them: the sandbox sees no others."""
import fnmatch
import os

import toolkeep

MOST_BYTES = 10_000_000
MOST_LINES = 2_000
MOST_ENTRIES = 100
MOST_SEEN = 100_000


def _granted():
    folders = list(toolkeep.read_folders)
    if toolkeep.write_folder:
        folders.append(toolkeep.write_folder)
    return folders


def _place(path):
    """Where a path leads, links resolved. Raises OSError outside of the granted folders: the sandbox has files of
    its own, which are not the ones that a caller means."""
    folders = _granted()
    path = path or "."
    if not os.path.isabs(path) and folders:
        path = os.path.join(folders[0], path)
    place = os.path.realpath(path)
    for folder in map(os.path.realpath, folders):
        if place == folder or place.startswith(os.path.join(folder, "")):
            return place
    raise OSError(f"Path not allowed: {path} is in none of the granted folders ({', '.join(folders) or 'none'})")


def _failed(error):
    return {"success": False, "error": str(error)}


def read_file(path, start_line=None, end_line=None):
    try:
        place = _place(path)
        if not os.path.isfile(place):
            return _failed(f"no such file: {path}")
        with open(place, "rb") as file:
            data = file.read(MOST_BYTES + 1)
    except OSError as error:
        return _failed(error)
    if b"\0" in data[:8192]:
        return _failed(f"not a text file: {path}")
    cut = len(data) > MOST_BYTES
    lines = data[:MOST_BYTES].decode("utf-8", "replace").splitlines()
    first = (start_line or 1) - 1
    if first and first >= len(lines):
        return _failed(f"start_line is {start_line}, and the file has {len(lines)} lines")
    last = min(end_line or len(lines), len(lines), first + MOST_LINES)
    part = lines[first:last]
    numbered = "\n".join(f"{first + i + 1:>6}\t{line}" for i, line in enumerate(part))
    return {
        "success": True,
        "content": numbered,
        "file_path": place,
        "total_lines": len(lines),
        "lines_returned": len(part),
        "offset": first,
        "truncated": cut or last < min(end_line or len(lines), len(lines)),
    }


def _walk(place, recursive):
    for name in sorted(os.listdir(place)):
        full = os.path.join(place, name)
        yield full
        if recursive and os.path.isdir(full) and not os.path.islink(full):
            try:
                yield from _walk(full, True)
            except OSError:
                continue


def list_dir(path=None, pattern=None, recursive=False):
    entries, count = [], 0
    try:
        place = _place(path)
        if not os.path.isdir(place):
            return _failed(f"no such folder: {path}")
        for full in _walk(place, recursive):
            name = os.path.relpath(full, place)
            if pattern and not fnmatch.fnmatch(os.path.basename(full), pattern):
                continue
            count += 1
            if count > MOST_SEEN:
                break
            if len(entries) < MOST_ENTRIES:
                is_dir = os.path.isdir(full)
                size = 0 if is_dir or not os.path.exists(full) else os.path.getsize(full)
                entries.append({"name": name, "path": full, "type": "dir" if is_dir else "file", "size": size})
    except OSError as error:
        return _failed(error)
    return {
        "success": True,
        "entries": entries,
        "directory": place,
        "pattern": pattern,
        "total_count": count,
        "returned_count": len(entries),
        "truncated": count > len(entries),
    }
