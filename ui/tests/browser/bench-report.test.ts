// The report of `tacho bench` at each width and in both schemes, made from results of real runs,
// and from what `quieter.py` makes of them.
// TACHO_PICTURES names a directory for a picture of each.

import assert from "node:assert/strict";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { type Browser, chromium, type Page } from "playwright-core";
import { tacho } from "./hub.ts";
import { firstOf, ROOT, run } from "./processes.ts";

const DATA = `${ROOT}crates/bench/tests/data`;
const WIDTHS = [1280, 900, 420];
const SCHEMES = ["light", "dark"] as const;

let browser: Browser;
let directory: string;
before(async () => {
  directory = mkdtempSync(join(tmpdir(), "tacho-bench-report-"));
  browser = await chromium.launch({
    executablePath: firstOf("Chromium", process.env.TACHO_CHROMIUM, "/usr/bin/chromium"),
    args: ["--no-sandbox"],
  });
});
after(async () => {
  await browser?.close();
  rmSync(directory, { recursive: true, force: true });
});

/** Makes the report of these results, as of a quieter machine. */
async function report(name: string, results: string, quieter: string[], ...args: string[]) {
  let lines = `${DATA}/${results}.jsonl`;
  if (quieter.length) {
    const made = await run(
      "python3",
      [`${DATA}/quieter.py`, ...quieter],
      readFileSync(lines, "utf8"),
    );
    assert.ok(made.ok, made.text);
    lines = join(directory, `${name}.jsonl`);
    writeFileSync(lines, made.text);
  }
  const output = join(directory, name);
  const made = await run(tacho(), ["bench", "--results", lines, "--output", output, ...args]);
  assert.match(made.text, /report: /);
  return `${output}.html`;
}

/** Opens the page in each width and scheme, with everything in it open. */
async function inEachForm(file: string, check: (page: Page, form: string) => Promise<void>) {
  for (const width of WIDTHS) {
    for (const colorScheme of SCHEMES) {
      const size = { width, height: 900 };
      const context = await browser.newContext({ viewport: size, colorScheme, offline: true });
      const page = await context.newPage();
      const problems: string[] = [];
      page.on("pageerror", (error) => problems.push(`error in the page: ${error.message}`));
      page.on("console", (message) => problems.push(message.text()));
      page.on("request", (request) => {
        if (!request.url().startsWith("file:")) problems.push(`a request: ${request.url()}`);
      });
      await page.goto(`file://${file}`);
      const form = `${width}-${colorScheme}`;
      await picture(page, file, form);
      for (const summary of await page.locator("summary").all()) await summary.click();
      await picture(page, file, `${form}-open`);
      assert.deepEqual(await misplaced(page), [], `${file}, ${form}`);
      await check(page, form);
      assert.deepEqual(problems, [], `${file}, ${form}`);
      await context.close();
    }
  }
}

async function picture(page: Page, file: string, form: string) {
  const folder = process.env.TACHO_PICTURES;
  if (folder) {
    const name = file.replace(/^.*\/|\.html$/g, "");
    await page.screenshot({ path: `${folder}/${name}-${form}.png`, fullPage: true });
  }
}

/** What is cut, reaches beyond the page, or lies in a plot to which it does not belong. */
const misplaced = (page: Page) =>
  page.evaluate(() => {
    const found: string[] = [];
    const width = document.documentElement.clientWidth;
    if (document.documentElement.scrollWidth > width) {
      found.push(`the page is ${document.documentElement.scrollWidth} wide`);
    }
    const texts = "h1, h2, h3, p, th, td, li, dd, summary, .name, .words, .axis .inner span";
    for (const node of document.querySelectorAll(texts)) {
      const box = node.getBoundingClientRect();
      const card = node.closest(".card")?.getBoundingClientRect();
      const left = card?.left ?? 0;
      const right = card?.right ?? width;
      if (box.width > 0 && (box.left < left || box.right > right + 0.5)) {
        found.push(`beyond its card: ${node.textContent}`);
      }
      if (node.scrollWidth > node.clientWidth + 1 && node.clientWidth > 0) {
        found.push(`cut: ${node.textContent}`);
      }
    }
    for (const row of document.querySelectorAll(".row")) {
      const plot = row.querySelector(".track")?.getBoundingClientRect();
      for (const label of plot ? row.querySelectorAll(".name, .words") : []) {
        const box = label.getBoundingClientRect();
        const isBeside = box.right <= (plot?.left ?? 0) || box.left >= (plot?.right ?? 0);
        if (!isBeside && box.bottom > (plot?.top ?? 0) && box.top < (plot?.bottom ?? 0)) {
          found.push(`in the plot: ${label.textContent}`);
        }
      }
    }
    for (const axis of document.querySelectorAll(".axis")) {
      const ticks = [...axis.querySelectorAll(".inner span")];
      const boxes = ticks.map((tick) => tick.getBoundingClientRect());
      for (const [index, box] of boxes.slice(1).entries()) {
        if (box.left < (boxes[index]?.right ?? 0)) {
          found.push(`ticks overlap: ${ticks[index]?.textContent}`);
        }
      }
    }
    return found;
  });

