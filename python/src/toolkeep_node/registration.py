"""Tells a registry which tools this node has, that it lives, and that it goes."""

from __future__ import annotations

import json
import logging
import threading
import urllib.error
import urllib.parse
import urllib.request
from typing import Any, Dict, Optional, Tuple

from .plaintext import allowed, check_key_url
from .tools import ToolSet

log = logging.getLogger("toolkeep_node")

# Seconds that one request may take, and between two signs of life.
TIMEOUT = 5.0
BEAT = 5.0


class Registration:
    """Registers at the start, and again whenever the registry does not know this node."""

    def __init__(
        self,
        url: str,
        key: Optional[str],
        node_id: str,
        tools: ToolSet,
        insecure: Optional[bool] = None,
    ) -> None:
        """`insecure` sends the key over plain http beyond this machine as well (TOOLKEEP_INSECURE=1)."""
        if key:
            check_key_url(url, allowed(insecure, "TOOLKEEP_INSECURE"))
        self._url, self._key = url.rstrip("/"), key
        self._node_id, self._tools = node_id, tools
        # Whatever the environment names as a proxy has no business with the key.
        self._opener = urllib.request.build_opener(urllib.request.ProxyHandler({}), _Stay())
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._beat, name="toolkeep-beat", daemon=True)
        self.failed: Dict[str, str] = {}
        self._beats = True

    def start(self) -> None:
        self.register()
        self._thread.start()

    def register(self) -> bool:
        """Each tool; one that is refused holds up no other. Whether all are there."""
        before, self.failed = self.failed, {}
        for tool in self._tools.all():
            body = tool.described(self._node_id)
            status, answer = self._ask("POST", "/tools", body)
            if status in (200, 201):
                log.info("tool %s is registered", tool.name)
            else:
                why = self._reason(status, answer)
                # A node tries again every few seconds: the same reason is logged once.
                if before.get(tool.name) != why:
                    log.warning("tool %s is not registered: %s", tool.name, why)
                self.failed[tool.name] = why
        return not self.failed

    def _reason(self, status: int, answer: str) -> str:
        """Why the registry did not do it, and what to set where it is the key."""
        if status == 0:
            return f"{self._url} does not answer: {answer}"
        if status in (401, 403):
            wrong = f"no key ({status})" if not self._key else f"the key is refused ({status})"
            if status == 403:
                return f"{wrong}: {_said(answer)}"
            return f"{wrong}. Set TOOLKEEP_KEY to the node's key (`toolkeep node invite`)"
        return f"{status}: {_said(answer)}"

    @property
    def registered(self) -> int:
        """How many tools are registered."""
        return len(self._tools.all()) - len(self.failed)

    @property
    def url(self) -> str:
        """Where."""
        return self._url

    def stop(self) -> None:
        """Tells that it drains, then takes its tools back."""
        self._ended.set()
        if self._thread.is_alive():
            self._thread.join(TIMEOUT * 2)
        self._tell("draining")
        for tool in self._tools.all():
            node = tool.node_id or self._node_id
            status, answer = self._ask("DELETE", f"/tools/{_quoted(node)}/{_quoted(tool.name)}")
            if status not in (200, 404):
                log.warning("tool %s is not unregistered: %s: %s", tool.name, status, answer)

    def _beat(self) -> None:
        while not self._ended.wait(BEAT):
            unknown = self._tell("serving") == "unknown"
            if unknown or self.failed:
                self.register()

    def _tell(self, state: str) -> Optional[str]:
        """`unknown` where the registry does not know this node. Registries of the cluster tools have no such route."""
        if not self._node_id or not self._beats:
            return None
        path = f"/v1/nodes/{_quoted(self._node_id)}/heartbeat"
        status, answer = self._ask("POST", path, {"state": state})
        if status == 200:
            return "known"
        if status == 404:
            if "Node not found" in answer:
                return "unknown"
            self._beats = False
        return None

    def _ask(self, method: str, path: str, body: Any = None) -> Tuple[int, str]:
        """Status and text; 0 where there was no answer."""
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self._url + path, data, method=method)
        request.add_header("Content-Type", "application/json")
        if self._key:
            request.add_header("Authorization", f"Bearer {self._key}")
        try:
            with self._opener.open(request, timeout=TIMEOUT) as answer:
                return answer.status, answer.read(65536).decode("utf-8", "replace")
        except urllib.error.HTTPError as error:
            return error.code, error.read(65536).decode("utf-8", "replace")
        except (OSError, ValueError) as error:
            return 0, str(error)


class _Stay(urllib.request.HTTPRedirectHandler):
    """Follows nobody: the key is for the registry alone."""

    def redirect_request(self, *_: Any) -> None:
        return None


def _said(answer: str) -> str:
    """The words of an error, of the cluster tools' shape and of Toolkeep's own."""
    try:
        error = json.loads(answer)["error"]
    except (ValueError, LookupError, TypeError):
        return answer
    if isinstance(error, dict):
        error = error.get("message", answer)
    return str(error)


def _quoted(part: str) -> str:
    return urllib.parse.quote(part, safe="")
