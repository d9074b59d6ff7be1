// The theme: Airflow's, or on older versions of Airflow one that has its colours.
import { createSystem, defaultConfig, type SystemContext } from "@chakra-ui/react";

const SHADES = ["contrast", "fg", "subtle", "muted", "emphasized", "solid", "focusRing"];
const dashed = (name: string) => name.replace(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`);
const ofDocument = (palette: string, shade: string) => ({
  value: `var(--chakra-colors-${palette}${shade === "DEFAULT" ? "" : `-${dashed(shade)}`})`,
});

// What Airflow 3.1 has in its document: it gives no theme.
function documentColors() {
  const palettes = Object.entries(defaultConfig.theme?.semanticTokens?.colors ?? {});
  const shades = [...palettes.map(([palette, found]) => [palette, Object.keys(found)] as const), ["brand", SHADES] as const];
  return Object.fromEntries(shades.map(([palette, names]) => [
    palette, Object.fromEntries(names.map((shade) => [shade, ofDocument(palette, shade)])),
  ]));
}

// The theme of 3.2 is of a version of Chakra without what this one calls: of that the colours and fonts are taken. Names of
// their own keep the page's variables apart from Airflow's, whose look must not change.
export function systemOf(host: SystemContext | undefined): SystemContext {
  const { tokens, semanticTokens = { colors: documentColors() } } = host?._config.theme ?? {};
  if (host && "getRecipeFn" in host) {
    return host;
  }
  return createSystem(
    { ...defaultConfig, preflight: false, cssVarsPrefix: "chs3", globalCss: { html: { colorPalette: "gray" } } },
    { theme: tokens ? { tokens, semanticTokens } : { semanticTokens } },
  );
}
