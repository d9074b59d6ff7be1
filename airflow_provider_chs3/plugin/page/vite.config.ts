// What is built goes to ../static: main.js, which Airflow's UI imports, and the licences of what is bundled in it.
import { readFileSync } from "node:fs";
import { defineConfig } from "vitest/config";
import type { Plugin } from "vite";

const NOTICES = "third-party-notices.md";

// Vite lists the licences of the bundled packages, but not its own, although it adds a function to main.js.
function licenceOfVite(): string {
  const { version } = JSON.parse(readFileSync("node_modules/vite/package.json", "utf-8")) as { version: string };
  const licence = readFileSync("node_modules/vite/LICENSE.md", "utf-8").match(/^MIT License\n\n(.*?)\n# /ms)?.[1] ?? "";
  return `\n## vite - ${version} (MIT)\n\n${licence.trim()}\n`;
}

const noticeOfVite: Plugin = {
  name: "notice-of-vite",
  generateBundle: {
    order: "post",
    handler(_, bundle) {
      const notices = bundle[NOTICES];
      if (notices?.type === "asset") {
        notices.source = `${String(notices.source)}${licenceOfVite()}`;
      }
    },
  },
};

// Airflow's UI provides these as globals, so that the page shares its React and its router.
const HOST = {
  react: "React",
  "react-dom": "ReactDOM",
  "react-router-dom": "ReactRouterDOM",
  "react/jsx-runtime": "ReactJSXRuntime",
};

export default defineConfig({
  plugins: [noticeOfVite],
  define: { "process.env.NODE_ENV": JSON.stringify(process.env.VITEST ? "test" : "production") },
  build: {
    outDir: "../static",
    emptyOutDir: true,
    license: { fileName: NOTICES },
    lib: { entry: "src/main.tsx", name: "AirflowPlugin", formats: ["umd"], fileName: () => "main.js" },
    rolldownOptions: {
      external: Object.keys(HOST),
      output: { globals: HOST },
      // Libraries mark what runs only in browsers, which all of this does.
      onLog(level, log, handle) {
        if (log.code !== "MODULE_LEVEL_DIRECTIVE") {
          handle(level, log);
        }
      },
    },
  },
});
