// Uses the console in Chromium as operators do, by keyboard and by mouse.
import { readFileSync } from "node:fs";
import { address, found, key, openPage, program, signIn, useBrowser } from "./console_browser.mjs";

async function tap(page, ...keys) {
  for (const each of keys) await page.keyboard.press(each);
}

// The flow of approvals by keyboard alone, from the sign-in page on.
async function decideByKeyboard(browser) {
  const page = await openPage(browser, { colorScheme: "light" });
  await signIn(page, "/ui/approvals");
  const state = () => page.locator(".badge").first().innerText();
  // It may still run when its page is shown.
  const isApproved = (word) => ["approved", "consumed", "done"].includes(word);
  await tap(page, "j", "a");
  found.steps.focused = await page.evaluate(() => document.activeElement.textContent);
  await tap(page, "Enter");
  await page.waitForURL(/approvals\/[0-9a-f-]+$/);
  found.steps.approved = isApproved(await state());
  await tap(page, "g", "a");
  await page.waitForURL(/approvals$/);
  await tap(page, "j", "d");
  await page.keyboard.type("not now: a and d are letters here");
  await tap(page, "Enter");
  await page.waitForURL(/approvals\/[0-9a-f-]+$/);
  found.steps.denied = await state();
  found.steps.reason = (await page.locator("main").innerText()).includes("a and d are letters here");
  await tap(page, "g", "t");
  await page.waitForURL(/tools$/);
  await tap(page, "/");
  await page.keyboard.type("rm");
  await tap(page, "Enter");
  await page.waitForURL(/q=rm/);
  await tap(page, "j", "j", "k", "Enter");
  await page.waitForURL(/tools\/[a-z0-9.]+$/);
  found.steps.tool = await page.locator("h1").innerText();
  // Under the content policy of the page, which the examination sets aside.
  for (const path of ["/ui/tools/hostile", "/ui/approvals?state=all", "/ui/tools?q=%3Cimg"]) {
    await page.goto(`${address}${path}`);
  }
  await tap(page, "?");
  found.steps.keys = await page.locator("#keys").getAttribute("open");
  await page.context().close();
}

// A one-time link signs in after one click, and is not in the address afterwards.
async function signInByLink(browser) {
  const page = await openPage(browser, {});
  const made = await page.request.post(`${address}/v1/sign-in-links`, { headers: { authorization: `Bearer ${key}` } });
  const { path } = await made.json();
  await page.goto(`${address}${path}`);
  found.steps.linkHidden = !page.url().includes("link-");
  await tap(page, "Enter");
  await page.waitForURL((url) => url.pathname === "/ui");
  await page.context().clearCookies();
  const errors = found.errors.length;
  await page.goto(`${address}/healthz`);
  await page.goto(`${address}${path}`);
  await tap(page, "Enter");
  found.steps.usedLink = await page.locator("[role=alert]").innerText();
  // Chromium reports the status 401 as an error of the page.
  found.errors.length = errors;
  await page.context().close();
}

// A tool is tried from its page: explained, run, and its picture is drawn.
async function tryTool(browser) {
  const page = await openPage(browser, { colorScheme: "light" });
  await signIn(page, "/ui/tools/plot");
  await page.locator("[name='/title']").fill("a \"title\"");
  await page.locator("form.arguments button", { hasText: "Explain" }).first().click();
  found.steps.explained = await page.locator("main").innerText().then((text) => text.includes("would run"));
  found.steps.kept = await page.locator("[name='/title']").inputValue();
  await page.locator("form.arguments button", { hasText: "Run" }).first().click();
  const picture = page.locator("img.picture");
  await picture.waitFor();
  found.steps.picture = await picture.evaluate((image) => image.decode().then(() => image.naturalWidth));
  await page.context().close();
}

// A call that comes while the list is open appears without anybody asking for it.
async function watchApprovals(browser) {
  const page = await openPage(browser, {});
  await signIn(page, "/ui/approvals");
  const count = () => page.locator("article.call").count();
  const before = await count();
  console.log("watching");
  await page.waitForFunction((known) => document.querySelectorAll("article.call").length > known, before);
  found.steps.appeared = (await count()) - before;
  await page.context().close();
}

