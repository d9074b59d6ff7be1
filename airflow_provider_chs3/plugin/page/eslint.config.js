import a11y from "eslint-plugin-jsx-a11y";
import react from "eslint-plugin-react";
import hooks from "eslint-plugin-react-hooks";
import tseslint from "typescript-eslint";

// Texts of strangers (names of tables, errors) must stay texts: there is no frame and no policy around the page.
const AS_TEXT = "Let React escape texts: the page runs in Airflow's origin.";
const OWN_LINKS = "Link only into Airflow, with the components of ui/links.tsx.";

export default tseslint.config(
  { ignores: ["src/api/schema.d.ts"] },
  ...tseslint.configs.strict,
  a11y.flatConfigs.recommended,
  hooks.configs.flat.recommended,
  {
    plugins: { react },
    rules: {
      "react/no-danger": "error",
      "react/jsx-no-script-url": "error",
      "no-eval": "error",
      "no-implied-eval": "error",
      "max-lines": ["error", 300],
      "no-restricted-properties": [
        "error",
        ...["innerHTML", "outerHTML", "insertAdjacentHTML", "srcdoc"].map((property) => ({ property, message: AS_TEXT })),
        { object: "document", property: "write", message: AS_TEXT },
      ],
      "no-restricted-syntax": [
        "error",
        { selector: "JSXAttribute[name.name=/^(href|src|action|formAction)$/]", message: OWN_LINKS },
        { selector: "JSXAttribute[name.name='dangerouslySetInnerHTML']", message: AS_TEXT },
      ],
    },
  },
);
