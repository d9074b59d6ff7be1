// Shared building blocks of the views. Outside texts become text nodes: names of tables and errors may look like HTML.

export function element(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    made.setAttribute(name, value);
  }
  made.append(...children); // texts become text nodes
  return made;
}

export function number(value) {
  return value.toLocaleString("en-US");
}

export function bytes(value) {
  const units = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
  let unit = 0;
  while (value >= 1024 && unit < units.length - 1) {
    value /= 1024;
    unit += 1;
  }
  return `${value.toFixed(unit ? 1 : 0)} ${units[unit]}`;
}

export function duration(seconds) {
  const [days, hours, minutes] = [86400, 3600, 60].map((unit) => Math.floor(seconds / unit));
  if (days) {
    return `${days} d ${hours % 24} h`;
  }
  return hours ? `${hours} h ${minutes % 60} min` : minutes ? `${minutes} min ${Math.floor(seconds % 60)} s` : `${seconds.toFixed(0)} s`;
}

// A table of figures. Columns are [name, class], cells are texts or elements, the first names the row.
export function figuresTable(name, columns, rows) {
  const row = (cells) => element("tr", {}, ...cells.map((cell, index) =>
    element(index ? "td" : "th", { class: columns[index][1] || "text", ...(index ? {} : { scope: "row" }) }, cell)));
  const head = columns.map(([text, kind]) => element("th", { scope: "col", class: kind || "text" }, text));
  const table = element("table", {}, element("thead", {}, element("tr", {}, ...head)), element("tbody", {}, ...rows.map(row)));
  // It scrolls on its own if the page is narrow, also by keyboard.
  const box = element("div", { class: "figures", role: "region", "aria-label": name, tabindex: "0" }, table);
  box.dataset.key = `figures-${name}`;
  return box;
}

// The same table under a heading of the given level.
export function figures(name, columns, rows, heading = "h3") {
  return element("div", {}, element(heading, {}, name), figuresTable(name, columns, rows));
}

// A connection's heading, and the errors of its cluster and nodes.
export function connectionSection(seen) {
  const place = seen.cluster === null ? "one server" : `cluster ${seen.cluster}`;
  const made = element("section", {}, element("h2", {}, `${seen.conn_id} (${seen.seen_at === null ? "no data yet" : place})`));
  if (seen.error) {
    const seenAt = seen.seen_at === null ? "There is no earlier data." :
      `The data below is from ${new Date(seen.seen_at * 1000).toLocaleString()}.`;
    made.append(element("p", { class: "trouble" }, `The cluster cannot be queried: ${seen.error} ${seenAt}`));
  }
  for (const node of seen.nodes.filter((each) => each.error)) {
    made.append(element("p", { class: "trouble" }, `Node ${node.name || "of the connection"} is skipped: ${node.error}`));
  }
  return made;
}

export function withoutConnections() {
  return [element("p", {}, "Airflow's database and environment have no connection of type chs3.")];
}
