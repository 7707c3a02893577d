import { type Browser, type BrowserContext, chromium, type Page } from "playwright-core";
import { type Database, startDatabase, untilFound } from "./database.ts";
import { type Hub, startHub } from "./hub.ts";
import { firstOf } from "./processes.ts";

/** Everything that the tests share: database, hub, browser. */
export interface World {
  database: Database;
  hub: Hub;
  browser: Browser;
  end: () => Promise<void>;
}

export async function begin(): Promise<World> {
  const database = await startDatabase();
  const hub = await startHub(database.logDirectory);
  const headers = { Authorization: `Bearer ${hub.token}` };
  await untilFound(hub.url, headers, "user:app", 300);
  const browser = await chromium.launch({
    executablePath: firstOf("Chromium", process.env.TACHO_CHROMIUM, "/usr/bin/chromium"),
    args: ["--no-sandbox"],
  });
  const end = async () => {
    await browser.close();
    await hub.end();
    await database.stop();
  };
  return { database, hub, browser, end };
}

/** A page that notes everything that must not happen. */
export interface Watched {
  page: Page;
  context: BrowserContext;
  problems: string[];
}

export async function open(world: World, size = { width: 1280, height: 800 }): Promise<Watched> {
  const context = await world.browser.newContext({ viewport: size });
  const page = await context.newPage();
  const problems: string[] = [];
  page.on("dialog", (dialog) => {
    problems.push(`a script ran: ${dialog.message()}`);
    void dialog.dismiss();
  });
  page.on("pageerror", (error) => problems.push(`error in the page: ${error.message}`));
  page.on("console", (message) => {
    // The browser itself reports answers with an error; the tests provoke some.
    if (message.type() === "error" && !message.text().startsWith("Failed to load resource")) {
      problems.push(message.text());
    }
  });
  page.on("request", (request) => {
    const url = new URL(request.url());
    if (url.origin !== world.hub.url && url.protocol !== "data:") {
      problems.push(`a request to another place: ${request.url()}`);
    }
  });
  return { page, context, problems };
}

/** Signs in with the token and goes to a page of the UI. */
export async function signedIn(
  world: World,
  path: string,
  size?: { width: number; height: number },
): Promise<Watched> {
  const watched = await open(world, size);
  const { page } = watched;
  await page.goto(`${world.hub.url}${path}`);
  await page.getByRole("button", { name: "Token" }).click();
  await page.getByLabel("Token").fill(world.hub.token);
  await page.getByRole("button", { name: "Sign in" }).click();
  await page.getByRole("navigation", { name: "Pages" }).first().waitFor();
  return watched;
}