// Records appear as they are written, in a bounded number of rows, and not while the page is paused.
async function watchCalls(browser) {
  const page = await openPage(browser, {});
  await signIn(page, "/ui/calls/live");
  const first = () => page.locator("tbody tr").first().innerText();
  const count = () => page.locator("tbody tr").count();
  const before = await first();
  console.log("watching");
  await page.waitForFunction((known) => document.querySelector("tbody tr").innerText !== known, before);
  await page.waitForFunction(() => document.querySelectorAll("tbody tr").length >= 100);
  await tap(page, "p", "Enter");
  found.steps.paused = (await page.locator("[data-live-status]").innerText()).startsWith("Paused");
  found.steps.liveRows = await count();
  await page.context().close();
}

// An edited policy is compared, a source is tried and added, and a node is drained.
async function operate(browser) {
  const page = await openPage(browser, {});
  await signIn(page, "/ui/access/policy");
  await page.locator("#policy").fill("policy:\n  deny: [plot]\n");
  await page.locator("button", { hasText: "Show what it would change" }).click();
  const changed = page.locator("tbody tr", { hasText: "plot" });
  found.steps.previewed = (await changed.first().innerText()).includes("deny_rule");
  await page.goto(`${address}/ui/sources/add?kind=module`);
  await page.locator("[name='/name']").fill("weather");
  await page.locator("[name='/module']").fill("https://weather.example");
  const says = async (text) => (await page.locator("main").innerText()).includes(text);
  await page.locator("button", { hasText: "Test it" }).click();
  found.steps.tried = await says("It lists 1 tools");
  await page.locator("button", { hasText: "Add it" }).click();
  found.steps.added = await says("is in the configuration file");
  await page.goto(`${address}/ui/nodes`);
  await page.locator("button", { hasText: "Drain" }).first().click();
  found.steps.drained = await says("drained");
  await page.goto(`${address}/ui/tools`);
  await tap(page, "/");
  await page.keyboard.type("plo");
  await page.waitForURL(/q=plo/);
  await page.keyboard.type("t");
  await page.waitForURL(/q=plot/);
  found.steps.typed = await page.locator("tbody tr").count();
  await page.goto(`${address}/ui/calls/${program}`);
  found.steps.bars = await page.locator(".bar rect").count();
  await page.context().close();
}

// The same without a script, by mouse.
async function decideWithoutScript(browser) {
  const page = await openPage(browser, { javaScriptEnabled: false });
  await signIn(page, "/ui/approvals");
  await page.locator("article button", { hasText: "Approve" }).first().click();
  found.steps.withoutScript = (await page.locator(".badge").first().innerText()) !== "pending";
  await page.locator("button", { hasText: "Sign out" }).click();
  found.steps.signedOut = new URL(page.url()).pathname;
  await page.context().close();
}

// A pending call is compared with the last approved one, its arguments are edited, and it is approved.
async function editArguments(browser, path) {
  const page = await openPage(browser, {});
  await signIn(page, path);
  found.steps.compared = (await page.locator("pre.diff ins").count()) > 0;
  await page.locator("summary", { hasText: "Edit the arguments" }).click();
  await page.locator("#edited-arguments").fill('{"path": "edited \u202e by hand"}');
  await page.locator("button", { hasText: "Replace the arguments" }).click();
  await page.waitForFunction(() => document.body.innerText.includes("by hand"));
  found.steps.edited = (await page.locator("mark").count()) > 0;
  await page.locator("[data-approve]").click();
  await page.waitForFunction(() => !document.querySelector("[data-approve]"));
  await page.context().close();
}

// A changed definition is found from the first page, read word by word, and approved by keyboard.
async function reviewDefinition(browser) {
  const page = await openPage(browser, {});
  await signIn(page, "/ui/sources");
  await page.locator("a", { hasText: "1 to review" }).click();
  await page.waitForURL(/pins\?source=files$/);
  await tap(page, "j", "Enter");
  await page.waitForURL(/pins\/files\/files\.read$/);
  found.steps.changed = (await page.locator("pre.diff ins").innerText()).includes("<img src=x");
  await tap(page, "a", "Enter");
  await page.waitForFunction(() => !document.querySelector("[data-approve]"));
  found.steps.pinned = await page.locator(".badge").first().innerText();
  await page.context().close();
}

