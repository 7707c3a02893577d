import { copyFileSync, mkdirSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { firstOf, freePort, ROOT, Running, run, until } from "./processes.ts";

/** What clients send to attack the page that shows it: each would call `alert` if it ran. */
export const HOSTILE = {
  user: "<svg/onload=alert(1)>",
  db: "<img src=x onerror=alert(2)>",
  table: '"><script>alert(3)</script>',
  // biome-ignore lint/suspicious/noTemplateCurlyInString: an attack on template languages
  sql: "SELECT '</pre><script>alert(4)</script>', '\u202egnp.exe\u202c', '{{7*7}}${alert(5)}'",
};

/** A MariaDB that records, with a few connections' worth of statements. */
export interface Database {
  logDirectory: string;
  /** Sends statements in one connection; errors are part of the load. */
  send: (sql: string, user?: string, db?: string) => Promise<void>;
  stop: () => Promise<void>;
}

const name = (text: string) => `\`${text.replaceAll("`", "``")}\``;

export async function startDatabase(): Promise<Database> {
  const directory = mkdtempSync(join(tmpdir(), "tacho-ui-db-"));
  const plugin = firstOf(
    "plugin (make build)",
    process.env.TACHO_PLUGIN,
    `${ROOT}build/mariadb/tacho.so`,
  );
  const [data, plugins, socket] = ["data", "plugins", "s"].map((one) => join(directory, one));
  if (data === undefined || plugins === undefined || socket === undefined) {
    throw new Error("three names give three paths");
  }
  mkdirSync(plugins);
  copyFileSync(plugin, join(plugins, "tacho.so"));
  const isRoot = process.getuid?.() === 0;
  const user = isRoot ? ["--user=mysql"] : [];
  if (isRoot) {
    await run("chown", ["-R", "mysql:", directory]);
  }
  const made = await run("mariadb-install-db", ["--no-defaults", ...user, `--datadir=${data}`]);
  if (!made.ok) {
    throw new Error(made.text);
  }
  const port = await freePort();
  const server = new Running("mariadbd", [
    ...["--no-defaults", ...user, `--datadir=${data}`, `--socket=${socket}`, `--port=${port}`],
    ...["--bind-address=127.0.0.1", "--skip-name-resolve", `--plugin-dir=${plugins}`],
    ...["--plugin-load-add=tacho", "--tacho-checkpoint-interval-s=1"],
    "--innodb-buffer-pool-size=16M",
  ]);
  await server.says(/(ready for connections)/);
  const send = async (sql: string, as = "root", db?: string) => {
    const way = as === "root" ? [`--socket=${socket}`] : ["-h127.0.0.1", `-P${port}`, "-psecret"];
    await run("mariadb", ["--no-defaults", "-f", ...way, `-u${as}`, ...(db ? [db] : [])], sql);
  };
  await fill(send);
  return {
    logDirectory: join(data, "tacho"),
    send,
    stop: async () => {
      await server.stop();
      rmSync(directory, { recursive: true, force: true });
    },
  };
}

async function fill(send: Database["send"]): Promise<void> {
  const users = ["app", "batch", HOSTILE.user];
  await send(
    [
      `CREATE DATABASE shop; CREATE DATABASE ${name(HOSTILE.db)};`,
      "CREATE TABLE shop.orders (id INT PRIMARY KEY, total INT);",
      `CREATE TABLE ${name(HOSTILE.db)}.${name(HOSTILE.table)} (a INT);`,
      ...users.map((one) => `CREATE USER '${one}'@'%' IDENTIFIED BY 'secret';`),
      ...users.map((one) => `GRANT ALL ON *.* TO '${one}'@'%';`),
    ].join("\n"),
  );
  const inserts = Array.from(
    { length: 150 },
    (_, i) => `INSERT INTO orders VALUES (${i}, ${i % 7});`,
  );
  await send(`BEGIN;\n${inserts.join("\n")}\nCOMMIT;`, "app", "shop");
  const selects = Array.from(
    { length: 150 },
    (_, i) => `SELECT total FROM orders WHERE id = ${i};`,
  );
  await send(`${selects.join("\n")}\nSELECT nothing FROM orders;\nSELCT 1;`, "app", "shop");
  await send("SELECT SLEEP(0.3), 'report';\nUPDATE orders SET total = total + 1;", "batch", "shop");
  await send(`${HOSTILE.sql};\nSELECT * FROM ${name(HOSTILE.table)};`, HOSTILE.user, HOSTILE.db);
  await send("SELECT 1", "nobody");
}

/** Waits until the hub can find what was sent. */
export async function untilFound(
  url: string,
  headers: Record<string, string>,
  q: string,
  count: number,
): Promise<void> {
  await until(`${count} records of ${q}`, async () => {
    const answer = await fetch(`${url}/api/v1/histogram?from=-1h&q=${encodeURIComponent(q)}`, {
      headers,
    });
    const { total } = (await answer.json()) as { total?: number };
    return (total ?? 0) >= count ? true : undefined;
  });
}
