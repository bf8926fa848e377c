/** Builds the page into the Python package, with a hash of the sources it was built from. */
import { createHash } from "node:crypto";
import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join, relative, sep } from "node:path";
import react from "@vitejs/plugin-react";
import { defineConfig, type Plugin } from "vite";

const here = import.meta.dirname;
const built = join(here, "..", "src", "reassembly", "app", "static");
const singles = [
  "index.html",
  "package.json",
  "package-lock.json",
  "tsconfig.json",
  "vite.config.ts",
];

/** SHA-256 over "path NUL text NUL" of every source in order of its path, line ends as LF. */
function sourceHash(): string {
  const nested = readdirSync(join(here, "src"), { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => relative(here, join(entry.parentPath, entry.name)).split(sep).join("/"));
  const hash = createHash("sha256");
  for (const path of [...singles, ...nested].sort()) {
    const text = readFileSync(join(here, path), "utf-8").replaceAll("\r\n", "\n");
    hash.update(`${path}\0${text}\0`);
  }
  return hash.digest("hex");
}

const stamp: Plugin = {
  name: "stamp",
  closeBundle() {
    writeFileSync(join(built, "source.sha256"), `${sourceHash()}\n`);
  },
};

export default defineConfig({
  base: "./",
  plugins: [react(), stamp],
  build: {
    outDir: built,
    emptyOutDir: true,
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    rollupOptions: {
      output: {
        entryFileNames: "assets/[name].js",
        chunkFileNames: "assets/[name].js",
        assetFileNames: "assets/[name][extname]",
      },
    },
  },
  server: { proxy: { "/api": "http://127.0.0.1:8000" } },
});
