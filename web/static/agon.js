// What a page can do without this file, it does: this adds live parts and keys.
"use strict";
(() => {
  const live = document.body.dataset.live;
  const state = document.getElementById("live-state");
  const say = (t) => { if (state) state.textContent = t; };

  // Fetch this page again and put its parts in place of ours, unless someone is
  // reading with something open or typing.
  let busy = false, again = false;
  async function refresh() {
    if (busy) { again = true; return; }
    busy = true;
    try {
      const r = await fetch(location.href, { headers: { Accept: "text/html" } });
      if (!r.ok) return;
      const doc = new DOMParser().parseFromString(await r.text(), "text/html");
      for (const part of document.querySelectorAll("[data-part]")) {
        const next = doc.querySelector(`[data-part="${part.dataset.part}"]`);
        if (!next || part.contains(document.activeElement) || part.querySelector("details[open]")) continue;
        if (next.innerHTML !== part.innerHTML) part.replaceChildren(...next.childNodes);
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
