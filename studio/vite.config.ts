import { defineConfig } from "vite";

// Built into the Python package; node is needed only here. Names carry a hash of what is in them, so they are cached for ever.
export default defineConfig({
  base: "./",
  esbuild: { jsx: "automatic", jsxImportSource: "preact", legalComments: "none" },
  build: {
    outDir: "../src/foldline/studio/page",
    emptyOutDir: true,
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    reportCompressedSize: true,
  },
});
