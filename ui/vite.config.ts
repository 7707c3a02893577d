import { defineConfig } from "vite";
import solid from "vite-plugin-solid";

/** The hub that `npm run dev` talks to. */
const hub = process.env.TACHO_HUB ?? "http://127.0.0.1:7780";

export default defineConfig({
  plugins: [solid()],
  server: { proxy: { "/api": { target: hub } }, fs: { allow: [".."] } },
  build: {
    // dist/.gitignore stays: the folder exists in every clone, so that the hub compiles without Node.
    emptyOutDir: false,
    target: ["chrome123", "firefox121", "safari17.5"],
    // The content security policy has no `data:` for fonts and scripts.
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    // scripts/size.ts reads it to find what the first view loads.
    manifest: true,
  },
});
