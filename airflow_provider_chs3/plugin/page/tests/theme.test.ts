import { expect, test } from "vitest";
import { systemOf } from "../src/ui/theme";

test("without a theme of Airflow's, the colours are those of its document", () => {
  const css = JSON.stringify(systemOf(undefined).getTokenCss());
  for (const name of ["bg", "bg-subtle", "red-solid", "blue-focus-ring", "brand-solid"]) {
    expect(css).toContain(`"--chs3-colors-${name}":"var(--chakra-colors-${name})"`);
  }
});
