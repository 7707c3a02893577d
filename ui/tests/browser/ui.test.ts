import assert from "node:assert/strict";
import { readFileSync, writeFileSync } from "node:fs";
import { after, before, test } from "node:test";
import type { Page } from "playwright-core";
import { HOSTILE } from "./database.ts";
import { tacho, untilVerified } from "./hub.ts";
import { run, until } from "./processes.ts";
import { begin, open, signedIn, type World } from "./world.ts";

let world: World;
before(async () => {
  world = await begin();
});
after(() => world?.end());

const rows = (page: Page) => page.getByRole("option");
const search = (page: Page) => page.getByRole("combobox", { name: "Search" });
const params = (page: Page) => new URL(page.url()).searchParams;

test("a wrong token is refused, the one-time link signs in and leaves the address", async () => {
  const { page, problems } = await open(world);
  await page.goto(`${world.hub.url}/search?q=user:app`);
  await page.getByRole("button", { name: "Token" }).click();
  await page.getByLabel("Token").fill("wrong");
  await page.getByRole("button", { name: "Sign in" }).click();
  await page.getByRole("alert").waitFor();
  await page.goto(world.hub.link);
  await page.getByRole("heading", { name: "Overview" }).waitFor();
  assert.equal(new URL(page.url()).hash, "");
  assert.deepEqual(problems, []);
});

test("the overview shows load, proof and what costs most", async () => {
  const { page, problems } = await signedIn(world, "/");
  await page.locator(".chart canvas").nth(3).waitFor();
  await page.getByRole("region", { name: "Servers" }).getByRole("link").nth(1).waitFor();
  const top = page.getByRole("region", { name: "Statements by time" });
  await top.getByRole("row").filter({ hasText: "SLEEP" }).waitFor();
  await top.getByRole("link").filter({ hasText: "SLEEP" }).click();
  await page.getByRole("heading", { name: "Newest executions" }).waitFor();
  assert.match(page.url(), /\/statements\/\d/);
  assert.deepEqual(problems, []);
});

test("a search is typed, refined by a click, zoomed by a drag, and undone by Back", async () => {
  const { page, problems } = await signedIn(world, "/search");
  await page.keyboard.press("/");
  await page.keyboard.type("user:app errno:>0");
  await page.keyboard.press("Enter");
  await rows(page).first().waitFor();
  await page.getByText("2 records", { exact: true }).waitFor();
  assert.equal(params(page).get("q"), "user:app errno:>0");

  await page.getByRole("region", { name: "Error" }).getByRole("button", { name: /^1064/ }).click();
  await page.getByText("1 record", { exact: true }).waitFor();
  assert.equal(params(page).get("q"), "user:app errno:>0 errno:1064");
  await page.goBack();
  await page.getByText("2 records", { exact: true }).waitFor();

  const histogram = page.locator(".histogram");
  const box = await histogram.boundingBox();
  assert.ok(box);
  await page.mouse.move(box.x + box.width * 0.5, box.y + 20);
  await page.mouse.down();
  await page.mouse.move(box.x + box.width * 0.98, box.y + 20, { steps: 5 });
  await page.mouse.up();
  await page.waitForURL(/from=20/);
  assert.ok(Date.parse(params(page).get("from") ?? "") < Date.parse(params(page).get("to") ?? ""));
  assert.deepEqual(problems, []);
});

test("an error of the query is shown at its place and the page goes on", async () => {
  const { page, problems } = await signedIn(world, "/search?q=usr:app");
  await page.locator(".query-error mark", { hasText: "usr" }).waitFor();
  assert.equal(await rows(page).count(), 0);
  await search(page).fill('"open');
  await search(page).press("Enter");
  await page.locator(".query-error").waitFor();
  await search(page).fill("user:app");
  await search(page).press("Enter");
  await rows(page).first().waitFor();
  assert.equal(await page.locator(".query-error").count(), 0);
  assert.deepEqual(problems, []);
});

test("names of fields are suggested", async () => {
  const { page } = await signedIn(world, "/search");
  await search(page).pressSequentially("rows_e");
  await page.getByRole("option", { name: /rows_examined/ }).waitFor();
  await search(page).press("Tab");
  assert.equal(await search(page).inputValue(), "rows_examined:");
});

