"""The providers' own SDKs as judges of what Toolkeep writes for them.

    providers.py types URL            every list, against the SDKs' types
    providers.py round URL MODEL_URL  a whole round at a scripted model, through each SDK

The bearer key is in TOOLKEEP_KEY. Prints one JSON object for each format.
"""

import json
import os
import sys
import urllib.request

import anthropic
import ollama
import openai
from anthropic.types import MessageParam, ToolParam
from google import genai
from google.genai import types as google
from ollama._types import Message as OllamaMessage
from openai.types.chat import ChatCompletionFunctionToolParam, ChatCompletionMessageParam
from openai.types.responses import FunctionToolParam, ResponseInputItemParam
from pydantic import TypeAdapter

URL = sys.argv[2]
FORMATS = [
    "openai_chat",
    "openai_chat_strict",
    "openai_responses",
    "openai_responses_strict",
    "anthropic",
    "gemini",
    "gemini_per_tool",
    "ollama",
]
TOOLS = ["notes.append", "notes.read"]
PROMPT = "Note this."


def ask(path, body=None):
    data = None if body is None else json.dumps(body).encode()
    headers = {
        "Authorization": f"Bearer {os.environ['TOOLKEEP_KEY']}",
        "Content-Type": "application/json",
    }
    request = urllib.request.Request(URL + path, data=data, headers=headers)
    with urllib.request.urlopen(request, timeout=60) as answer:
        return json.load(answer)


def google_tool(tool):
    # What is not known to the SDK is refused by its models; a tool without declarations is none.
    assert google.Tool.model_validate(tool).function_declarations, tool


def ollama_tool(tool):
    read = ollama.Tool.model_validate(tool)
    shown = read.model_dump(exclude_none=True)["function"]["parameters"].get("properties", {})
    given = tool["function"]["parameters"].get("properties", {})
    assert shown.keys() == given.keys(), tool


CHECKS = {
    "openai_chat": TypeAdapter(ChatCompletionFunctionToolParam).validate_python,
    "openai_responses": TypeAdapter(FunctionToolParam).validate_python,
    "anthropic": TypeAdapter(ToolParam).validate_python,
    "gemini": google_tool,
    "gemini_per_tool": google_tool,
    "ollama": ollama_tool,
}


def each(tool):
    """The declarations of a list one by one, so that one that is refused is seen by itself."""
    if "functionDeclarations" in tool:
        for declaration in tool["functionDeclarations"]:
            yield {"functionDeclarations": [declaration]}
    else:
        yield tool


# What every judge has to refuse: a check that takes anything proves nothing.
BAD = {
    "openai_chat": {"type": "function", "function": {"description": "no name"}},
    "openai_responses": {"type": "function", "name": "no_strict", "parameters": {}},
    "anthropic": {"name": "no_schema"},
    "gemini": {"functionDeclarations": [{"name": "a", "parameters": {"type": ["string", "null"]}}]},
    "gemini_per_tool": {"functionDeclarations": [{"name": "a", "parametres": {}}]},
    "ollama": {"type": "function", "function": {"name": "a", "parameters": {"properties": [1]}}},
}


for form in ["openai_chat", "openai_responses"]:
    CHECKS[f"{form}_strict"], BAD[f"{form}_strict"] = CHECKS[form], BAD[form]


def refuses(form):
    try:
        CHECKS[form](BAD[form])
    except Exception:
        return True
    return False


def check_types():
    for form in FORMATS:
        assert refuses(form), f"{form}: the control was taken"
        count, left_out, refused, cursor = 0, 0, [], ""
        while cursor is not None:
            page = ask(f"/v1/tools?format={form}{cursor}")
            left_out += len(page["left_out"])
            tools = [one for tool in page["tools"] for one in each(tool)]
            for tool in tools:
                count += 1
                try:
                    CHECKS[form](tool)
                except Exception as error:
                    refused.append(f"{json.dumps(tool)[:2000]}: {error}"[:3000])
            assert len(tools) == len(page["names"]), "a name for each"
            cursor = page["next_cursor"] and f"&cursor={page['next_cursor']}"
        print(json.dumps({"format": form, "tools": count, "left_out": left_out, "refused": refused}))


