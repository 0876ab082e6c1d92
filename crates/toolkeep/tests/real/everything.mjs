// The TypeScript SDK at `server-everything`, item by item.
//
//     node everything.mjs MODULES PREFIX stdio PROGRAM ARGS…    the server alone, over its pipes
//     node everything.mjs MODULES PREFIX http URL               behind an endpoint; the bearer key in
//                                                               TOOLKEEP_KEY
//
// MODULES is the folder of its packages. PREFIX stands before the names of tools and prompts. Prints
// what the client got as one JSON object: sections, and in each the items by the server's own names.

import { createRequire } from "node:module";

const [modules, prefix, kind, address, ...args] = process.argv.slice(2);
const load = (name) => createRequire(`${modules}/`)(name);
const { Client } = load("@modelcontextprotocol/sdk/client/index.js");
const { StdioClientTransport } = load("@modelcontextprotocol/sdk/client/stdio.js");
const { StreamableHTTPClientTransport } = load("@modelcontextprotocol/sdk/client/streamableHttp.js");
const types = load("@modelcontextprotocol/sdk/types.js");

const transport = () => {
  if (kind === "stdio") {
    return new StdioClientTransport({ command: address, args, env: { EVERYTHING: "both sides" }, stderr: "ignore" });
  }
  const requestInit = { headers: { Authorization: `Bearer ${process.env.TOOLKEEP_KEY}` } };
  return new StreamableHTTPClientTransport(new URL(address), { requestInit });
};

const capabilities = { sampling: {}, elicitation: { form: {}, url: {} }, roots: { listChanged: true } };
const client = new Client({ name: "everything", version: "1" }, { capabilities });

// What the server asked for in the course of the current call, and what it reported.
let asked = [];
const answers = [];
const logged = [];
const updated = [];
let listChanges = 0;
client.setRequestHandler(types.ElicitRequestSchema, async ({ params }) => {
  asked.push(["elicitation/create", params]);
  return answers.shift();
});
client.setRequestHandler(types.CreateMessageRequestSchema, async ({ params }) => {
  asked.push(["sampling/createMessage", params]);
  return { role: "assistant", content: { type: "text", text: "an answer of the model" }, model: "none" };
});
client.setRequestHandler(types.ListRootsRequestSchema, async () => ({
  roots: [{ uri: "file:///srv/one", name: "One" }, { uri: "file:///srv/two" }],
}));
client.setNotificationHandler(types.LoggingMessageNotificationSchema, ({ params }) => {
  logged.push(params);
});
client.setNotificationHandler(types.ResourceUpdatedNotificationSchema, ({ params }) => {
  updated.push(params.uri);
});
client.setNotificationHandler(types.ResourceListChangedNotificationSchema, () => {
  listChanges += 1;
});

// Waits for what a server sends by itself, each in its own time.
const until = async (what, condition) => {
  for (let tries = 0; tries < 1200; tries += 1) {
    const found = await condition();
    if (found) return found;
    await new Promise((done) => setTimeout(done, 25));
  }
  throw new Error(`never came: ${what}`);
};

// Times and random ids differ from call to call at the same server.
const TIME = /created at \d+:\d+:\d+(\s[AP]M)?/g;
const ID = /[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}/g;
const text = (it) => it.replace(TIME, "created at TIME").replace(ID, "ID");
const TASK = "io.modelcontextprotocol/related-task";
const masked = (value) => {
  if (typeof value === "string") return text(value);
  if (Array.isArray(value)) return value.map(masked);
  if (value === null || typeof value !== "object") return value;
  const member = ([key, it]) => {
    if (key === TASK) return [key, { taskId: "ID" }];
    if (key !== "blob") return [key, masked(it)];
    const plain = Buffer.from(it, "base64").toString("latin1");
    return [key, text(plain) === plain ? it : text(plain)];
  };
  return Object.fromEntries(Object.entries(value).map(member));
};

const seen = {};
const note = async (section, item, act) => {
  asked = [];
  let value;
  try {
    value = await act();
  } catch (error) {
    value = { error: { code: error.code, message: error.message, data: error.data } };
  }
  seen[section] ??= {};
  seen[section][item] = masked(asked.length ? { asked, value } : value);
};

const called = async (name, given, options) => {
  // The one way that also calls tools which a server may only run as tasks.
  const params = { name: prefix + name, arguments: given ?? {} };
  for await (const message of client.experimental.tasks.callToolStream(params, undefined, options)) {
    if (message.type === "error") throw message.error;
    if (message.type === "result") return message.result;
  }
  throw new Error("no result");
};

