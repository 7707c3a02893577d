/**
 * Fails if the first view is larger than its limit: everything that the browser loads before the
 * overview is complete, compressed as the hub sends it. Fonts are compressed already.
 */
import { readFileSync } from "node:fs";
import { gzipSync } from "node:zlib";

const LIMIT = 150 * 1024;
const DIST = new URL("../dist/", import.meta.url);

interface Chunk {
  file: string;
  imports?: string[];
  css?: string[];
  assets?: string[];
}

const read = (file: string) => readFileSync(new URL(file, DIST));
const manifest: Record<string, Chunk> = JSON.parse(read(".vite/manifest.json").toString());

const files = new Set<string>(["index.html", "theme.js", "favicon.svg"]);
function add(name: string): void {
  const chunk = manifest[name];
  if (!chunk) {
    throw new Error(`the build has no ${name}`);
  }
  for (const file of [chunk.file, ...(chunk.css ?? []), ...(chunk.assets ?? [])]) {
    files.add(file);
  }
  for (const other of chunk.imports ?? []) {
    add(other);
  }
}
add("index.html");
add("src/pages/Overview.tsx");

let total = 0;
for (const file of files) {
  const bytes = file.endsWith(".woff2") ? read(file).length : gzipSync(read(file)).length;
  total += bytes;
  console.log(`${String(bytes).padStart(8)}  ${file}`);
}
console.log(`${String(total).padStart(8)}  first view, of ${LIMIT} bytes`);
if (total > LIMIT) {
  console.error("the first view is too large");
  process.exit(1);
}
