// A host of MCP Apps, made with the official bridge: it calls a tool, reads its user interface, and shows
// that in Chromium.
//
//     node app_host.mjs MODULES CHROMIUM APPS URL TOOL…     the folders with playwright-core, and with the
//                                                           packages of MCP; the address; names of tools
//
// The bearer key is in TOOLKEEP_KEY. Prints what each interface showed as one JSON object.

import { createHash } from "node:crypto";
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";
import { pathToFileURL } from "node:url";

const [modules, executablePath, apps, url, ...tools] = process.argv.slice(2);
const { chromium } = createRequire(join(modules, "index.js"))("playwright-core");
const load = (name) => createRequire(`${apps}/`)(name);
const { Client } = load("@modelcontextprotocol/sdk/client/index.js");
const { StreamableHTTPClientTransport } = load("@modelcontextprotocol/sdk/client/streamableHttp.js");
const bridgePath = "@modelcontextprotocol/ext-apps/dist/src/app-bridge.js";
const { getToolUiResourceUri, RESOURCE_MIME_TYPE } = await import(pathToFileURL(join(apps, bridgePath)));

const requestInit = { headers: { Authorization: `Bearer ${process.env.TOOLKEEP_KEY}` } };
const extensions = { "io.modelcontextprotocol/ui": { mimeTypes: [RESOURCE_MIME_TYPE] } };
const client = new Client({ name: "host", version: "1" }, { capabilities: { extensions } });
await client.connect(new StreamableHTTPClientTransport(new URL(url), { requestInit }));
const listed = (await client.listTools()).tools;

// The host's page: the bridge with its packages as modules, and no other code.
const origin = "http://host.test";
const imports = {
  "@modelcontextprotocol/sdk/": "/@modelcontextprotocol/sdk/dist/esm/",
  "zod-to-json-schema": "/zod-to-json-schema/dist/esm/index.js",
  "zod/v4": "/zod/v4/index.js",
  "zod/v3": "/zod/v3/index.js",
  "zod/v4-mini": "/zod/v4-mini/index.js",
  "zod/v4/core": "/zod/v4/core/index.js",
};
const hostPage = `<!doctype html><html lang="en"><head><meta charset="utf-8"><title>Host</title>
<script type="importmap">${JSON.stringify({ imports })}</script></head><body></body></html>`;

const browser = await chromium.launch({ executablePath, args: ["--no-sandbox"] });
const seen = { extensions: client.getServerCapabilities().extensions, errors: [], foreign: [], tools: {} };
try {
  for (const name of tools) seen.tools[name] = await showTool(name);
} finally {
  await browser.close();
  await client.close();
}
console.log(JSON.stringify(seen));

async function showTool(name) {
  const tool = listed.find((it) => it.name === name);
  const uri = getToolUiResourceUri(tool);
  const content = (await client.readResource({ uri })).contents[0];
  const page = await browser.newPage();
  page.on("pageerror", (error) => seen.errors.push(String(error)));
  await page.route("**", (route) => {
    const { origin: from, pathname } = new URL(route.request().url());
    if (from !== origin) {
      seen.foreign.push(route.request().url());
      return route.abort();
    }
    if (pathname === "/") return route.fulfill({ contentType: "text/html", body: hostPage });
    return route.fulfill({ contentType: "text/javascript", body: readFileSync(join(apps, pathname)) });
  });
  await page.goto(`${origin}/`);
  // The interface calls tools by its server's names; the host knows the server, whose name is in front.
  const source = name.slice(0, -"show".length);
  await page.exposeFunction("callTool", (params) =>
    client.callTool({ ...params, name: source + params.name }));
  const given = { city: "Rome" };
  const result = await client.callTool({ name, arguments: given });
  await page.evaluate(async ([bridgePath, html, given, result]) => {
    const { AppBridge, PostMessageTransport } = await import(`/${bridgePath}`);
    const frame = document.createElement("iframe");
    frame.setAttribute("sandbox", "allow-scripts");
    document.body.append(frame);
    const bridge = new AppBridge(null, { name: "test host", version: "1" }, { serverTools: {} });
    bridge.oncalltool = (params) => window.callTool(params);
    bridge.oninitialized = () => {
      bridge.sendToolInput({ arguments: given });
      bridge.sendToolResult(result);
    };
    await bridge.connect(new PostMessageTransport(frame.contentWindow, frame.contentWindow));
    frame.srcdoc = html;
  }, [bridgePath, content.text, given, result]);
  const frame = page.frameLocator("iframe");
  const text = async (id) => {
    const element = frame.locator(`#${id}:not(:empty)`);
    await element.waitFor();
    return element.textContent();
  };
  const shown = { title: await frame.locator("h1").textContent() };
  for (const id of ["state", "input", "result"]) shown[id] = await text(id);
  await frame.locator("#more").click();
  shown.measured = await text("measured");
  await page.close();
  const digest = createHash("sha256").update(content.text).digest("hex");
  const { mimeType, _meta } = content;
  return { uri, contentUri: content.uri, mimeType, _meta, digest, toolMeta: tool._meta, shown };
}