test("the keys lead from the list to a record, its neighbor and its connection", async () => {
  const { page, problems } = await signedIn(world, "/search?q=user:app%20sql_command:select");
  await rows(page).first().waitFor();
  await page.getByRole("listbox", { name: "Records" }).focus();
  await page.keyboard.press("ArrowDown");
  await page.keyboard.press("ArrowDown");
  assert.equal(await page.getByRole("option", { selected: true }).count(), 1);
  await page.getByRole("complementary", { name: "Record" }).getByText("query_time_us").waitFor();
  await page.keyboard.press("Escape");
  await page.keyboard.press("ArrowDown");
  await page.keyboard.press("Enter");
  await page.getByRole("region", { name: "Proof" }).waitFor();
  const seq = Number(/\/records\/[^/]+\/(\d+)/.exec(page.url())?.[1]);
  await page.keyboard.press("ArrowRight");
  await page.waitForURL(new RegExp(`/records/[^/]+/${seq + 1}`));

  await page.getByRole("button", { name: "Line as it is in the file" }).click();
  await page.locator(".raw pre", { hasText: `"seq":${seq + 1},` }).waitFor();
  await page.getByRole("link", { name: /^Connection \d+/ }).click();
  await rows(page).filter({ hasText: "Connected" }).waitFor();
  assert.deepEqual(problems, []);
});

test("a connection shows its transaction and its errors", async () => {
  const { page } = await signedIn(world, "/search?q=sql:BEGIN%20user:app");
  await rows(page).first().click();
  await page.getByRole("link", { name: /^Connection \d+/ }).click();
  await page.locator(".bracket.begin").waitFor();
  assert.ok((await page.locator(".bracket.inside").count()) > 5);
});

test("new records appear in the live view", async () => {
  const { page, problems } = await signedIn(world, "/search?q=live_tail_marker&live=1");
  await page.getByText("Waiting for records").waitFor();
  await world.database.send("SELECT 'live_tail_marker'");
  await rows(page).filter({ hasText: "live_tail_marker" }).first().waitFor();
  assert.deepEqual(problems, []);
});

test("searches are saved in the browser", async () => {
  const { page } = await signedIn(world, "/search?q=user:batch");
  await page.getByRole("button", { name: "Saved searches" }).click();
  await page.getByLabel("Name of this search").fill("Reports");
  await page.getByRole("button", { name: "Save", exact: true }).click();
  await page.goto(`${world.hub.url}/search`);
  await page.getByRole("button", { name: "Saved searches" }).click();
  await page.getByRole("button", { name: "Reports", exact: true }).click();
  await page.waitForURL(/q=user%3Abatch/);
});

test("evidence of a search is downloaded, and verified without the hub", async () => {
  const { page, problems } = await signedIn(world, "/search?q=user:batch&server=db1");
  await rows(page).first().waitFor();
  await untilVerified(world.hub);
  const [download] = await Promise.all([
    page.waitForEvent("download"),
    page.getByRole("button", { name: "Export evidence" }).click(),
  ]);
  const bundle = await download.path();
  const verify = (file: string) => run(tacho(), ["verify", file, "--hub-key", world.hub.keyFile]);
  const proof = await verify(bundle);
  assert.ok(proof.ok, proof.text);
  const shown = await page.getByText(/^[\d,]+ records$/).textContent();
  assert.match(proof.text, new RegExp(`^${shown}, ${shown?.split(" ")[0]} of them proven$`, "m"));

  const changed = `${bundle}.changed`;
  const bytes = readFileSync(bundle, "latin1");
  writeFileSync(changed, bytes.replace("SLEEP(0.3)", "SLEEP(0.4)"), "latin1");
  const refused = await verify(changed);
  assert.ok(!refused.ok, refused.text);
  assert.deepEqual(problems, []);
});

test("hostile text is only text, on every page", async () => {
  const { page, problems } = await signedIn(world, "/search?q=sql_command:select");
  await search(page).fill(`user:"${HOSTILE.user}"`);
  await search(page).press("Enter");
  await rows(page).filter({ hasText: "</pre><script>" }).first().click();
  const record = page.getByRole("complementary", { name: "Record" });
  await record.getByText(HOSTILE.user).first().waitFor();
  await record.locator(".hidden-character", { hasText: "U+202E" }).first().waitFor();
  await record.getByRole("link", { name: "Open" }).click();
  await page.getByRole("region", { name: "Proof" }).waitFor();
  await page.getByRole("link", { name: /^Connection \d+/ }).click();
  await rows(page).filter({ hasText: "</pre><script>" }).waitFor();
  for (const path of ["/", "/statements", "/statements?by=user", "/statements?by=db", "/search"]) {
    await page.goto(world.hub.url + path);
    await page
      .getByText(/onload=alert|onerror=alert|<script>/)
      .first()
      .waitFor({ state: "attached" });
  }
  assert.equal(await page.locator("#app script, #app img, #app iframe").count(), 0);
  assert.deepEqual(problems, []);
});

test("a session that ended asks to sign in and returns to the same place", async () => {
  const { page, context, problems } = await signedIn(world, "/search?q=user:batch&order=asc");
  await rows(page).first().waitFor();
  await context.clearCookies();
  await page.getByText("Your session has ended").waitFor();
  await page.getByRole("button", { name: "Token" }).click();
  await page.getByLabel("Token").fill(world.hub.token);
  await page.getByRole("button", { name: "Sign in" }).click();
  await rows(page).first().waitFor();
  assert.equal(params(page).get("q"), "user:batch");
  assert.deepEqual(problems, []);
});

