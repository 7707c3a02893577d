/** Compresses the files of the build once, so that the hub need not do it for each request. */
import { readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { constants, gzipSync } from "node:zlib";

const DIST = new URL("../dist/", import.meta.url);

for (const entry of readdirSync(DIST, { recursive: true, encoding: "utf8" })) {
  const file = new URL(entry, DIST);
  if (entry.endsWith(".gz")) {
    rmSync(file);
  } else if (/\.(css|html|js|svg)$/.test(entry)) {
    const bytes = gzipSync(readFileSync(file), { level: constants.Z_BEST_COMPRESSION });
    writeFileSync(new URL(`${entry}.gz`, DIST), bytes);
  }
}