// A key is created and shown, opens a session of its own, and ends it when it is revoked.
async function manageKeys(browser) {
  const page = await openPage(browser, {});
  await signIn(page, "/ui/access");
  await page.locator("#subject").fill("night job");
  await page.locator("button", { hasText: "Create the key" }).click();
  const created = (await page.locator("#created-key").innerText()).trim();
  const listed = async () => (await page.request.get(`${address}/v1/tools`, {
    headers: { authorization: `Bearer ${created}` } })).status();
  found.steps.created = (await listed()) === 200;
  await tap(page, "g", "k");
  await page.waitForURL(/access$/);
  const row = page.locator("tr", { hasText: "night job" });
  await row.locator("summary").click();
  await row.locator("button").click();
  await page.waitForFunction(() => document.body.innerText.includes("revoked"));
  found.steps.revoked = (await listed()) === 401;
  await page.context().close();
}

// A persona and an organisation are created, and the records of a filter are saved as a file.
async function manageDirectory(browser) {
  const page = await openPage(browser, {});
  await signIn(page, "/ui/access/personas");
  await page.locator("#new-persona").fill("reader");
  await page.locator("#new-sources").fill("files\nnotes");
  await page.locator("button", { hasText: "Create the persona" }).click();
  found.steps.persona = (await page.locator("tr", { hasText: "reader" }).innerText()).includes("files, notes");
  await page.locator("a", { hasText: "Organisations" }).click();
  await page.locator("#org-name").fill("acme");
  await page.locator("button", { hasText: "Create the organisation" }).click();
  found.steps.organisation = (await page.locator("#created-key").innerText()).length > 20;
  await page.goto(`${address}/ui/calls?kind=intent`);
  const [download] = await Promise.all([
    page.waitForEvent("download"),
    page.locator("a", { hasText: "Export these records" }).click(),
  ]);
  const lines = readFileSync(await download.path(), "utf8").trim().split("\n");
  found.steps.exported = lines.every((line) => JSON.parse(line).kind === "intent") && lines.length > 0;
  await page.context().close();
}

// A tool is turned off from its source, and on again.
async function switchTool(browser) {
  const page = await openPage(browser, {});
  await signIn(page, "/ui/sources");
  await page.goto(`${address}/ui/sources/s/tools?after=pl`);
  const row = () => page.locator("tr", { hasText: "plot" });
  await row().locator("button", { hasText: "Turn off" }).click();
  await page.waitForURL(/tools$/);
  await page.goto(`${address}/ui/sources/s/tools?after=pl`);
  found.steps.off = await row().locator(".badge").innerText();
  await row().locator("button", { hasText: "Turn on" }).click();
  await page.waitForURL(/tools$/);
  await page.goto(`${address}/ui/sources/s/tools?after=pl`);
  found.steps.on = await row().locator(".badge").innerText();
  await page.context().close();
}

// A page of another origin with this browser's cookie posts a form.
async function postFromElsewhere(browser) {
  const page = await openPage(browser, {});
  await signIn(page, "/ui/approvals");
  const action = await page.locator("article form").last().getAttribute("action");
  const token = await page.locator("[name=form_token]").first().getAttribute("value");
  const other = address.replace("127.0.0.1", "localhost");
  const send = async (from) => {
    await page.goto(`${from}/healthz`);
    const replied = page.waitForResponse((response) => response.url().endsWith("/deny"));
    await page.evaluate(([target, value]) => {
      const form = document.createElement("form");
      Object.assign(form, { method: "post", action: target });
      const field = document.createElement("input");
      Object.assign(field, { name: "form_token", value });
      form.append(field);
      document.body.append(form);
      form.submit();
    }, [`${address}${action}`, token]);
    const status = (await replied).status();
    await page.waitForURL((url) => url.pathname !== "/healthz");
    return status;
  };
  // Its own errors and addresses are the point.
  const [errors, foreign] = [found.errors.length, found.foreign.length];
  found.steps.crossOrigin = await send(other);
  found.steps.sameOrigin = await send(address);
  [found.errors.length, found.foreign.length] = [errors, foreign];
  await page.context().close();
}

// The address of a pending call that no other flow decides about.
async function callToEdit(browser) {
  const page = await openPage(browser, {});
  await signIn(page, "/ui/approvals");
  const path = await page.locator("[data-open]").nth(3).getAttribute("href");
  await page.context().close();
  return path;
}

await useBrowser(async (browser) => {
  const edited = await callToEdit(browser);
  await postFromElsewhere(browser);
  await decideByKeyboard(browser);
  await decideWithoutScript(browser);
  await signInByLink(browser);
  await tryTool(browser);
  await reviewDefinition(browser);
  await manageKeys(browser);
  await manageDirectory(browser);
  await switchTool(browser);
  await editArguments(browser, edited);
  await watchApprovals(browser);
  await operate(browser);
  await watchCalls(browser);
});
