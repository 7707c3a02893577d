import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Server } from "../../src/api/types.ts";
import { firstOf, freePort, ROOT, Running, run, until } from "./processes.ts";

/** The hub under test, and a shipper that sends it a log directory. */
export interface Hub {
  url: string;
  /** The one-time link that the first start has printed. */
  link: string;
  /** A token of an auditor. */
  token: string;
  /** The file with the hub's public key. */
  keyFile: string;
  start: () => Promise<void>;
  stop: (signal?: NodeJS.Signals) => Promise<void>;
  /** Stops everything and removes the data. */
  end: () => Promise<void>;
}

const target = process.env.CARGO_TARGET_DIR ?? `${ROOT}target`;
const SERVER = "db1";

export async function startHub(logDirectory: string): Promise<Hub> {
  const program = firstOf(
    "tacho-hub (make build)",
    process.env.TACHO_HUB_PROGRAM,
    `${ROOT}build/bin/tacho-hub`,
    `${target}/debug/tacho-hub`,
  );
  const directory = mkdtempSync(join(tmpdir(), "tacho-ui-hub-"));
  const data = join(directory, "data");
  const port = await freePort();
  const url = `http://127.0.0.1:${port}`;
  let running: Running | undefined;
  const start = async () => {
    running = new Running(program, ["serve", "--data", data, "--listen", `127.0.0.1:${port}`]);
    await running.says(/listening on (\S+)/);
  };
  await start();
  const link = (await running?.says(/(http\S+\/sign-in#\S+)/)) ?? "";
  const token = async (...role: string[]) => {
    const created = await run(program, ["token", "create", "--data", data, "--role", ...role]);
    if (!created.ok) {
      throw new Error(created.text);
    }
    return created.text.trim();
  };
  const file = join(directory, "token");
  writeFileSync(file, await token("agent", "--server", SERVER), { mode: 0o600 });
  const shipper = startShipper(logDirectory, url, file);
  return {
    url,
    link,
    token: await token("auditor"),
    keyFile: join(data, "hub.pub"),
    start,
    stop: async (signal) => running?.stop(signal),
    end: async () => {
      await shipper.stop();
      await running?.stop();
      rmSync(directory, { recursive: true });
    },
  };
}

/** The command `tacho`. */
export const tacho = () =>
  firstOf("tacho (make build)", process.env.TACHO_PROGRAM, `${ROOT}build/bin/tacho`);

function startShipper(logDirectory: string, url: string, tokenFile: string): Running {
  const where = ["--hub", url, "--token-file", tokenFile, "--name", SERVER];
  return new Running(tacho(), ["ship", logDirectory, ...where]);
}

/** Waits until the seal of everything that has arrived is verified. */
export async function untilVerified(hub: Hub): Promise<void> {
  const headers = { Authorization: `Bearer ${hub.token}` };
  await until("a checkpoint that covers all records", async () => {
    const answer = await fetch(`${hub.url}/api/v1/servers`, { headers });
    const servers = (await answer.json()) as Server[];
    const server = servers.find((one) => one.server === SERVER);
    const isVerified = server?.landed_seq && server.verified_to_seq === server.landed_seq;
    return isVerified ? true : undefined;
  });
}
