// A browser for the web console, which notes what no page may do.
//
// Arguments of the scripts: the folder with node_modules, Chromium, the address of the server, a
// folder for pictures, and the ID of a program. The key comes from the standard input.
import { createRequire } from "node:module";
import { readFileSync } from "node:fs";
import { join } from "node:path";

const [modules, executablePath] = process.argv.slice(2);
export const [address, pictures, program] = process.argv.slice(4);
const require = createRequire(join(modules, "index.js"));
const { chromium } = require("playwright-core");
export const axe = readFileSync(require.resolve("axe-core/axe.min.js"), "utf8");
export const key = readFileSync(0, "utf8").trim();

export const found = { dialogs: [], errors: [], foreign: [], violations: [], wide: [], bytes: {}, steps: {} };

// A page that notes dialogs, errors (a breach of the content policy is one) and foreign requests.
export async function openPage(browser, options) {
  const context = await browser.newContext(options);
  const page = await context.newPage();
  page.on("dialog", (dialog) => { found.dialogs.push(dialog.message()); dialog.dismiss(); });
  page.on("pageerror", (error) => found.errors.push(String(error)));
  page.on("console", (message) => {
    if (message.type() === "error") found.errors.push(`${page.url()}: ${message.text()}`);
  });
  page.on("request", (request) => {
    if (!request.url().startsWith(`${address}/`)) found.foreign.push(request.url());
  });
  return page;
}

export async function signIn(page, path) {
  await page.goto(`${address}${path}`);
  // The page does so itself when it is first drawn, which may be after it has loaded.
  await page.locator("#key").focus();
  await page.keyboard.type(key);
  await page.keyboard.press("Enter");
  await page.waitForURL((url) => url.pathname === path);
}

// Runs the flow in Chromium and prints what was found as JSON.
export async function useBrowser(flow) {
  const browser = await chromium.launch({ executablePath, args: ["--no-sandbox"] });
  try {
    await flow(browser);
  } finally {
    await browser.close();
  }
  console.log(JSON.stringify(found));
}
