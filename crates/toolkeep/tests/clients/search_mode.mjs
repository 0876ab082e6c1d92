// The TypeScript SDK in search mode: it searches, describes and calls a tool that a person approves.
//
//     node search_mode.mjs MODULES URL N      the folder of its packages, the address; the bearer
//                                             key in TOOLKEEP_KEY
//
// Says what it saw as one JSON object.

import { createRequire } from "node:module";

const [modules, url, n] = process.argv.slice(2);
const load = (name) => createRequire(`${modules}/`)(name);
const { Client } = load("@modelcontextprotocol/sdk/client/index.js");
const { StreamableHTTPClientTransport } = load("@modelcontextprotocol/sdk/client/streamableHttp.js");

const requestInit = { headers: { Authorization: `Bearer ${process.env.TOOLKEEP_KEY}` } };
const transport = new StreamableHTTPClientTransport(new URL(url), { requestInit });
const client = new Client({ name: "search_mode", version: "1" });
await client.connect(transport);

const call = (name, args) =>
  client.callTool({ name, arguments: args }, undefined, { timeout: 90_000 });
const seen = { protocol: transport.protocolVersion };
seen.tools = (await client.listTools()).tools.map((tool) => tool.name);
const found = await call("search_tools", { queries: ["wipe a cache"] });
const name = found.structuredContent.results[0].name;
seen.described = (await call("describe_tools", { names: [name] })).structuredContent.tools;
seen.wrong = (await call("call_tool", { name, arguments: { n: "many" } })).content[0].text;
const result = await call("call_tool", { name, arguments: { n: Number(n) } });
seen.text = result.content[0].text;
seen.error = Boolean(result.isError);
console.log(JSON.stringify(seen));
await client.close();
