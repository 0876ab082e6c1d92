"""Pages and searches. Toolkeep makes each request, and only to hosts that the operator granted."""
import html.parser
import json
import time
import urllib.parse

import toolkeep

HOPS = 5
QUIET = {"script", "style", "noscript", "template", "svg", "head"}
BREAKS = {"p", "div", "br", "li", "tr", "h1", "h2", "h3", "h4", "h5", "h6", "pre", "section", "article", "td"}


class _Text(html.parser.HTMLParser):
    def __init__(self):
        super().__init__()
        self.parts, self.quiet = [], 0

    def handle_starttag(self, tag, attrs):
        self.quiet += tag in QUIET
        if tag in BREAKS:
            self.parts.append("\n")

    def handle_endtag(self, tag):
        if tag in QUIET and self.quiet:
            self.quiet -= 1

    def handle_data(self, data):
        if not self.quiet:
            self.parts.append(data)


def _text(page):
    reader = _Text()
    reader.feed(page)
    lines = (" ".join(line.split()) for line in "".join(reader.parts).splitlines())
    return "\n".join(line for line in lines if line)


class _Results(html.parser.HTMLParser):
    """DuckDuckGo's page: links of class result__a, texts of class result__snippet."""

    def __init__(self):
        super().__init__()
        self.results, self.into = [], None

    def handle_starttag(self, tag, attrs):
        attrs = dict(attrs)
        classes = (attrs.get("class") or "").split()
        if tag == "a" and "result__a" in classes:
            url = attrs.get("href") or ""
            query = urllib.parse.parse_qs(urllib.parse.urlsplit(url).query)
            self.results.append({"title": "", "url": query.get("uddg", [url])[0], "snippet": ""})
            self.into = "title"
        elif "result__snippet" in classes and self.results:
            self.into = "snippet"

    def handle_endtag(self, tag):
        if tag in ("a", "div", "td"):
            self.into = None

    def handle_data(self, data):
        if self.into:
            self.results[-1][self.into] += data


def _ask(url, headers=None):
    for _ in range(HOPS):
        answer = toolkeep.request("GET", url, headers=headers)
        place = answer.headers.get("location")
        if answer.status not in (301, 302, 303, 307, 308) or not place:
            return url, answer
        url = urllib.parse.urljoin(url, place)
    raise OSError(f"more than {HOPS} redirects")


def _trust(url, settings):
    host = (urllib.parse.urlsplit(url).hostname or "").lower()
    known = [domain.lower() for domain in settings["trusted_domains"]]
    return "trusted" if any(host == it or host.endswith("." + it) for it in known) else "unknown"


def _failed(error, began, **more):
    return {"success": False, "error": str(error), "elapsed_ms": _since(began), **more}


def _since(began):
    return int((time.monotonic() - began) * 1000)


def fetch_docs(url, max_length=20000, check_trust=True, settings=None):
    began = time.monotonic()
    if urllib.parse.urlsplit(url).scheme not in ("http", "https"):
        return _failed("only http and https are fetched", began, url=url)
    try:
        final, answer = _ask(url)
    except OSError as error:
        return _failed(error, began, url=url)
    if answer.status >= 400:
        return _failed(f"HTTP {answer.status}", began, url=final)
    kind = answer.headers.get("content-type", "")
    text = _text(answer.text) if "html" in kind else answer.text
    return {
        "success": True,
        "content": text[:max_length],
        "url": final,
        "trust_level": _trust(final, settings) if check_trust else "unchecked",
        "elapsed_ms": _since(began),
        "truncated": answer.truncated or len(text) > max_length,
    }


def web_search(query, max_results=5, settings=None):
    began = time.monotonic()
    if not query.strip():
        return _failed("query is empty", began, query=query)
    base = settings["search_url"]
    duck = "duckduckgo" in (urllib.parse.urlsplit(base).hostname or "") or base.endswith("/html/")
    asked = {"q": query} if duck else {"q": query, "format": "json"}
    url = base + ("&" if "?" in base else "?") + urllib.parse.urlencode(asked)
    try:
        _, answer = _ask(url)
        if answer.status >= 400:
            raise OSError(f"HTTP {answer.status}")
        if duck:
            reader = _Results()
            reader.feed(answer.text)
            found = reader.results
        else:
            found = [
                {"title": it.get("title", ""), "url": it.get("url", ""), "snippet": it.get("content", "")}
                for it in json.loads(answer.text)["results"]
            ]
    except (OSError, ValueError, KeyError, TypeError) as error:
        return _failed(error, began, query=query)
    results = [{key: " ".join(value.split()) for key, value in it.items()} for it in found[:max_results]]
    return {
        "success": True,
        "results": results,
        "query": query,
        "result_count": len(results),
        "elapsed_ms": _since(began),
        "backend": "duckduckgo" if duck else "searxng",
    }
