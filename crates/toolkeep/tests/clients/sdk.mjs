// The TypeScript SDK against a server that has the fixture's tools.
//
//     node sdk.mjs MODULES URL      the folder of its packages, the address; the bearer key in
//                                   TOOLKEEP_KEY, where there is one
//
// Says what it saw as one JSON object.

import { createRequire } from "node:module";

const [modules, url] = process.argv.slice(2);
const load = (name) => createRequire(`${modules}/`)(name);
const { Client } = load("@modelcontextprotocol/sdk/client/index.js");
const { StreamableHTTPClientTransport } = load("@modelcontextprotocol/sdk/client/streamableHttp.js");
const types = load("@modelcontextprotocol/sdk/types.js");

const key = process.env.TOOLKEEP_KEY;
const requestInit = key ? { headers: { Authorization: `Bearer ${key}` } } : {};
const transport = new StreamableHTTPClientTransport(new URL(url), { requestInit });
const capabilities = { elicitation: {}, sampling: {} };
const client = new Client({ name: "matrix", version: "1" }, { capabilities });
client.setRequestHandler(types.ElicitRequestSchema, async () => ({
  action: "accept",
  content: { username: "ada", email: "ada@example.com" },
}));
client.setRequestHandler(types.CreateMessageRequestSchema, async () => ({
  role: "assistant",
  content: { type: "text", text: "an answer of the model" },
  model: "none",
}));
await client.connect(transport);

const call = (name, args, options) =>
  client.callTool({ name, arguments: args ?? {} }, undefined, options);
const text = (result) => result.content[0].text;
const count = async () => (await call("test_cancelled_calls")).structuredContent.cancelled;

const every = async (pages, key) => {
  const found = [];
  for (let cursor; ; ) {
    const page = await pages(cursor ? { cursor } : {});
    found.push(...page[key]);
    cursor = page.nextCursor;
    if (!cursor) return found;
  }
};

const seen = { protocol: transport.protocolVersion };
seen.tools = (await every((page) => client.listTools(page), "tools")).map((it) => it.name);
seen.text = text(await call("test_simple_text"));
seen.progress = [];
await call("test_tool_with_progress", {}, {
  onprogress: ({ progress, total }) => seen.progress.push([progress, total]),
});
seen.error = (await call("test_error_handling")).isError;
seen.large = text(await call("test_large_result", { bytes: 1_000_000 })).length;
seen.elicited = text(await call("test_elicitation", { message: "Who?" }));
seen.sampled = text(await call("test_sampling", { prompt: "What?" }));
seen.prompts = (await every((page) => client.listPrompts(page), "prompts")).map((it) => it.name);
const prompt = { name: "test_prompt_with_arguments", arguments: { arg1: "one", arg2: "two" } };
seen.prompt = (await client.getPrompt(prompt)).messages[0].content.text;
seen.resources = (await every((page) => client.listResources(page), "resources")).map((it) => it.uri);
const read = async (uri) => (await client.readResource({ uri })).contents[0].text;
seen.resource = await read("test://static-text");
seen.template = await read("test://template/7/data");
seen.nowhere = await read("test://nowhere").then(
  () => "answered",
  (error) => error.code,
);
seen.unknown = await call("no_such_tool").then(
  (result) => (result.isError ? "error result" : "answered"),
  (error) => error.code,
);
const before = await count();
const stop = new AbortController();
await call("test_wait", { seconds: 50 }, {
  signal: stop.signal,
  onprogress: () => stop.abort(),
}).catch(() => {});
for (let tries = 0; tries < 200 && !seen.cancelled; tries += 1) {
  seen.cancelled = (await count()) - before;
  if (!seen.cancelled) await new Promise((done) => setTimeout(done, 50));
}
console.log(JSON.stringify(seen));
await client.close();