const every = async (list, member) => {
  const found = [];
  for (let cursor; ; ) {
    const page = await list(cursor ? { cursor } : {});
    found.push(...page[member]);
    cursor = page.nextCursor;
    if (!cursor) return found;
  }
};
const own = (named) => {
  const of = named.filter((it) => it.name.startsWith(prefix));
  return of.map((it) => ({ ...it, name: it.name.slice(prefix.length) }));
};
const noteAll = (section, items, key) => {
  seen[section] = Object.fromEntries(items.map((it) => [it[key], it]));
};

const calls = async (tools) => {
  const data = `data:text/plain;base64,${Buffer.from("to be packed ".repeat(20)).toString("base64")}`;
  const filled = { name: "Ada", email: "ada@example.com", integer: 7, check: true };
  const plain = [
    ["echo", { message: "grüße, \u{1f600} \"quoted\"\n" }],
    ["get-annotated-message", { messageType: "error", includeImage: true }],
    ["get-annotated-message", { messageType: "debug" }],
    ["get-env", {}],
    ["get-resource-links", { count: 4 }],
    ["get-resource-reference", { resourceType: "Text", resourceId: 3 }],
    ["get-resource-reference", { resourceType: "Blob", resourceId: 4 }],
    ["get-resource-reference", { resourceType: "Blob", resourceId: -1 }],
    ["get-roots-list", {}],
    ["get-structured-content", { location: "Chicago" }],
    ["get-sum", { a: 2, b: 40.5 }],
    ["get-tiny-image", {}],
    ["gzip-file-as-resource", { name: "packed.gz", data, outputType: "resource" }],
    ["gzip-file-as-resource", { name: "linked.gz", data, outputType: "resourceLink" }],
    ["trigger-sampling-request", { prompt: "What?", maxTokens: 20 }],
    ["trigger-elicitation-request", {}, { action: "accept", content: filled }],
    ["trigger-elicitation-request", {}, { action: "decline" }],
    ["trigger-elicitation-request", {}, { action: "cancel" }],
    ["trigger-url-elicitation", { url: "https://example.com/a", elicitationId: "one" }, { action: "accept" }],
    ["trigger-url-elicitation", { url: "https://example.com/b", elicitationId: "two" }, { action: "decline" }],
    ["trigger-url-elicitation", { url: "https://example.com/c", errorPath: true }],
    ["trigger-url-elicitation", { url: "https://example.com/c", errorPath: true }, { action: "accept" }],
    ["simulate-research-query", { topic: "hares" }],
    ["simulate-research-query", { topic: "python", ambiguous: true },
      { action: "accept", content: { interpretation: "snake" } }],
  ];
  for (const [at, [name, given, answer]] of plain.entries()) {
    if (answer) answers.push(answer);
    await note("calls", `${at} ${name}`, () => called(name, given));
  }
  await note("calls", "trigger-long-running-operation", async () => {
    const steps = [];
    // The SDK drops a report that it reads together with the result, so the last one may be missing.
    const onprogress = (step) => step.progress < step.total && steps.push(step);
    const result = await called("trigger-long-running-operation", { duration: 4, steps: 4 }, { onprogress });
    return { steps, result };
  });
  const toggles = ["toggle-simulated-logging", "toggle-subscriber-updates"];
  const untouched = tools.filter(({ name }) => !toggles.includes(name) &&
    !Object.keys(seen.calls).some((call) => call.endsWith(name)));
  seen.calls.untouched = untouched.map(({ name }) => name);
};

const prompts = async (all) => {
  const given = {
    "simple-prompt": [undefined],
    "args-prompt": [{ city: "Bath" }, { city: "Bath", state: "Maine" }],
    "completable-prompt": [{ department: "Sales", name: "Eve" }],
    "resource-prompt": [{ resourceType: "Text", resourceId: "2" }, { resourceType: "Blob", resourceId: "3" }],
  };
  for (const { name } of all) {
    for (const [at, values] of (given[name] ?? []).entries()) {
      const params = { name: prefix + name, arguments: values };
      await note("prompts fetched", `${name} ${at}`, () => client.getPrompt(params));
    }
  }
  seen["prompts fetched"].untouched = all.map(({ name }) => name).filter((name) => !given[name]);
};

