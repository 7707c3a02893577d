import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { firstOf, freePort, ROOT, Running, run } from "./processes.ts";

/** The hub under test, serving a log directory. */
export interface Hub {
  url: string;
  /** The one-time link that the first start has printed. */
  link: string;
  /** A token of an auditor. */
  token: string;
  start: () => Promise<void>;
  stop: (signal?: NodeJS.Signals) => Promise<void>;
  remove: () => void;
}

const target = process.env.CARGO_TARGET_DIR ?? `${ROOT}target`;

export async function startHub(logDirectory: string): Promise<Hub> {
  const program = firstOf(
    "tacho-hub (make build)",
    process.env.TACHO_HUB_PROGRAM,
    `${ROOT}build/bin/tacho-hub`,
    `${target}/debug/tacho-hub`,
  );
  const data = mkdtempSync(join(tmpdir(), "tacho-ui-hub-"));
  const port = await freePort();
  let running: Running | undefined;
  const start = async () => {
    const listen = `127.0.0.1:${port}`;
    running = new Running(program, [
      "serve",
      "--data",
      data,
      "--listen",
      listen,
      "--log",
      logDirectory,
    ]);
    await running.says(/listening on (\S+)/);
  };
  await start();
  const link = (await running?.says(/(http\S+\/sign-in#\S+)/)) ?? "";
  const created = await run(program, ["token", "create", "--data", data, "--role", "auditor"]);
  if (!created.ok) {
    throw new Error(created.text);
  }
  return {
    url: `http://127.0.0.1:${port}`,
    link,
    token: created.text.trim(),
    start,
    stop: async (signal) => running?.stop(signal),
    remove: () => rmSync(data, { recursive: true }),
  };
}
