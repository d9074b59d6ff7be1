// The theme: Airflow's, or on older versions of Airflow one of the page's own.
import { createSystem, defaultConfig, type SystemContext } from "@chakra-ui/react";

const SHADES = ["contrast", "fg", "subtle", "muted", "emphasized", "solid", "focusRing"];
const BRAND = { colors: { brand: Object.fromEntries(SHADES.map((shade) => [shade, { value: `{colors.blue.${shade}}` }])) } };

// Airflow 3.1 gives none, and that of 3.2 is of a version of Chakra without what this one calls: of that the colours and
// fonts are taken. Names of their own keep the page's variables apart from Airflow's, whose look must not change.
export function systemOf(host: SystemContext | undefined): SystemContext {
  const { tokens, semanticTokens = BRAND } = host?._config.theme ?? {};
  if (host && "getRecipeFn" in host) {
    return host;
  }
  return createSystem(
    { ...defaultConfig, preflight: false, cssVarsPrefix: "chs3", globalCss: { html: { colorPalette: "gray" } } },
    { theme: tokens ? { tokens, semanticTokens } : { semanticTokens } },
  );
}
