// Brings the page up to date: fetches it again, and replaces the parts marked data-live that have changed. Everything
// else (filters, focus, scroll) stays. Without scripts the page works, and is up to date when it is loaded.
"use strict";

(() => {
  const EVERY_MS = 2000;
  const state = document.getElementById("live");
  const said = { live: "live", paused: "paused", lost: "connection lost" };

  function tell(what) {
    if (state && state.textContent !== said[what]) {
      state.textContent = said[what];
      state.className = `live ${what}`;
    }
  }

  function parts(root) {
    return new Map([...root.querySelectorAll("[data-live]")].map((part) => [part.dataset.live, part]));
  }

  // An element keeps its place and its focus; only what is inside is replaced, and only where it differs.
  function update(fresh) {
    const mine = parts(document);
    const theirs = parts(fresh);
    for (const [key, part] of theirs) {
      const old = mine.get(key);
      if (old && old.innerHTML !== part.innerHTML && !old.contains(document.activeElement)) {
        const scroll = [...old.querySelectorAll(".wide, .log")].map((each) => [each.scrollLeft, each.scrollTop]);
        old.innerHTML = part.innerHTML;
        old.querySelectorAll(".wide, .log").forEach((each, i) => {
          if (scroll[i]) [each.scrollLeft, each.scrollTop] = scroll[i];
        });
      }
    }
    const rows = document.getElementById("pipelines");
    const newRows = fresh.getElementById("pipelines");
    const names = (body) => (body ? [...body.rows].map((row) => row.dataset.live).sort().join("\n") : "");
    if (rows && newRows && names(rows) !== names(newRows) && !rows.contains(document.activeElement)) {
      rows.replaceChildren(...newRows.rows);
      filter();
    }
  }

  async function refresh() {
    if (document.hidden) {
      tell("paused");
      return;
    }
    try {
      const answer = await fetch(location.href, { headers: { accept: "text/html" }, redirect: "error" });
      if (!answer.ok) throw new Error(String(answer.status));
      update(new DOMParser().parseFromString(await answer.text(), "text/html"));
      tell("live");
    } catch {
      tell("lost");
    }
  }

  function filter() {
    const field = document.querySelector("[data-filter]");
    if (!field) return;
    const words = field.value.toLowerCase().split(/\s+/).filter(Boolean);
    for (const row of document.getElementById(field.dataset.filter)?.rows ?? []) {
      const text = row.textContent.toLowerCase();
      row.hidden = !words.every((word) => text.includes(word));
    }
  }

  document.querySelector("[data-filter]")?.addEventListener("input", filter);

  document.addEventListener("submit", (event) => {
    const ask = event.target.dataset.ask;
    if (ask && !window.confirm(ask)) {
      event.preventDefault();
      return;
    }
    event.target.querySelectorAll("button").forEach((button) => (button.disabled = true));
  });

  // "/" goes to the filter, as in many tools.
  document.addEventListener("keydown", (event) => {
    const field = document.querySelector("input[type=search]");
    if (event.key === "/" && field && !/INPUT|TEXTAREA/.test(document.activeElement?.tagName ?? "")) {
      event.preventDefault();
      field.focus();
    }
  });

  filter();
  if (document.querySelector("[data-live]")) {
    tell("live");
    const loop = async () => {
      await refresh();
      setTimeout(loop, EVERY_MS);
    };
    setTimeout(loop, EVERY_MS);
    document.addEventListener("visibilitychange", () => document.hidden || refresh());
  } else if (state) {
    state.remove();
  }
})();
