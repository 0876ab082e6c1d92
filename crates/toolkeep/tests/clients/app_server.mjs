// An MCP server with a user interface, made with the official packages.
//
//     node app_server.mjs MODULES NAME         the folder of its packages, and what its interface says; it
//                                              speaks over its pipes
//     node app_server.mjs MODULES NAME print   prints the page of the interface

import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";
import { pathToFileURL } from "node:url";

const [modules, name, mode] = process.argv.slice(2);
const load = (path) => createRequire(`${modules}/`)(path);
const { McpServer } = load("@modelcontextprotocol/sdk/server/mcp.js");
const { StdioServerTransport } = load("@modelcontextprotocol/sdk/server/stdio.js");
const apps = join(modules, "@modelcontextprotocol/ext-apps/dist/src");
const { registerAppResource, registerAppTool, RESOURCE_MIME_TYPE } = await import(
  pathToFileURL(join(apps, "server/index.js"))
);

// The package with all that it needs, since the page loads nothing.
const library = readFileSync(join(apps, "app-with-deps.js"), "utf8");
const script = `
const { App } = await import(URL.createObjectURL(
  new Blob([document.getElementById("library").textContent], { type: "text/javascript" })));
const app = new App({ name: "${name}", version: "1" }, {});
const show = (id, text) => { document.getElementById(id).textContent = text; };
app.ontoolinput = ({ arguments: given }) => show("input", given.city);
app.ontoolresult = ({ structuredContent }) => show("result", structuredContent.text);
document.getElementById("more").addEventListener("click", async () => {
  const answer = await app.callServerTool({ name: "measure", arguments: { city: "Bath" } });
  show("measured", answer.structuredContent.text);
});
await app.connect();
show("state", "connected to " + app.getHostVersion().name);
`;
const page = `<!doctype html><html lang="en"><head><meta charset="utf-8"><title>${name}</title></head><body>
<h1>${name}</h1><p id="state"></p><p id="input"></p><p id="result"></p><p id="measured"></p>
<button id="more">Measure</button>
<script type="text/plain" id="library">${library.replaceAll("</script", "<\\/script")}</script>
<script type="module">${script}</script></body></html>`;

if (mode === "print") {
  process.stdout.write(page);
} else {
  const server = new McpServer({ name, version: "1" });
  const uri = "ui://weather/view.html";
  const z = load("zod");
  const answer = (text) => ({ content: [{ type: "text", text }], structuredContent: { text } });
  registerAppTool(server, "show", {
    description: "Shows the weather.",
    inputSchema: { city: z.string() },
    outputSchema: { text: z.string() },
    annotations: { readOnlyHint: true },
    _meta: { ui: { resourceUri: uri, visibility: ["model", "app"] } },
  }, async ({ city }) => answer(`${name}: sun in ${city}`));
  registerAppTool(server, "measure", {
    description: "Measures again.",
    inputSchema: { city: z.string() },
    outputSchema: { text: z.string() },
    annotations: { readOnlyHint: true },
    _meta: { ui: { resourceUri: uri, visibility: ["app"] } },
  }, async ({ city }) => answer(`${name}: 21 degrees in ${city}`));
  const ui = { prefersBorder: true, csp: { connectDomains: [] } };
  registerAppResource(server, "view", uri, { description: "The weather.", _meta: { ui } }, async () => ({
    contents: [{ uri, mimeType: RESOURCE_MIME_TYPE, text: page, _meta: { ui } }],
  }));
  await server.connect(new StdioServerTransport());
}
