// The error that ended a task, from its log as Airflow's API gives it.
interface Raised {
  exc_type?: unknown;
  exc_value?: unknown;
}

interface Message {
  event?: unknown;
  level?: unknown;
  error_detail?: unknown;
}

const LOUD: readonly unknown[] = ["error", "critical"];

// Of an exception that has others as its cause, the first one is that which left the task.
function raisedIn({ error_detail: detail }: Message): string {
  const [first] = (Array.isArray(detail) ? detail : []) as Raised[];
  return first ? [first.exc_value, first.exc_type].find((text) => typeof text === "string" && text !== "") as string | undefined ?? "" : "";
}

// Its first line; empty if there is none, as of a task that was killed, or whose log is not of such messages.
export function errorOf(messages: readonly unknown[]): string {
  const entries = messages.filter((each): each is Message => typeof each === "object" && each !== null).reverse();
  const error = entries.map(raisedIn).find(Boolean) ?? entries.find(({ level }) => LOUD.includes(level))?.event;
  return typeof error === "string" ? error.split("\n", 1)[0]?.trim() ?? "" : "";
}
