/**
 * Builds the page into the Python package, with a hash of the sources it was built from and the
 * licences of what others wrote of it.
 */
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
  writeBundle() {
    writeFileSync(join(built, "source.sha256"), `${sourceHash()}\n`);
  },
};

/** Where the licences of bundled packages lie beside the page. */
const NOTICES = "third-party.txt";

/** The folder of the package that a module belongs to, unless it is our own. */
function packageFolder(module: string): string | null {
  return /[^\0]*\/node_modules\/(?:@[^/]+\/)?[^/]+/.exec(module.split(sep).join("/"))?.[0] ?? null;
}

function noticeOf(folder: string): string {
  const about = JSON.parse(readFileSync(join(folder, "package.json"), "utf-8")) as {
    name: string;
    version: string;
    license: string;
  };
  const file = readdirSync(folder).find((name) => /^(licen[cs]e|copying)/i.test(name));
  if (!file) throw new Error(`${about.name} has no file with its licence`);
  const text = readFileSync(join(folder, file), "utf-8").replaceAll("\r\n", "\n").trim();
  return `${about.name} ${about.version} (${about.license})\n\n${text}\n`;
}

const notices: Plugin = {
  name: "notices",
  generateBundle(_, bundle) {
    const modules = Object.values(bundle).flatMap((part) =>
      part.type === "chunk" ? Object.keys(part.modules) : [],
    );
    const folders = new Set(modules.map(packageFolder).filter((folder) => folder !== null));
    const rule = `\n${"-".repeat(72)}\n\n`;
    const head = "The page of the workbench contains these packages, under these licences.\n";
    const source = [head, ...[...folders].sort().map(noticeOf)].join(rule);
    this.emitFile({ type: "asset", fileName: NOTICES, source });
  },
};

export default defineConfig({
  base: "./",
  plugins: [react(), notices, stamp],
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
