// What is built goes to ../static, flat and under names of its own choice: app.py serves that folder, page.html names page.js.
import { readFileSync } from "node:fs";
import { defineConfig } from "vite";

const NOTICES = "third-party-notices.md";

// Vite tells the licences of the packages that are bundled, and leaves itself out, of which a function is added to page.js.
function licenceOfVite() {
  const { version } = JSON.parse(readFileSync("node_modules/vite/package.json", "utf-8"));
  const [, text] = readFileSync("node_modules/vite/LICENSE.md", "utf-8").match(/^MIT License\n\n(.*?)\n# /ms);
  return `\n## vite - ${version} (MIT)\n\n${text.trim()}\n`;
}

const noticeOfVite = {
  name: "notice-of-vite",
  generateBundle: {
    order: "post",
    handler(_, bundle) {
      bundle[NOTICES].source += licenceOfVite();
    },
  },
};

export default defineConfig({
  base: "./",
  plugins: [noticeOfVite],
  build: {
    outDir: "../static",
    emptyOutDir: true,
    // Of packages whose scripts are bundled: one that gives styles alone would not be told.
    license: { fileName: NOTICES },
    // Scripts that come with a view are few and near.
    modulePreload: false,
    rolldownOptions: {
      input: "src/page.js",
      // Nothing of the page is cached, so that names need no hashes.
      output: { entryFileNames: "[name].js", chunkFileNames: "[name].js", assetFileNames: "[name][extname]" },
    },
  },
});
