// Loads pages in Chromium and prints the times to their first contentful paint in ms, as JSON.
// Arguments: the folder with node_modules, and Chromium. The standard input has the origin, the
// cookie, the paths, and the number of loads, as JSON.
import { createRequire } from "node:module";
import { readFileSync } from "node:fs";
import { join } from "node:path";

const [modules, executablePath] = process.argv.slice(2);
const { chromium } = createRequire(join(modules, "index.js"))("playwright-core");
const { origin, cookie, paths, loads } = JSON.parse(readFileSync(0, "utf8"));

const [name, value] = cookie.split("=");
const browser = await chromium.launch({ executablePath, args: ["--no-sandbox"] });
try {
  const context = await browser.newContext({ viewport: { width: 1280, height: 720 } });
  await context.addCookies([{ name, value, domain: new URL(origin).hostname, path: "/ui" }]);
  const page = await context.newPage();
  const times = {};
  // The first load of a browser is of the browser.
  await page.goto(`${origin}${paths[0]}`);
  for (const path of paths) {
    times[path] = [];
    for (let load = 0; load < loads; load += 1) {
      await page.goto(`${origin}${path}`);
      times[path].push(await page.evaluate(() => new Promise((resolve) => {
        const paint = () => performance.getEntriesByName("first-contentful-paint")[0];
        const look = () => (paint() ? resolve(paint().startTime) : setTimeout(look, 5));
        look();
      })));
    }
  }
  console.log(JSON.stringify(times));
} finally {
  await browser.close();
}
