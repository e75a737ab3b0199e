// What a page can do without this file, it does: this adds live parts and keys.
"use strict";
(() => {
  const live = document.body.dataset.live;
  const state = document.getElementById("live-state");
  const say = (t) => { if (state) state.textContent = t; };

  // Fetch this page again and put its parts in place of ours, unless someone is
  // reading with something open or typing.
  // What the server sent is kept, since charts are drawn into the page.
  const served = new WeakMap();
  const parts = () => document.querySelectorAll("[data-part]");
  for (const part of parts()) served.set(part, part.innerHTML);
  let busy = false, again = false;
  async function refresh() {
    if (busy) { again = true; return; }
    busy = true;
    try {
      const r = await fetch(location.href, { headers: { Accept: "text/html" } });
      if (!r.ok) return;
      const doc = new DOMParser().parseFromString(await r.text(), "text/html");
      for (const part of parts()) {
        const next = doc.querySelector(`[data-part="${part.dataset.part}"]`);
        if (!next || part.contains(document.activeElement) || next.innerHTML === served.get(part)) continue;
        served.set(part, next.innerHTML);
        const open = [...part.querySelectorAll("details")].map((d) => d.open);
        part.replaceChildren(...next.childNodes);
        part.querySelectorAll("details").forEach((d, i) => { if (open[i] !== undefined) d.open = open[i]; });
        draw();
        matrices(part);
      }
    } catch { /* the next change tries again */ } finally {
      busy = false;
      if (again) { again = false; setTimeout(refresh, 1000); }
    }
  }

  if (live && "EventSource" in window) {
    const es = new EventSource(live);
    es.onopen = () => say("live");
    es.onerror = () => say("connection lost, trying again");
    es.addEventListener("change", refresh);
    const steps = document.getElementById("steps");
    es.addEventListener("step", (e) => {
      if (!steps) return;
      const doc = new DOMParser().parseFromString(e.data, "text/html");
      const node = doc.body.firstElementChild;
      if (!node || document.getElementById(node.id)) return;
      const follow = window.innerHeight + window.scrollY >= document.body.scrollHeight - 120;
      steps.append(node);
      if (follow) window.scrollTo(0, document.body.scrollHeight);
    });
    es.addEventListener("end", () => { es.close(); say("ended"); refresh(); });
  }

  // Charts: uPlot draws the numbers that the server put beside its own drawing.
  let ready;
  function library() {
    const at = "/static/uplot-1.6.32/uPlot";
    ready ??= new Promise((ok, fail) => {
      const css = document.createElement("link");
      css.rel = "stylesheet"; css.href = at + ".css";
      const js = document.createElement("script");
      js.src = at + ".js"; js.onload = ok; js.onerror = fail;
      document.head.append(css, js);
    });
    return ready;
  }
  const theme = window.matchMedia("(prefers-color-scheme: dark)");
  const drawn = new Map();
  async function draw() {
    const figures = [...document.querySelectorAll("figure[data-plot]")];
    for (const [f, u] of drawn) if (!f.isConnected) { u.destroy(); drawn.delete(f); }
    if (!figures.length) return;
    try { await library(); } catch { return; } // the server's drawing stays
    for (const f of figures) if (f.isConnected && !drawn.has(f)) drawn.set(f, chart(f));
  }
  function chart(f) {
    const p = JSON.parse(f.dataset.plot);
    const css = getComputedStyle(document.documentElement);
    const colour = (c) => css.getPropertyValue({ champion: "--gold", dim: "--dim", level: "--dim", line: "--line", bg: "--bg" }[c] || "--dot").trim();
    const box = f.querySelector(".plot") || document.createElement("div");
    box.className = "plot";
    box.setAttribute("role", "img");
    box.setAttribute("aria-label", f.querySelector("figcaption").textContent + "; the numbers stand in the table below");
    const svg = f.querySelector("svg");
    svg.before(box);
    svg.classList.add("drawn");
    const num = (v) => (v == null ? "–" : String(+v.toPrecision(5)));
    const utc = (v) => new Date(v * 1000).toISOString().slice(0, 16).replace("T", " ");
    const axis = (label) => ({ label, labelSize: 20, labelFont: "12px system-ui", font: "12px system-ui", stroke: colour("dim"), grid: { stroke: colour("line"), width: 1 }, ticks: { stroke: colour("line"), width: 1 } });
    const x = axis(p.xlabel), y = { ...axis(p.ylabel), size: 56 };
    if (p.ticks) {
      x.splits = (u, i, min, max) => {
        const step = Math.max(1, Math.ceil(p.ticks.length / Math.max(2, Math.floor(u.width / 90))));
        return p.ticks.map((_, n) => n).filter((n) => n % step === 0 && n >= min && n <= max);
      };
      x.values = (u, splits) => splits.map((n) => p.ticks[n] ?? "");
    } else if (p.time) {
      x.space = 110;
      // To the second within an hour, with the day beyond one.
      x.values = (u, splits) => { const s = u.scales.x.max - u.scales.x.min; return splits.map((v) => (s < 3600 ? new Date(v * 1000).toISOString().slice(11, 19) : utc(v).slice(s < 86400 ? 11 : 5))); };
    } else if (p.log) {
      x.splits = (u, i, min, max) => Array.from({ length: Math.floor(max) - Math.ceil(min) + 1 }, (_, n) => Math.ceil(min) + n);
      x.values = (u, splits) => splits.map((v) => "$" + num(10 ** v));
    } else {
      x.values = (u, splits) => splits.map(num);
    }
    const how = {
      dots: () => ({ paths: () => null, points: { show: true, size: 10 } }),
      bars: () => ({ paths: uPlot.paths.bars({ size: [0.7, 60] }), points: { show: false } }),
      steps: (s) => ({ paths: uPlot.paths.stepped({ align: 1 }), points: { show: s.class !== "dim", size: 9 } }),
    };
    const size = () => ({ width: Math.max(240, box.clientWidth), height: 260 });
    const span = p.x[p.x.length - 1] - p.x[0] || 1;
    const u = new uPlot({
      ...size(),
      scales: {
        x: { time: !!p.time, range: (u, min, max) => p.ticks ? [min - 0.5, max + 0.5] : p.log ? [min - span * 0.05, max + span * 0.05] : min === p.x[0] && max === p.x[p.x.length - 1] && !p.time ? [Math.min(0, min), max + span * 0.05] : [min, max] },
        y: { range: [p.ymin, p.ymax] },
      },
      axes: [x, y],
      cursor: { points: { size: 12 } },
      // The legend reads off what is pointed at; else it is only the key of colours.
      hooks: { setLegend: [(u) => box.classList.toggle("read", u.cursor.idx != null)] },
      series: [
        { label: p.xlabel, value: (u, v, s, i) => (i == null ? "–" : p.names[i] + (p.ticks ? "" : ", " + (p.time ? utc(v) : p.log ? "$" + num(10 ** v) : num(v)))) },
        ...p.series.filter((s) => s.y.some((v) => v != null)).map((s) => ({
          label: s.label, stroke: colour(s.class), width: 2, fill: s.how === "bars" ? colour(s.class) : undefined,
          value: (u, v) => num(v), ...how[s.how](s),
          ...(s.how === "dots" ? { points: { show: true, size: 10, stroke: colour(s.class), fill: s.class === "scripted" ? colour("bg") : colour(s.class) } } : {}),
        })),
      ],
    }, [p.x, ...p.series.filter((s) => s.y.some((v) => v != null)).map((s) => s.y)], box);
    const wide = new ResizeObserver(() => { if (box.clientWidth && Math.abs(box.clientWidth - u.width) > 1) u.setSize(size()); });
    wide.observe(box);
    const destroy = u.destroy;
    u.destroy = () => { wide.disconnect(); destroy(); };
    return u;
  }
  theme.addEventListener("change", () => { for (const [f, u] of drawn) { u.destroy(); f.querySelector(".plot").replaceChildren(); drawn.set(f, chart(f)); } });
  draw();

  // Times grow older while one looks; the server wrote them first.
  const units = [[60, 1, "s"], [3600, 60, "min"], [172800, 3600, "h"], [Infinity, 86400, "days"]];
  setInterval(() => {
    for (const t of document.querySelectorAll("time[data-ago]")) {
      const d = (Date.now() - Date.parse(t.dateTime)) / 1000, s = Math.abs(d);
      const [, per, unit] = units.find((u) => s < u[0]);
      const text = `${Math.floor(s / per)} ${unit}`;
      t.textContent = d < 0 ? "in " + text : s < 5 ? "just now" : text + " ago";
    }
  }, 10000);

  // Commands can be copied.
  if (navigator.clipboard) for (const c of document.querySelectorAll(".copy")) {
    const b = document.createElement("button");
    b.textContent = "Copy";
    b.addEventListener("click", async () => {
      await navigator.clipboard.writeText(c.querySelector("pre").textContent);
      b.textContent = "Copied";
      setTimeout(() => { b.textContent = "Copy"; }, 1500);
    });
    c.append(b);
  }

  // The rows of a task matrix can be put in the order of one task.
  function matrices(part) {
    for (const m of part.querySelectorAll("table.matrix")) orderable(m);
  }
  function orderable(m) {
    const rows = [...m.tBodies[0].rows], on = new Map();
    for (const [i, r] of rows.entries()) for (const a of r.querySelectorAll("svg a")) {
      const task = new URL(a.href.baseVal, location.href).searchParams.get("task");
      if (!on.has(task)) on.set(task, new Map());
      on.get(task).set(i, a.firstElementChild.className.baseVal);
    }
    const label = document.createElement("label"), s = document.createElement("select");
    s.append(new Option("of the board", ""), ...[...on.keys()].map((t) => new Option(t, t)));
    label.append("Order: ", s);
    s.addEventListener("change", () => {
      const by = on.get(s.value) ?? new Map();
      const order = [...rows.keys()].sort((a, b) => (by.get(b) ?? "").localeCompare(by.get(a) ?? "") || a - b);
      m.tBodies[0].append(...order.map((i) => rows[i]));
    });
    m.parentElement.before(label);
  }
  matrices(document);

  // A timeline: links narrow what it shows without loading the page anew; dragging
  // over it picks a part, a double click leads back to the whole.
  const line = () => document.getElementById("timeline");
  const hint = (f) => { const h = f && f.querySelector(".drag"); if (h) h.textContent = " · or drag over a part; double click for the whole"; };
  async function zoom(href) {
    const at = new URL(href, location.href);
    try {
      const r = await fetch(at, { headers: { Accept: "text/html" } });
      const next = new DOMParser().parseFromString(await r.text(), "text/html").getElementById("timeline");
      if (!r.ok || !next) throw new Error(r.status);
      line().replaceWith(next);
      history.replaceState(null, "", at);
      hint(next);
    } catch { location.assign(at); }
  }
  hint(line());
  let picking = null, picked = false;
  document.addEventListener("click", (e) => {
    const a = e.target.closest("#timeline a");
    if (!a || e.ctrlKey || e.metaKey || e.shiftKey) return;
    if (picked) { picked = false; e.preventDefault(); return; }
    const to = a.getAttribute("href");
    if (to.endsWith("#timeline")) { e.preventDefault(); zoom(to); }
  });
  document.addEventListener("dragstart", (e) => { if (e.target.closest("#timeline svg")) e.preventDefault(); });
  document.addEventListener("pointerdown", (e) => {
    picked = false;
    const svg = e.target.closest("#timeline svg");
    if (!svg || e.button !== 0) return;
    const box = svg.getBoundingClientRect(), d = svg.dataset, unit = svg.viewBox.baseVal.width / box.width;
    const unitAt = (x) => Math.min(+d.right, Math.max(+d.left, (x - box.left) * unit));
    picking = { svg, d, unitAt, from: unitAt(e.clientX), to: unitAt(e.clientX), x: e.clientX, rect: null };
  });
  document.addEventListener("pointermove", (e) => {
    if (!picking || Math.abs(e.clientX - picking.x) < 5 && !picking.rect) return;
    const p = picking;
    if (!p.rect) {
      p.rect = document.createElementNS("http://www.w3.org/2000/svg", "rect");
      p.rect.setAttribute("class", "pick");
      p.rect.setAttribute("y", 0);
      p.rect.setAttribute("height", p.svg.viewBox.baseVal.height);
      p.svg.append(p.rect);
    }
    p.to = p.unitAt(e.clientX);
    p.rect.setAttribute("x", Math.min(p.from, p.to));
    p.rect.setAttribute("width", Math.abs(p.to - p.from));
  });
  document.addEventListener("pointerup", () => {
    const p = picking;
    picking = null;
    if (!p || !p.rect) return;
    p.rect.remove();
    picked = true;
    const ms = (u) => Math.round(+p.d.from + (u - p.d.left) / (p.d.right - p.d.left) * (p.d.to - p.d.from));
    const from = ms(Math.min(p.from, p.to)), to = ms(Math.max(p.from, p.to));
    if (to - from >= 2) zoom(`?attempt=${p.d.attempt}&t=${from}-${to}#timeline`);
  });
  document.addEventListener("dblclick", (e) => {
    const svg = e.target.closest("#timeline svg");
    if (svg && !e.target.closest("a")) zoom(`?attempt=${svg.dataset.attempt}#timeline`);
  });

  // What was printed can be played again as it came; long pauses are cut short.
  for (const f of document.querySelectorAll("figure[data-cast]")) {
    const pre = f.querySelector("pre"), whole = pre.textContent;
    const b = document.createElement("button");
    let timer = 0, stop;
    stop = () => { clearTimeout(timer); timer = 0; b.textContent = "Replay"; };
    stop();
    b.addEventListener("click", async () => {
      if (timer) { stop(); pre.textContent = whole; return; }
      b.textContent = "Stop";
      timer = -1;
      try {
        const r = await fetch(f.dataset.cast);
        if (!r.ok) throw new Error(r.status);
        const [, ...list] = (await r.text()).trim().split("\n").map((l) => JSON.parse(l));
        if (!timer) return;
        pre.textContent = "";
        let i = 0, before = 0;
        const next = () => {
          if (i === list.length) { stop(); return; }
          const [t, , text] = list[i++];
          timer = setTimeout(() => { pre.textContent += text.replaceAll("\r\n", "\n"); pre.scrollTop = pre.scrollHeight; next(); }, Math.min(2000, 1000 * (t - before)));
          before = t;
        };
        next();
      } catch { stop(); pre.textContent = whole; }
    });
    f.querySelector("figcaption").append(" ", b);
  }

  // j and k go from step to step, o opens and folds.
  let at = -1;
  document.addEventListener("keydown", (e) => {
    if (e.ctrlKey || e.metaKey || e.altKey || /^(INPUT|SELECT|TEXTAREA)$/.test(e.target.tagName)) return;
    const list = [...document.querySelectorAll(".step")];
    if (!list.length) return;
    if (e.key === "j" || e.key === "k") {
      if (at < 0 && location.hash) at = list.findIndex((s) => "#" + s.id === location.hash);
      at = Math.max(0, Math.min(list.length - 1, at + (e.key === "j" ? 1 : -1)));
      list.forEach((s) => s.classList.remove("here"));
      list[at].classList.add("here");
      list[at].scrollIntoView({ block: "start" });
      history.replaceState(null, "", "#" + list[at].id);
    } else if (e.key === "o" && list[at]) {
      for (const d of list[at].querySelectorAll("details")) d.open = !d.open;
    }
  });
})();
