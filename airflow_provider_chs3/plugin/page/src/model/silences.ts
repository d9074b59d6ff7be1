// The connections and nodes that do not answer, by what the page lacks because of it.
export interface SeenConnection {
  conn_id: string;
  error: string;
  seen_at: number | null;
  unread: string;
  nodes: readonly { name: string; error: string }[];
}

export interface SilentNode {
  conn_id: string;
  name: string;
  error: string;
}

export interface Silences {
  // Nothing of them was ever seen.
  unknown: SeenConnection[];
  // What is shown of them is from an earlier answer.
  old: SeenConnection[];
  // The others of their cluster answer. Each once, though several connections may lead to it.
  nodes: SilentNode[];
  // Ledgers that are left out, with what to do.
  unread: string[];
}

export function silences(connections: readonly SeenConnection[]): Silences {
  const broken = connections.filter((seen) => seen.error);
  const nodes = new Map<string, SilentNode>();
  for (const seen of connections) {
    for (const { name, error } of seen.nodes.filter((node) => node.error)) {
      nodes.set(name || seen.conn_id, { conn_id: seen.conn_id, name, error });
    }
  }
  return {
    unknown: broken.filter((seen) => seen.seen_at === null),
    old: broken.filter((seen) => seen.seen_at !== null),
    nodes: [...nodes.values()],
    unread: [...new Set(connections.map(({ unread }) => unread).filter(Boolean))],
  };
}
