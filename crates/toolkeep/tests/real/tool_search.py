"""The providers' own tool search through their SDKs, at a scripted model.

    tool_search.py URL MODEL_URL

The bearer key is in TOOLKEEP_KEY. Prints one JSON object for each search.
"""

import json
import os
import sys
import urllib.request

import anthropic
import openai
from anthropic.types import MessageParam, ToolUnionParam
from openai.types.responses import ResponseInputItemParam, ToolParam
from pydantic import TypeAdapter

URL, MODEL = sys.argv[1:]
PROMPT = "Add a note, please."
OPENAI = openai.OpenAI(base_url=f"{MODEL}/v1", api_key="none", max_retries=0)
CLAUDE = anthropic.Anthropic(base_url=MODEL, api_key="none", max_retries=0)


def ask(path, body=None):
    data = None if body is None else json.dumps(body).encode()
    headers = {
        "Authorization": f"Bearer {os.environ['TOOLKEEP_KEY']}",
        "Content-Type": "application/json",
    }
    request = urllib.request.Request(URL + path, data=data, headers=headers)
    with urllib.request.urlopen(request, timeout=60) as answer:
        return json.load(answer)


def say_openai(conversation, tools):
    answer = OPENAI.responses.create(model="m", input=conversation, tools=tools)
    return answer.model_dump(mode="json", exclude_none=True), answer.output_text


def say_claude(conversation, tools):
    answer = CLAUDE.messages.create(model="m", max_tokens=100, messages=conversation, tools=tools)
    texts = [block.text for block in answer.content if block.type == "text"]
    return answer.model_dump(mode="json", exclude_none=True), "".join(texts)


def openai_turn(answer):
    return answer["output"]


def claude_turn(answer):
    return [{"role": "assistant", "content": answer["content"]}]


PROVIDERS = {
    "openai_responses": (say_openai, openai_turn, ToolParam, ResponseInputItemParam),
    "openai_responses_strict": (say_openai, openai_turn, ToolParam, ResponseInputItemParam),
    "anthropic": (say_claude, claude_turn, ToolUnionParam, MessageParam),
}


def refuses(say, conversation, tools):
    try:
        say(conversation, tools)
    except (openai.BadRequestError, anthropic.BadRequestError) as error:
        return str(error)
    raise AssertionError("a request was taken that the provider refuses")


def round(form, search):
    """A conversation until the model has no request left."""
    say, turn, tool_type, message_type = PROVIDERS[form]
    calls_path = f"/v1/calls?format={form}" + ("&search=toolkeep" if search == "toolkeep" else "")
    conversation = [{"role": "user", "content": PROMPT}]
    seen = {"format": form, "search": search, "calls": [], "searches": []}
    for _ in range(5):
        tools = ask(f"/v1/tools?format={form}&search={search}")["tools"]
        TypeAdapter(list[tool_type]).validate_python(tools)
        answer, text = say(conversation, tools)
        conversation += turn(answer)
        came = ask(calls_path, answer)
        if not came["messages"]:
            return seen | {"end": text, "tools": tools}, conversation
        TypeAdapter(list[message_type]).validate_python(came["messages"])
        seen["calls"] += [(call["tool"], call["status"]) for call in came["calls"]]
        seen["searches"] += came.get("searches", [])
        conversation += came["messages"]
    raise AssertionError(f"no end: {conversation}")


def controls(form, conversation, tools):
    """What the provider refuses is refused, so that the rounds prove something."""
    say = PROVIDERS[form][0]
    if form == "anthropic":
        search, *deferred = tools
        yield refuses(say, conversation, deferred)
        unknown = json.loads(json.dumps(conversation).replace("notes_append", "notes_add"))
        yield refuses(say, unknown, tools)
    else:
        bare = [{k: v for k, v in item.items() if k != "namespace"} for item in conversation]
        yield refuses(say, bare, tools)
        yield refuses(say, conversation, [tool for tool in tools if tool["type"] != "tool_search"])


for form, search in [
    ("openai_responses", "provider"),
    ("openai_responses_strict", "provider"),
    ("openai_responses", "toolkeep"),
    ("anthropic", "provider"),
    ("anthropic", "provider_regex"),
    ("anthropic", "toolkeep"),
]:
    seen, conversation = round(form, search)
    if search == "provider":
        seen["refused"] = list(controls(form, conversation, seen["tools"]))
    print(json.dumps(seen | {"tools": len(seen["tools"])}))
