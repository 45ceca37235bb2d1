// Brings the page up to date: fetches it again, and replaces the parts marked data-live that have changed. Everything
// else (filters, order, what is chosen, focus, scroll) stays. Without scripts the page works, and is up to date when it
// is loaded.
"use strict";

(() => {
  const EVERY_MS = 2000;
  const SHARE = 0.01; // of a core, at most, goes into an idle page: the browser's part and the server's
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
    for (const [key, part] of parts(fresh)) {
      const old = mine.get(key);
      if (!old) continue;
      for (const { name, value } of part.attributes) if (old.getAttribute(name) !== value && name !== "class") old.setAttribute(name, value);
      if (old.innerHTML !== part.innerHTML && !old.contains(document.activeElement) && !old.querySelector(".tip")) {
        const scroll = [...old.querySelectorAll(".wide, .log")].map((each) => [each.scrollLeft, each.scrollTop]);
        old.innerHTML = part.innerHTML;
        old.querySelectorAll(".wide, .log").forEach((each, i) => {
          if (scroll[i]) [each.scrollLeft, each.scrollTop] = scroll[i];
        });
      }
    }
    const rows = document.getElementById("pipelines");
    const newRows = fresh.getElementById("pipelines");
    const names = (body) => [...body.rows].map((row) => row.dataset.live).sort().join("\n");
    if (rows && newRows && names(rows) !== names(newRows) && !rows.contains(document.activeElement)) {
      rows.replaceChildren(...newRows.rows);
    }
    list?.show();
  }

  let cost = 0;
  async function refresh() {
    if (document.hidden) {
      tell("paused");
      return;
    }
    try {
      const answer = await fetch(location.pathname + location.search, { headers: { accept: "text/html" }, redirect: "error" });
      if (!answer.ok) throw new Error(String(answer.status));
      const text = await answer.text();
      const begun = performance.now();
      update(new DOMParser().parseFromString(text, "text/html"));
      await new Promise((drawn) => requestAnimationFrame(() => setTimeout(drawn)));
      cost = performance.now() - begun + Number(/dur=([\d.]+)/.exec(answer.headers.get("server-timing"))?.[1] ?? 0);
      tell("live");
    } catch {
      tell("lost");
    }
  }

  // The list of pipelines: filters, order and what is chosen. They are in the address, so a link or a reload keeps them.
  function makeList(body) {
    const field = document.getElementById("filter");
    const wanted = document.getElementById("state");
    const least = document.getElementById("least-lag");
    const every = document.getElementById("every");
    const bulk = document.getElementById("bulk");
    const asked = new URLSearchParams(location.search);
    const chosen = new Set();
    let [sort, down] = [asked.get("sort") ?? "", asked.get("down") === "1"];
    field.value = asked.get("name") ?? "";
    wanted.value = asked.get("state") ?? "";
    if (wanted.selectedIndex < 0) wanted.value = "";
    least.value = asked.get("lag") ?? "";
    if (least.selectedIndex < 0) least.value = "";

    function keep() {
      const now = new URLSearchParams();
      const set = { name: field.value, state: wanted.value, lag: least.value, sort, down: sort && down ? "1" : "" };
      for (const [key, value] of Object.entries(set)) if (value) now.set(key, value);
      history.replaceState(null, "", location.pathname + (now.size ? `?${now}` : ""));
    }

    const nameOf = (row) => row.dataset.live.slice(2); // behind "p-"

    function matches(row) {
      const { state, attention, lag } = row.dataset;
      const words = field.value.toLowerCase().split(/\s+/).filter(Boolean);
      const right = !wanted.value || (wanted.value === "attention" ? attention === "1" : state === wanted.value);
      return right && (!least.value || Number(lag) > Number(least.value)) && words.every((word) => nameOf(row).toLowerCase().includes(word));
    }

    function value(row) {
      if (sort === "name") return nameOf(row);
      const text = row.dataset[sort] ?? "";
      return sort === "state" ? text : Number(text);
    }

    function order() {
      if (!sort) return;
      const rows = [...body.rows];
      const sorted = [...rows].sort((a, b) => {
        const [x, y] = [value(a), value(b)];
        const less = typeof x === "string" ? x.localeCompare(y) : x - y;
        return (down ? -less : less) || nameOf(a).localeCompare(nameOf(b));
      });
      if (sorted.some((row, i) => row !== rows[i]) && !body.contains(document.activeElement)) body.replaceChildren(...sorted);
    }

    function show() {
      order();
      for (const row of body.rows) {
        row.hidden = !matches(row);
        const box = row.querySelector("input[name=name]");
        if (box) box.checked = chosen.has(box.value);
      }
      for (const button of document.querySelectorAll("[data-sort]")) {
        const mine = button.dataset.sort === sort;
        button.closest("th").setAttribute("aria-sort", mine ? (down ? "descending" : "ascending") : "none");
      }
      const there = [...body.querySelectorAll("input[name=name]")].filter((box) => chosen.has(box.value)).length;
      if (!bulk) return;
      document.getElementById("chosen").textContent = there ? `${there} chosen` : "none chosen";
      bulk.querySelectorAll("button").forEach((button) => (button.disabled = !there));
    }

    const change = () => (keep(), show());
    field.addEventListener("input", change);
    wanted.addEventListener("change", change);
    least.addEventListener("change", change);
    document.querySelectorAll("[data-sort]").forEach((button) =>
      button.addEventListener("click", () => {
        const key = button.dataset.sort;
        [sort, down] = key === sort ? [sort, !down] : [key, !["name", "state"].includes(key)];
        change();
      }),
    );
    body.addEventListener("change", (event) => {
      const { checked, value } = event.target;
      checked ? chosen.add(value) : chosen.delete(value);
      show();
    });
    every?.addEventListener("change", () => {
      for (const row of body.rows) {
        const box = row.querySelector("input[name=name]");
        if (!box || box.disabled || row.hidden) continue;
        every.checked ? chosen.add(box.value) : chosen.delete(box.value);
      }
      show();
    });
    return { show };
  }

  const body = document.getElementById("pipelines");
  const list = body ? makeList(body) : null;

  // Values of a plot under the pointer, or by arrow keys: the scale is in the attributes, so the points are not sent twice.
  const SVG = "http://www.w3.org/2000/svg";
  const shown = { plot: null, x: 0 };

  function label(number, measure) {
    if (measure === "s") return number < 1 ? `${Math.round(number * 1000)} ms` : `${number.toFixed(1)} s`;
    return `${number.toLocaleString("en", { maximumFractionDigits: number < 10 ? 1 : 0 })} ${measure}`;
  }

  function valueAt(line, x) {
    const points = line.getAttribute("points").split(" ").map((pair) => pair.split(",").map(Number));
    let near = null;
    for (const point of points) if (!near || Math.abs(point[0] - x) < Math.abs(near[0] - x)) near = point;
    return near && (x >= points[0][0] - 3 && x <= points.at(-1)[0] + 3) ? near : null;
  }

  function showValues(plot, x) {
    const { begin, end, top, left, right, height, measure } = plot.dataset;
    x = Math.min(Math.max(x, Number(left)), Number(right));
    Object.assign(shown, { plot, x });
    const at = new Date(1000 * (Number(begin) + ((x - left) / (right - left)) * (end - begin)));
    const values = new Map();
    for (const line of plot.querySelectorAll("polyline")) {
      const found = valueAt(line, x);
      if (found) values.set(line.classList[1], label((Number(top) * (8 + Number(height) - found[1])) / height, measure));
    }
    const told = [...values].map(([name, value]) => `${name} ${value}`).join(", ") || "nothing known";
    let tip = plot.querySelector(".tip");
    if (!tip) {
      tip = plot.appendChild(document.createElement("div"));
      tip.className = "tip";
      tip.setAttribute("role", "status");
    }
    const day = end - begin > 90000 ? `${at.toISOString().slice(5, 10)} ` : "";
    tip.textContent = `${day}${at.toISOString().slice(11, 19)} UTC: ${told}`;
    const svg = plot.querySelector("svg");
    let mark = svg.querySelector(".cursor");
    if (!mark) {
      mark = svg.appendChild(document.createElementNS(SVG, "line"));
      mark.setAttribute("class", "cursor");
    }
    for (const [name, number] of Object.entries({ x1: x, x2: x, y1: 8, y2: 8 + Number(height) })) mark.setAttribute(name, number);
  }

  function hideValues(plot) {
    plot.querySelectorAll(".tip, .cursor").forEach((each) => each.remove());
    shown.plot = null;
  }

  document.addEventListener("pointermove", (event) => {
    const plot = event.target.closest?.(".hover");
    if (shown.plot && shown.plot !== plot) hideValues(shown.plot);
    if (!plot) return;
    const box = plot.querySelector("svg").getBoundingClientRect();
    showValues(plot, ((event.clientX - box.left) / box.width) * 640);
  });
  document.addEventListener("focusout", (event) => event.target.matches?.(".hover") && hideValues(event.target));
  document.addEventListener("keydown", (event) => {
    const plot = event.target.closest?.(".hover");
    const step = { ArrowLeft: -8, ArrowRight: 8 }[event.key];
    if (!plot || !step) return;
    event.preventDefault();
    showValues(plot, shown.plot === plot ? shown.x + step : step < 0 ? Number(plot.dataset.right) : Number(plot.dataset.left));
  });

  document.addEventListener("submit", (event) => {
    const ask = event.target.dataset.ask;
    if (ask && !window.confirm(ask)) {
      event.preventDefault();
      return;
    }
    // After the browser has taken the form's fields: the button that was pressed is one of them.
    setTimeout(() => event.target.querySelectorAll("button").forEach((button) => (button.disabled = true)));
  });

  // "/" goes to the filter, as in many tools.
  document.addEventListener("keydown", (event) => {
    const field = document.querySelector("input[type=search]");
    if (event.key === "/" && field && !/INPUT|TEXTAREA|SELECT/.test(document.activeElement?.tagName ?? "")) {
      event.preventDefault();
      field.focus();
    }
  });

  list?.show();
  // Rows below the fold are laid out after the first paint.
  if (list) requestAnimationFrame(() => setTimeout(() => body.closest("table").classList.add("whole")));
  if (document.querySelector("[data-live]")) {
    tell("live");
    const loop = async () => {
      await refresh();
      setTimeout(loop, Math.max(EVERY_MS, cost / SHARE));
    };
    setTimeout(loop, EVERY_MS);
    document.addEventListener("visibilitychange", () => document.hidden || refresh());
  } else if (state) {
    state.remove();
  }
})();
