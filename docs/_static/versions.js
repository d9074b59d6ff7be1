// Leads to the same page of another version. Each version is published in a folder of its own, and versions.json beside
// them lists all, newest first; a local build has no such file, and shows nothing.
(async () => {
  const version = new URL(document.documentElement.dataset.content_root, location.href);
  const page = location.href.slice(version.href.length);
  const site = new URL("..", version);
  const answer = location.protocol.startsWith("http") ? await fetch(new URL("versions.json", site)) : { ok: false };
  if (!answer.ok) return;
  const versions = await answer.json();

  const box = document.querySelector(".versions");
  const choice = box.querySelector("select");
  const shown = DOCUMENTATION_OPTIONS.VERSION;
  for (const each of versions) {
    choice.add(new Option(each === versions[0] ? `${each} (newest)` : each, each, false, each === shown));
  }
  choice.addEventListener("change", async () => {
    const folder = new URL(`${choice.value}/`, site);
    const same = new URL(page, folder);
    location.href = (await fetch(same, { method: "HEAD" })).ok ? same : folder;
  });
  box.hidden = false;
})();