def listed(form):
    return ask(f"/v1/tools?format={form}&allowed_tools={','.join(TOOLS)}")["tools"]


def answered(form, message):
    answer = ask(f"/v1/calls?format={form}", message)
    told = [(call["id"], call["tool"], call["status"]) for call in answer["calls"]]
    return answer["messages"], told


def openai_chat(model):
    client = openai.OpenAI(base_url=f"{model}/v1", api_key="none")
    conversation = [{"role": "user", "content": PROMPT}]
    say = lambda: client.chat.completions.create(
        model="m", messages=conversation, tools=listed("openai_chat")
    )
    first = say().choices[0].message.model_dump(exclude_none=True)
    messages, told = answered("openai_chat", first)
    conversation += [first, *messages]
    TypeAdapter(list[ChatCompletionMessageParam]).validate_python(messages)
    return told, messages, say().choices[0].message.content


def openai_responses(model):
    client = openai.OpenAI(base_url=f"{model}/v1", api_key="none")
    conversation = [{"role": "user", "content": PROMPT}]
    say = lambda: client.responses.create(
        model="m", input=conversation, tools=listed("openai_responses")
    )
    first = say().model_dump(mode="json", exclude_none=True)
    messages, told = answered("openai_responses", first)
    conversation += [*first["output"], *messages]
    TypeAdapter(list[ResponseInputItemParam]).validate_python(messages)
    return told, messages, say().output_text


def claude(model):
    client = anthropic.Anthropic(base_url=model, api_key="none")
    conversation = [{"role": "user", "content": PROMPT}]
    say = lambda: client.messages.create(
        model="m", max_tokens=100, messages=conversation, tools=listed("anthropic")
    )
    first = say().model_dump(mode="json", exclude_none=True)
    messages, told = answered("anthropic", first)
    conversation += [{"role": "assistant", "content": first["content"]}, *messages]
    TypeAdapter(list[MessageParam]).validate_python(messages)
    assert [block.get("is_error", False) for block in messages[0]["content"]] == [False, True]
    return told, messages, say().content[0].text


def gemini(form):
    def run(model):
        options = google.HttpOptions(base_url=model, api_version="v1beta")
        client = genai.Client(api_key="none", http_options=options)
        conversation = [google.Content(role="user", parts=[google.Part(text=PROMPT)])]
        config = google.GenerateContentConfig(
            tools=[google.Tool.model_validate(tool) for tool in listed(form)],
            automatic_function_calling=google.AutomaticFunctionCallingConfig(disable=True),
        )
        say = lambda: client.models.generate_content(
            model="m", contents=conversation, config=config
        )
        first = say().candidates[0].content
        # As its SDK prints it, and as it came over the wire.
        messages, told = answered(form, first.model_dump(mode="json", exclude_none=True))
        ours = [google.Content.model_validate(message) for message in messages]
        conversation += [first, *ours]
        kinds = [list(part.function_response.response) for part in ours[0].parts]
        assert kinds == [["output"], ["error"]], kinds
        return told, messages, say().text

    return run


def llama(model):
    client = ollama.Client(host=model)
    conversation = [{"role": "user", "content": PROMPT}]
    say = lambda: client.chat(model="m", messages=conversation, tools=listed("ollama"))
    first = say().message.model_dump(exclude_none=True)
    messages, told = answered("ollama", first)
    conversation += [first, *messages]
    for message in messages:
        OllamaMessage.model_validate(message)
    return told, messages, say().message.content


ROUNDS = {
    "openai_chat": openai_chat,
    "openai_responses": openai_responses,
    "anthropic": claude,
    "gemini": gemini("gemini"),
    "gemini_per_tool": gemini("gemini_per_tool"),
    "ollama": llama,
}


def check_rounds(model):
    for form, run in ROUNDS.items():
        told, messages, end = run(model)
        print(json.dumps({"format": form, "told": told, "messages": messages, "end": end}))


if sys.argv[1] == "types":
    check_types()
else:
    check_rounds(sys.argv[3])