const resources = async (listed, templates) => {
  for (const { uri } of listed) await note("resources read", uri, () => client.readResource({ uri }));
  for (const { uriTemplate } of templates) {
    const uri = uriTemplate.replace("{resourceId}", "12");
    await note("resources read", uri, () => client.readResource({ uri }));
  }
  // The link that a tool returned leads to a resource that is new in the list.
  const uri = "demo://resource/session/linked.gz";
  await note("resources read", uri, () => client.readResource({ uri }));
  await note("resources", uri, () => until("the new resource in the list", async () => {
    const all = await every((page) => client.listResources(page), "resources");
    return all.find((it) => it.uri === uri);
  }));
  await note("notifications", "resources/list_changed", () => until("a changed list", () => listChanges > 0));
};

const completions = async (templates) => {
  const prompt = (name) => ({ type: "ref/prompt", name: prefix + name });
  const asks = [
    ["department", prompt("completable-prompt"), { name: "department", value: "S" }],
    ["name", prompt("completable-prompt"), { name: "name", value: "" }, { arguments: { department: "Sales" } }],
    ["name without context", prompt("completable-prompt"), { name: "name", value: "" }],
    ["resourceType", prompt("resource-prompt"), { name: "resourceType", value: "" }],
    ["resourceId", prompt("resource-prompt"), { name: "resourceId", value: "7" }],
  ];
  for (const { uriTemplate } of templates) {
    const ref = { type: "ref/resource", uri: uriTemplate };
    asks.push([`${uriTemplate} 5`, ref, { name: "resourceId", value: "5" }]);
    asks.push([`${uriTemplate} x`, ref, { name: "resourceId", value: "x" }]);
  }
  for (const [item, ref, argument, context] of asks) {
    await note("completions", item, () => client.complete({ ref, argument, context }));
  }
};

const subscriptions = async (listed) => {
  const [first, second] = listed.map(({ uri }) => uri);
  const toggle = () => called("toggle-subscriber-updates");
  await note("subscriptions", "subscribe", () => client.subscribeResource({ uri: first }));
  await note("subscriptions", "started", toggle);
  await note("subscriptions", "an update", () => until("an update", () => updated.includes(first) && first));
  await note("subscriptions", "stopped", toggle);
  await note("subscriptions", "unsubscribe", () => client.unsubscribeResource({ uri: first }));
  await note("subscriptions", "subscribe to another", () => client.subscribeResource({ uri: second }));
  updated.length = 0;
  await note("subscriptions", "started again", toggle);
  await note("subscriptions", "updates of the other alone", () =>
    until("an update of the other", () => updated.includes(second) && [...new Set(updated)]));
  await note("subscriptions", "stopped again", toggle);
  await note("subscriptions", "unsubscribe from the other", () => client.unsubscribeResource({ uri: second }));
};

// Each start of the simulated logging sends one line, of a random level.
const logging = async (listed) => {
  const lines = () => logged.filter(({ data }) => /[ -]level[ -]message/.test(data));
  const toggle = () => called("toggle-simulated-logging");
  for (const level of ["emergency", "debug"]) {
    await note("logging", `the level ${level}`, () => client.setLoggingLevel(level));
    logged.length = 0;
    await note("logging", `a line of the level ${level}`, () => until("a line", async () => {
      await toggle();
      await toggle();
      return lines().some((line) => line.level === level);
    }));
    const levels = [...new Set(lines().map((line) => line.level))];
    await note("logging", `nothing below ${level}`, () => level === "debug" || levels);
    await note("logging", `the line of ${level}`, () => lines().find((line) => line.level === level));
  }
  await note("logging", "started", toggle);
  await note("logging", "stopped", toggle);
  // The server reports each subscription before it answers.
  const [{ uri }] = listed;
  logged.length = 0;
  await client.subscribeResource({ uri });
  await client.ping();
  await note("logging", "a line outside of calls", () =>
    logged.filter(({ data }) => /Received Subscribe/.test(data)));
};

await client.connect(transport());
seen.server = {
  info: client.getServerVersion(),
  instructions: client.getInstructions() ?? null,
  capabilities: client.getServerCapabilities(),
};
await note("server", "ping", () => client.ping());
const listed = {
  tools: own(await every((page) => client.listTools(page), "tools")),
  prompts: own(await every((page) => client.listPrompts(page), "prompts")),
  resources: await every((page) => client.listResources(page), "resources"),
  templates: await every((page) => client.listResourceTemplates(page), "resourceTemplates"),
};
noteAll("tools", listed.tools, "name");
noteAll("prompts", listed.prompts, "name");
noteAll("resources", listed.resources, "uri");
noteAll("templates", listed.templates, "uriTemplate");
await calls(listed.tools);
await prompts(listed.prompts);
await resources(listed.resources, listed.templates);
await completions(listed.templates);
await subscriptions(listed.resources);
await logging(listed.resources);
console.log(JSON.stringify(seen));
await client.close();
