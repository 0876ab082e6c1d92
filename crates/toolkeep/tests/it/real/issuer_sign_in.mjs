// Signs a person in to the console with an issuer that others wrote, in a browser: at first with its
// login form, then by its session, and at last cancelled there. Prints what the pages show as JSON.
//
// Arguments: the folder with node_modules, Chromium, the address of the console, and a folder for
// pictures.
import { createRequire } from "node:module";
import { join } from "node:path";

const [modules, executablePath, address, pictures] = process.argv.slice(2);
const { chromium } = createRequire(join(modules, "index.js"))("playwright-core");

const browser = await chromium.launch({ executablePath, args: ["--no-sandbox"] });
try {
  const open = async () => {
    const context = await browser.newContext({ viewport: { width: 1280, height: 720 } });
    // The issuer's own pages ask for fonts of another host.
    await context.route((url) => url.hostname !== "127.0.0.1", (route) => route.abort());
    const page = await context.newPage();
    await page.goto(`${address}/ui/tools?q=save`);
    return page;
  };
  const begin = (page) => page.locator("a", { hasText: "Sign in with op" }).click();
  const signedIn = async (page) => {
    await page.waitForURL((url) => url.pathname === "/ui/tools");
    return page.locator(".user").innerText();
  };
  const issuer = (page) => page.waitForSelector("form input[name=prompt]", { state: "attached" });

  const page = await open();
  await page.screenshot({ path: join(pictures, "sign-in.png") });
  await begin(page);
  await issuer(page);
  await page.fill("input[name=login]", "ann");
  await page.fill("input[name=password]", "any");
  await page.click("button[type=submit]");
  await page.waitForSelector("input[name=prompt][value=consent]", { state: "attached" });
  await page.click("button[type=submit]");
  const first = { user: await signedIn(page), search: new URL(page.url()).search };

  // Its own session at the issuer goes on, so that nothing is asked again.
  await page.click("text=Sign out");
  await begin(page);
  await page.waitForURL((url) => url.pathname.startsWith("/ui") && !url.pathname.includes("sign-in"));
  const second = { user: await page.locator(".user").innerText() };

  const other = await open();
  await begin(other);
  await issuer(other);
  await other.locator("a", { hasText: "Cancel" }).click();
  await other.waitForSelector("[role=alert]");
  const cancelled = await other.locator("[role=alert]").innerText();
  console.log(JSON.stringify({ first, second, cancelled }));
} finally {
  await browser.close();
}
