// Bundles the scripts of the pages into the package, where the node finds them.
import { build } from "esbuild";

await build({
  absWorkingDir: import.meta.dirname,
  entryPoints: ["src/pages.ts", "src/editor.ts", "src/charts.ts", "src/history.ts"],
  outdir: "../src/headrace/frontends/web/assets/built",
  bundle: true,
  minify: true,
  format: "iife",
  target: "es2022",
  legalComments: "inline",
  // `scripts/setup-web` compares it with that of the sources.
  banner: { js: process.env.FINGERPRINT ?? "" },
  logLevel: "warning",
});
