/** Compresses the files of the build once, so that the hub need not do it for each request. */
import { readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { constants, gzipSync } from "node:zlib";

const DIST = new URL("../dist/", import.meta.url);

const list = () => readdirSync(DIST, { recursive: true, encoding: "utf8" });

for (const entry of list().filter((name) => name.endsWith(".gz"))) {
  rmSync(new URL(entry, DIST));
}
for (const entry of list().filter((name) => /\.(css|html|js|svg)$/.test(name))) {
  const bytes = gzipSync(readFileSync(new URL(entry, DIST)), {
    level: constants.Z_BEST_COMPRESSION,
  });
  writeFileSync(new URL(`${entry}.gz`, DIST), bytes);
}
