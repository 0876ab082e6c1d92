// A scripted model that speaks as every provider does: it asks for two calls, and once it is told what
// came of the second one it is content.
//
//     model.mjs NODE_MODULES
//
// Prints `{"url": …}` once it listens on the loopback.

import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";

const require = createRequire(pathToFileURL(process.argv[2] + "/"));
const { LLMock } = require("@copilotkit/aimock");

const model = new LLMock({ port: 0, host: "127.0.0.1" });
const calls = [
  { id: "call_1", name: "notes_append", arguments: { text: "the first note" } },
  { id: "call_2", name: "notes_read", arguments: { number: "the last" } },
];
const message = "Note this.";
model.on({ userMessage: message, hasToolResult: false }, { toolCalls: calls });
model.on(
  { userMessage: message, hasToolResult: true, toolResultContains: "is not of type" },
  { content: "One is noted, one is not." },
);
await model.start();
console.log(JSON.stringify({ url: model.url }));
