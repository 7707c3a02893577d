import { type ChildProcess, spawn } from "node:child_process";
import { existsSync } from "node:fs";
import { createServer } from "node:net";

/** The root of the repository. */
export const ROOT = new URL("../../../", import.meta.url).pathname;

/** The first of these files that exists. */
export function firstOf(what: string, ...files: (string | undefined)[]): string {
  const found = files.find((file) => file !== undefined && existsSync(file));
  if (found === undefined) {
    throw new Error(`there is no ${what}: ${files.filter(Boolean).join(", ")}`);
  }
  return found;
}

export async function freePort(): Promise<number> {
  return new Promise((resolve, reject) => {
    const server = createServer();
    server.on("error", reject);
    server.listen(0, "127.0.0.1", () => {
      const address = server.address();
      server.close(() => resolve(typeof address === "object" && address ? address.port : 0));
    });
  });
}

const sleep = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms));
const PATIENCE_MS = 30_000;

/** Asks until there is an answer. */
export async function until<T>(what: string, ask: () => Promise<T | undefined>): Promise<T> {
  const end = Date.now() + PATIENCE_MS;
  for (;;) {
    const answer = await ask();
    if (answer !== undefined) {
      return answer;
    }
    if (Date.now() > end) {
      throw new Error(`waited ${PATIENCE_MS} ms for ${what}`);
    }
    await sleep(100);
  }
}

/** Runs a program to its end; its output, and whether it succeeded. */
export async function run(
  program: string,
  args: string[],
  input = "",
): Promise<{ ok: boolean; text: string }> {
  return new Promise((resolve, reject) => {
    const child = spawn(program, args, { stdio: ["pipe", "pipe", "pipe"] });
    let text = "";
    child.stdout.on("data", (bytes) => {
      text += bytes;
    });
    child.stderr.on("data", (bytes) => {
      text += bytes;
    });
    child.on("error", reject);
    child.on("close", (code) => resolve({ ok: code === 0, text }));
    // A client whose login fails reads nothing of it.
    child.stdin.on("error", () => {});
    child.stdin.end(input);
  });
}

/** A process that runs beside the test, with what it has written so far. */
export class Running {
  text = "";
  readonly child: ChildProcess;
  readonly #ended: Promise<void>;

  constructor(program: string, args: string[]) {
    this.child = spawn(program, args, { stdio: ["ignore", "pipe", "pipe"] });
    for (const stream of [this.child.stdout, this.child.stderr]) {
      stream?.on("data", (bytes) => {
        this.text += bytes;
      });
    }
    this.#ended = new Promise((resolve) => this.child.on("close", () => resolve()));
  }

  async stop(signal: NodeJS.Signals = "SIGTERM"): Promise<void> {
    this.child.kill(signal);
    await this.#ended;
  }

  /** What a pattern finds in the output, as soon as it does. */
  async says(pattern: RegExp): Promise<string> {
    return until(`${pattern} in the output of ${this.child.spawnfile}`, async () => {
      if (this.child.exitCode !== null) {
        throw new Error(`${this.child.spawnfile} has ended: ${this.text}`);
      }
      return pattern.exec(this.text)?.[1];
    });
  }
}