test("a page survives that the hub is killed and started again", async () => {
  const { page, problems } = await signedIn(world, "/");
  await page.locator(".chart canvas").nth(3).waitFor();
  await world.hub.stop("SIGKILL");
  await page.getByText("The hub does not answer").first().waitFor();
  assert.ok((await page.locator(".chart canvas").count()) >= 4, "what was shown stays");
  await world.hub.start();
  await page.getByText("The hub does not answer").first().waitFor({ state: "detached" });
  assert.deepEqual(problems, []);
});

test("keys go to pages and show the shortcuts", async () => {
  const { page } = await signedIn(world, "/");
  for (const [key, title] of [
    ["v", "Servers"],
    ["t", "Statements"],
    ["a", "Alerts"],
    ["s", "Search"],
    ["o", "Overview"],
  ] as const) {
    await page.keyboard.press("g");
    await page.keyboard.press(key);
    await page.getByRole("heading", { name: title, level: 1 }).waitFor();
  }
  await page.keyboard.press("?");
  await page.getByRole("dialog", { name: "Keyboard shortcuts" }).waitFor();
  await page.keyboard.press("Escape");
  await page.getByRole("dialog").waitFor({ state: "detached" });
});

test("nothing is wider than a narrow screen, in light and dark", async () => {
  const { page } = await signedIn(world, "/", { width: 420, height: 860 });
  const paths = ["/", "/search", "/search?q=usr:x", "/statements", "/servers", "/alerts"];
  for (const colorScheme of ["light", "dark"] as const) {
    await page.emulateMedia({ colorScheme });
    for (const path of paths) {
      await page.goto(world.hub.url + path);
      await page.getByRole("heading", { level: 1 }).waitFor();
      const excess = await until("a layout", async () =>
        page.evaluate(() => document.documentElement.scrollWidth - innerWidth),
      );
      assert.ok(excess <= 0, `${path} is ${excess} px too wide`);
    }
  }
});

test("a time range is typed, and nonsense is refused", async () => {
  const { page, problems } = await signedIn(world, "/search");
  await page.getByRole("button", { name: "Time range" }).click();
  const menu = page.getByRole("dialog", { name: "Time range" });
  await menu.getByLabel("From").fill("yesterday");
  await menu.getByRole("button", { name: "Apply" }).click();
  await menu.getByRole("alert").waitFor();
  await menu.getByLabel("From").fill("2001-02-03 04:05");
  await menu.getByLabel("To").fill("2001-02-03");
  await menu.getByRole("button", { name: "Apply" }).click();
  await menu.getByText("must end after").waitFor();
  await menu.getByLabel("To").fill("2001-02-04");
  await menu.getByRole("button", { name: "Apply" }).click();
  await page.getByText("Nothing found").waitFor();
  await page.getByRole("button", { name: "Last 24 hours" }).click();
  await rows(page).first().waitFor();
  assert.equal(params(page).get("from"), "-24h");
  assert.deepEqual(problems, []);
});

test("a server is chosen for all pages", async () => {
  const { page } = await signedIn(world, "/");
  await page.getByRole("button", { name: "Servers" }).click();
  await page.getByRole("dialog", { name: "Servers" }).getByRole("button", { name: "db1" }).click();
  await page.keyboard.press("Escape");
  await page.keyboard.press("g");
  await page.keyboard.press("s");
  await page.getByRole("heading", { name: "Search", level: 1 }).waitFor();
  assert.deepEqual(params(page).getAll("server"), ["db1"]);
});

test("chosen colors are there before the first paint of the next visit", async () => {
  const { page } = await signedIn(world, "/");
  await page.getByRole("button", { name: "Account and settings" }).first().click();
  await page.getByRole("button", { name: "Dark" }).click();
  await page.reload({ waitUntil: "commit" });
  await page.locator("body").waitFor({ state: "attached" });
  assert.equal(await page.evaluate(() => document.documentElement.dataset.theme), "dark");
});

// The last one: the database is gone after it.
test("a server that stops raises an alert, which is acknowledged with a note", async () => {
  const { page, problems } = await signedIn(world, "/alerts");
  await world.database.stop();
  const acknowledge = page.getByRole("button", { name: "Acknowledge", exact: true });
  // The shipper reports every ten seconds.
  await acknowledge.first().click({ timeout: 60_000 });
  const dialog = page.getByRole("dialog", { name: "Acknowledge the alert" });
  assert.ok(await dialog.getByRole("button", { name: "Acknowledge" }).isDisabled());
  const note = "Stopped for a test <b>of mine</b>";
  await page.keyboard.type(note);
  await dialog.getByRole("button", { name: "Acknowledge" }).click();
  await dialog.waitFor({ state: "detached" });
  await page.getByRole("button", { name: "Acknowledged", exact: true }).click();
  await page.getByText(note).waitFor();
  assert.deepEqual(problems, []);
});
