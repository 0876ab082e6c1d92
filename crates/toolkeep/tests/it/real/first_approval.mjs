// From the link of `toolkeep ui` to an approved call, by mouse, and prints the clicks as JSON.
//
// Arguments: the folder with node_modules, Chromium, the address of the server, and a folder for
// pictures. The standard input has the link and the key of an agent, as JSON.
import { createRequire } from "node:module";
import { readFileSync } from "node:fs";
import { join } from "node:path";

const [modules, executablePath, address, pictures] = process.argv.slice(2);
const { chromium } = createRequire(join(modules, "index.js"))("playwright-core");
const { link, agentKey } = JSON.parse(readFileSync(0, "utf8"));

const clicks = [];
const browser = await chromium.launch({ executablePath, args: ["--no-sandbox"] });
try {
  const options = { viewport: { width: 1280, height: 720 }, colorScheme: "light" };
  const page = await (await browser.newContext(options)).newPage();
  const click = async (locator) => {
    clicks.push((await locator.innerText()).trim());
    await locator.click();
  };
  const picture = (name) => page.screenshot({ path: join(pictures, `${name}.png`) });

  // What an agent does meanwhile.
  const asked = await page.request.post(`${address}/v1/calls`, {
    headers: { authorization: `Bearer ${agentKey}` },
    data: { tool: "run_shell", arguments: { command: "ls -l" } },
  });

  await page.goto(link);
  await click(page.locator("button", { hasText: "Sign in" }));
  await page.waitForURL((url) => url.pathname === "/ui");
  await picture("overview");
  await click(page.locator("main a", { hasText: "run_shell" }));
  await page.waitForURL(/approvals\/[0-9a-f-]+$/);
  await picture("approval");
  await click(page.locator("button", { hasText: "Approve" }));
  await page.waitForFunction(() => !document.querySelector("[data-approve]"));
  const { call_id: id } = await asked.json();
  const ended = await page.request.post(`${address}/v1/calls/${id}/resume?wait=30s`, {
    headers: { authorization: `Bearer ${agentKey}` },
    data: {},
  });
  const { status } = await ended.json();
  await page.goto(`${address}/ui/calls/${id}`);
  await picture("timeline");
  // Pictures of the guide, of the same session in another theme or window.
  for (const [name, path, colorScheme, width, height] of [
    ["access-dark", "/ui/access/tools?tool=file", "dark", 1280, 720],
    ["policy-dark", "/ui/access/policy", "dark", 1280, 720],
    ["live-narrow", "/ui/calls/live", "light", 360, 1400],
    ["tool-light", "/ui/tools/calculator", "light", 1280, 720],
    ["add-source-light", "/ui/sources/add", "light", 1280, 720],
  ]) {
    await page.emulateMedia({ colorScheme });
    await page.setViewportSize({ width, height });
    await page.goto(`${address}${path}`);
    await picture(name);
  }
  console.log(JSON.stringify({ clicks, asked: asked.status(), status }));
} finally {
  await browser.close();
}
