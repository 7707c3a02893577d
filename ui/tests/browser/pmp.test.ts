// The page of `tacho pmp`: not part of the web UI, but tested here, where there is a browser.

import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { type Browser, chromium, type Page } from "playwright-core";
import { tacho } from "./hub.ts";
import { firstOf, run } from "./processes.ts";

const WIDTHS = [420, 1280, 2000];

let browser: Browser;
let directory: string;
before(async () => {
  directory = mkdtempSync(join(tmpdir(), "tacho-ui-pmp-"));
  // A process that computes in one thread; those that help it wait for work.
  const busy = spawn(process.execPath, ["--eval", "for (;;) {}"], { stdio: "ignore" });
  const args = ["pmp", "--pid", String(busy.pid), "--duration", "2s", "--output", directory];
  const profiled = await run(tacho(), args);
  busy.kill();
  assert.ok(profiled.ok, profiled.text);
  browser = await chromium.launch({
    executablePath: firstOf("Chromium", process.env.TACHO_CHROMIUM, "/usr/bin/chromium"),
    args: ["--no-sandbox"],
  });
});
after(async () => {
  await browser?.close();
  rmSync(directory, { recursive: true });
});

/** The page, and what must not happen on it. */
async function open(width: number, colorScheme: "light" | "dark" = "light") {
  const page = await browser.newPage({ viewport: { width, height: 900 }, colorScheme });
  const problems: string[] = [];
  page.on("pageerror", (error) => problems.push(error.message));
  page.on("request", (request) => {
    if (!request.url().startsWith("file:")) {
      problems.push(`asks for ${request.url()}`);
    }
  });
  await page.goto(`file://${directory}/report.html`);
  return { page, problems };
}

const frames = (page: Page) => page.getByRole("treeitem");
const search = (page: Page) => page.getByRole("searchbox", { name: "Search" });
const isZoomed = (page: Page) => page.getByRole("button", { name: "Show all" }).isVisible();

test("the page fits any width, in light and dark, and asks for nothing", async () => {
  for (const width of WIDTHS) {
    for (const scheme of ["light", "dark"] as const) {
      const { page, problems } = await open(width, scheme);
      await frames(page).first().waitFor();
      const scroll = await page.evaluate(() => document.documentElement.scrollWidth);
      assert.ok(scroll <= width, `${scroll} pixels at ${width}`);
      const headings = await page.getByRole("heading", { level: 2 }).allTextContents();
      assert.equal(headings[0], "Verdict");
      assert.equal(headings.at(-1), "What to do");
      assert.deepEqual(problems, []);
      await page.close();
    }
  }
});

test("a search shows how much it found, and Esc ends it", async () => {
  const { page, problems } = await open(1280);
  await page.keyboard.press("/");
  await page.keyboard.type("NODE");
  await page.getByText(/^\d+ functions?, \d+\.\d % of the samples$/).waitFor();
  assert.ok((await page.locator(".frame.hit").count()) > 0);
  await search(page).press("Enter");
  assert.equal(await page.locator(".frame.hit:focus").count(), 1);
  await page.keyboard.press("Escape");
  assert.equal(await search(page).inputValue(), "");
  assert.equal(await page.locator(".frame.hit").count(), 0);
  await search(page).fill("no such function");
  await page.getByText("0 functions, 0.0 % of the samples").waitFor();
  assert.deepEqual(problems, []);
});

test("frames are zoomed by click and by keyboard", async () => {
  const { page, problems } = await open(1280);
  const widths = async () =>
    (await frames(page).all()).map(async (it) => (await it.boundingBox())?.width ?? 0);
  await frames(page).nth(2).click();
  assert.ok(await isZoomed(page));
  const [, state, zoomed] = await Promise.all(await widths());
  assert.equal(state, zoomed);
  await page.keyboard.press("Escape");
  assert.ok(!(await isZoomed(page)));
  const focused = () => page.evaluate(() => document.activeElement?.getAttribute("aria-level"));
  assert.equal(await focused(), "1");
  await page.keyboard.press("ArrowDown");
  await page.keyboard.press("ArrowDown");
  assert.equal(await focused(), "3");
  await page.keyboard.press("Enter");
  assert.ok(await isZoomed(page));
  await page.keyboard.press("ArrowUp");
  assert.equal(await focused(), "2");
  assert.deepEqual(problems, []);
});

test("idle threads are shown on request", async () => {
  const { page, problems } = await open(1280);
  const bar = page.locator(".bar .idle");
  assert.ok(!(await bar.isVisible()));
  await page.getByLabel("Idle threads").check();
  assert.ok(await bar.isVisible());
  await page.getByRole("treeitem", { name: /^idle: waiting for work/ }).waitFor();
  assert.deepEqual(problems, []);
});
