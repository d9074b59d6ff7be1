// The steps of a load, in words.
export const STEPS: Record<string, string> = {
  list: "List objects",
  inspect: "Inspect, compare",
  plan: "Plan",
  stage: "Stage",
  insert: "Insert",
  verify: "Verify",
  publish: "Publish",
  start_over: "Failed attempts",
};

// The same where there is little room.
export const SHORT_STEPS: Record<string, string> = { ...STEPS, list: "List", inspect: "Inspect", start_over: "Retries" };
