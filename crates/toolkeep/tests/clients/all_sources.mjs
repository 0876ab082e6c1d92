// The TypeScript SDK at the endpoint of all sources: prompts, resources, templates and completion.
//
//     node all_sources.mjs MODULES URL      the folder of its packages, the address; the bearer key
//                                           in TOOLKEEP_KEY
//
// Says what it saw as one JSON object.

import { createRequire } from "node:module";

const [modules, url] = process.argv.slice(2);
const load = (name) => createRequire(`${modules}/`)(name);
const { Client } = load("@modelcontextprotocol/sdk/client/index.js");
const { StreamableHTTPClientTransport } = load("@modelcontextprotocol/sdk/client/streamableHttp.js");

const requestInit = { headers: { Authorization: `Bearer ${process.env.TOOLKEEP_KEY}` } };
const transport = new StreamableHTTPClientTransport(new URL(url), { requestInit });
const client = new Client({ name: "all_sources", version: "1" });
await client.connect(transport);

const seen = { protocol: transport.protocolVersion };
seen.prompts = (await client.listPrompts()).prompts.map((prompt) => prompt.name);
seen.resources = (await client.listResources()).resources.map((resource) => resource.uri);
const { resourceTemplates } = await client.listResourceTemplates();
seen.templates = resourceTemplates.map((template) => template.uriTemplate);
const prompt = await client.getPrompt({ name: "two.test_simple_prompt" });
seen.prompt = prompt.messages[0].content.text;
seen.contents = [];
for (const uri of ["two+test://static-text", "two+test://template/7/data"]) {
  const content = (await client.readResource({ uri })).contents[0];
  seen.contents.push([content.uri, content.text]);
}
const ref = { type: "ref/prompt", name: "two.test_prompt_with_arguments" };
const done = await client.complete({ ref, argument: { name: "arg1", value: "p" } });
seen.completion = done.completion.values;
console.log(JSON.stringify(seen));
await client.close();
