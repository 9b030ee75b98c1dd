import { fileURLToPath } from "node:url";
import { defineConfig } from "vite";

const path = (relative: string) => fileURLToPath(new URL(relative, import.meta.url));

export default defineConfig({
  // Every URL is relative, so that the page works below any path.
  base: "./",
  resolve: {
    alias: {
      "@twostep/client": path("../clients/typescript/src/index.ts"),
      "eventsource-parser": path("node_modules/eventsource-parser/dist/index.js"),
    },
  },
  build: {
    target: "es2023",
    // The content security policy forbids data URLs of scripts and inline styles.
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    sourcemap: false,
    license: { fileName: "licenses.txt" },
  },
});
