// Looks at each page of the console in both themes and three widths.
import { join } from "node:path";
import { address, axe, found, openPage, pictures, program, signIn, useBrowser } from "./console_browser.mjs";

// A page for each theme and width. The content policy is set aside for the examination.
async function openVariants(browser) {
  const variants = [];
  for (const [kind, colorScheme, width] of [
    ["light", "light", 1280], ["dark", "dark", 1280], ["narrow", "light", 360], ["4k", "dark", 3840],
  ]) {
    const page = await openPage(browser, { colorScheme, viewport: { width, height: 900 }, bypassCSP: true });
    variants.push({ kind, width, page });
  }
  return variants;
}

// Accessibility, width, size, and a picture.
async function examine(variants, name, path) {
  for (const { kind, width, page } of variants) {
    const response = await page.goto(`${address}${path}`);
    found.bytes[name] = (await response.body()).length;
    const overflow = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
    if (overflow > 0) found.wide.push(`${name} ${kind}: ${overflow} pixels`);
    await page.evaluate(axe);
    // What passes is not collected.
    const result = await page.evaluate(() => window.axe.run({ resultTypes: ["violations"] }));
    for (const violation of result.violations) {
      if (["serious", "critical"].includes(violation.impact)) {
        const where = violation.nodes.map((node) => node.target.join(" ")).join(", ");
        found.violations.push(`${name} ${kind}: ${violation.id}: ${where}`);
      }
    }
    await page.screenshot({ path: join(pictures, `${name}-${kind}.png`), fullPage: width < 3840 });
  }
}

await useBrowser(async (browser) => {
  const variants = await openVariants(browser);
  await examine(variants, "sign-in", "/ui/sign-in");
  for (const { page } of variants) await signIn(page, "/ui/approvals");
  const call = await variants[0].page.locator("[data-open]").first().getAttribute("href");
  for (const [name, path] of [
    ["overview", "/ui"],
    ["approvals", "/ui/approvals"],
    ["calls", "/ui/calls"],
    ["sources", "/ui/sources"],
    ["call", call],
    ["pins", "/ui/pins"],
    ["pin", "/ui/pins/files/files.read"],
    ["keys", "/ui/access"],
    ["users", "/ui/access/users"],
    ["roles", "/ui/access/roles"],
    ["personas", "/ui/access/personas"],
    ["orgs", "/ui/access/orgs"],
    ["source-tools", "/ui/sources/files/tools"],
    ["record", "/ui/record"],
    ["live", "/ui/calls/live"],
    ["program", `/ui/calls/${program}`],
    ["matrix", "/ui/access/tools"],
    ["decision", "/ui/access/decision?tool=rm"],
    ["policy", "/ui/access/policy"],
    ["add-source", "/ui/sources/add"],
    ["nodes", "/ui/nodes"],
    ["plugins", "/ui/plugins"],
    ["plugin", "/ui/plugins/notes"],
    ["toolsets", "/ui/toolsets"],
    ["toolset", "/ui/toolsets/team"],
    ["tools", "/ui/tools"],
    ["tool", "/ui/tools/rm"],
    ["hostile", "/ui/tools/hostile"],
  ]) await examine(variants, name, path);
});