interface Result {
  type: string;
  method: string;
  workload: string;
  threads: number;
  figures: Record<string, { too_noisy: boolean }>;
}

/** The results as the page has them. */
const resultsOf = (file: string): Result[] => {
  const data = /id="report">(.*)<\/script>/.exec(readFileSync(file, "utf8"))?.[1] ?? "{}";
  return JSON.parse(data).lines.filter((line: Result) => line.type === "result");
};

/** How many marks a picture may have: one for each figure that is not too noisy. */
const notNoisy = (file: string, figure: string) =>
  resultsOf(file).filter(
    (line) => line.method !== "none-again" && line.figures[figure]?.too_noisy === false,
  ).length;

const lead = (page: Page) => page.locator(".lead").first();
const dots = (page: Page, figure: string) => page.locator(`[data-figure=${figure}] .dot`);
const fontSize = (page: Page) =>
  lead(page).evaluate((node) => Number.parseFloat(getComputedStyle(node).fontSize));

test("a cost is the answer, large, and in the picture", async () => {
  const file = await report("cost", "one-load", ["0.05", "tacho=0.94"]);
  await inEachForm(file, async (page, form) => {
    const wanted = /^Tachograph costs \d+\.\d % (± \d+\.\d|\(.*\)) of throughput here\.$/;
    assert.match((await lead(page).textContent()) ?? "", wanted);
    assert.ok((await fontSize(page)) >= 28, form);
    for (const figure of ["qps", "cpu_us_per_query"]) {
      assert.equal(await dots(page, figure).count(), notNoisy(file, figure), `${form} ${figure}`);
    }
    // Drawn when they are opened, once.
    assert.equal(await page.locator("canvas").count(), 3, form);
  });
});

test("what is too noisy is drawn nowhere", async () => {
  const file = await report("noisy", "one-load", []);
  await inEachForm(file, async (page, form) => {
    assert.equal(await lead(page).textContent(), "Too noisy to say what Tachograph costs here.");
    assert.match((await page.locator(".advice").textContent()) ?? "", /--side-by-side/);
    assert.equal(await page.locator(".dot, .interval, .floor").count(), 0, form);
    assert.equal(await page.locator(".row.unknown").count(), 4, form);
    // The latencies are no finding either; the blocks are as they were measured.
    assert.equal(await page.locator("canvas").count(), 2, form);
  });
});

test("a bound is hollow", async () => {
  const file = await report("bound", "one-load", ["0.05", "tacho=0.995"]);
  await inEachForm(file, async (page, form) => {
    const wanted = /at most \d+\.\d %/;
    assert.match((await lead(page).textContent()) ?? "", wanted);
    const row = page.locator("[data-figure=qps] .row.bound").first();
    const card = await page
      .locator(".card")
      .first()
      .evaluate((n) => getComputedStyle(n).background);
    const dot = await row.locator(".dot").evaluate((n) => getComputedStyle(n).backgroundColor);
    assert.ok(card.includes(dot), `${form}: ${card} ${dot}`);
  });
});

test("several loads have a sentence each, and one picture of each thing", async () => {
  const file = await report("loads", "two-loads", ["0.05", "tacho=0.95", "threads=4"]);
  const loads = new Set(resultsOf(file).map((line) => `${line.workload} ${line.threads}`));
  const workloads = new Set(resultsOf(file).map((line) => line.workload));
  assert.ok(loads.size > workloads.size);
  await inEachForm(file, async (page, form) => {
    assert.equal(await page.locator(".lead").count(), loads.size, form);
    assert.equal(await page.locator("[data-figure=qps]").count(), workloads.size, form);
    assert.equal(await page.locator("[data-figure=cpu_us_per_query]").count(), workloads.size);
  });
});

test("two servers are compared by their processor time", async () => {
  const file = await report("sides", "two-servers", ["0.1"]);
  await inEachForm(file, async (page) => {
    assert.match((await lead(page).textContent()) ?? "", /processor time|Too /);
    assert.match((await page.locator(".basis").first().textContent()) ?? "", /to each server/);
  });
});
