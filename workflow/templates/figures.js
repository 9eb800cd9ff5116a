// Figures: runs that light up together, series that can be hidden, files, and where one is.
// Without it all is there to be read.
"use strict";

(() => {
  const make = (tag, text = "", kind = "") => {
    const made = document.createElement(tag);
    made.textContent = text;
    if (kind) made.className = kind;
    return made;
  };

  // A run lights up wherever it is; the other runs of its seed get a ring.
  const note = document.body.appendChild(make("div", "", "point"));
  note.setAttribute("role", "status");
  note.hidden = true;
  const POINTS = ":is([data-run], [data-seed])";
  const places = new Map();  // run, or seed of a point that is of several -> where it is
  const runs = new Map();  // seed -> its runs
  const rows = new Map();  // run -> its row
  const put = (map, key, item) => map.set(key, (map.get(key) || []).concat([item]));
  const read = () => {
    document.querySelectorAll("#runs-table tbody tr").forEach((row) => {
      put(places, row.dataset.run, row);
      if (!rows.has(row.dataset.run)) put(runs, row.dataset.seed, row.dataset.run);
      rows.set(row.dataset.run, row);
    });
    document.querySelectorAll(`.plate ${POINTS}`).forEach((point) =>
      put(places, point.dataset.run || `seed ${point.dataset.seed}`, point));
  };
  let lit = null;
  let shining = [];
  const show = (point) => {
    if (point === lit) return;
    if (!places.size) read();
    lit = point;
    note.hidden = !point;
    shining.forEach((item) => item.classList.remove("lit", "mate"));
    shining = [];
    if (!point) return;
    const { run, value } = point.dataset;
    const row = rows.get(run);
    const seed = row ? row.dataset.seed : point.dataset.seed;
    [`seed ${seed}`, ...(runs.get(seed) || [])].forEach((key) => (places.get(key) || []).forEach((item) => {
      item.classList.add(key === run ? "lit" : "mate");
      shining.push(item);
    }));
    note.replaceChildren(`Seed ${seed}${value ? `: ${value}` : ""}`,
      make("code", row ? row.cells[row.cells.length - 1].textContent : ""));
    const at = point.getBoundingClientRect();
    const size = note.getBoundingClientRect();
    const left = Math.min(Math.max(at.left + 12, 4), innerWidth - size.width - 4);
    const above = at.top - size.height - 8;
    note.style.left = `${left}px`;
    note.style.top = `${above > 4 ? above : at.bottom + 8}px`;
  };
  const found = (event) => event.target.closest && event.target.closest(`.plate ${POINTS}`);
  document.addEventListener("pointerover", (event) => show(found(event)));
  document.addEventListener("keydown", (event) => { if (event.key === "Escape") show(null); });

  // By keyboard: the arrows go from run to run of the picture that has the focus.
  const walk = (plate) => {
    const points = Array.from(plate.querySelectorAll(POINTS));
    if (!points.length) return;
    plate.setAttribute("aria-label", `${plate.getAttribute("aria-label")}. Arrows go from run to run.`);
    let at = -1;
    plate.addEventListener("keydown", (event) => {
      const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
      if (!step || event.target !== plate) return;
      event.preventDefault();
      at = at < 0 ? (step > 0 ? 0 : points.length - 1) : (at + step + points.length) % points.length;
      show(points[at]);
    });
    plate.addEventListener("blur", () => show(null));
  };

  // An entry of a legend shows and hides its series.
  const choose = (plate) => {
    plate.querySelectorAll("[data-legend]").forEach((entry) => {
      const index = entry.dataset.legend;
      const series = plate.querySelectorAll(`[data-series="${index}"]`);
      if (!series.length) return;
      const entries = plate.querySelectorAll(`[data-legend="${index}"]`);
      const turn = () => {
        const gone = entry.getAttribute("aria-pressed") === "true";
        series.forEach((part) => part.classList.toggle("gone", gone));
        entries.forEach((part) => {
          part.classList.toggle("off", gone);
          if (part.hasAttribute("role")) part.setAttribute("aria-pressed", String(!gone));
        });
      };
      entry.addEventListener("click", turn);
      if (entry !== entries[entries.length - 1]) return;  // one stop for the keyboard
      const told = { role: "button", tabindex: "0", "aria-pressed": "true", "aria-label": `Series ${Number(index) + 1}` };
      Object.entries(told).forEach(([name, text]) => entry.setAttribute(name, text));
      entry.addEventListener("keydown", (event) => {
        if (event.key !== "Enter" && event.key !== " ") return;
        event.preventDefault();
        turn();
      });
    });
  };

  const save = (content, kind, name) => {
    const link = make("a");
    link.href = URL.createObjectURL(new Blob([content], { type: kind }));
    link.download = name;
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 1000);
  };
  const table = (figure) => {
    const bytes = Uint8Array.from(atob(figure.dataset.table), (letter) => letter.charCodeAt(0));
    const open = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate-raw"));
    return new Response(open).text();
  };
  const drawn = (svg) => new XMLSerializer().serializeToString(svg);
  const raster = (figure, svg) => {
    const [, , width, height] = svg.getAttribute("viewBox").split(/\s+/).map(Number);
    const copy = svg.cloneNode(true);
    copy.setAttribute("width", width);
    copy.setAttribute("height", height);
    const image = new Image();
    image.onload = () => {
      const canvas = make("canvas");
      [canvas.width, canvas.height] = [width * 3, height * 3];
      const paper = canvas.getContext("2d");
      paper.fillStyle = "#fff";
      paper.fillRect(0, 0, canvas.width, canvas.height);
      paper.drawImage(image, 0, 0, canvas.width, canvas.height);
      canvas.toBlob((blob) => save(blob, "image/png", `${figure.dataset.name}.png`));
    };
    image.src = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(drawn(copy))}`;
  };

  const equip = (figure) => {
    const svg = figure.querySelector(".plate > svg");
    const plate = figure.querySelector(".plate");
    const tools = make("div", "", "tools");
    const add = (text, act) => {
      const button = tools.appendChild(make("button", text));
      button.type = "button";
      button.addEventListener("click", () => act(button));
    };
    add("Enlarge", (button) => {
      const large = figure.classList.toggle("large");
      button.textContent = large ? "Reduce" : "Enlarge";
    });
    const name = figure.dataset.name;
    if (figure.dataset.table) {
      add("Copy data", async (button) => {
        await navigator.clipboard.writeText(await table(figure));
        button.textContent = "Copied";
      });
      add("CSV", async () => save(await table(figure), "text/csv", `${name}.csv`));
    }
    if (svg) {
      add("SVG", () => save(drawn(svg), "image/svg+xml", `${name}.svg`));
      add("PNG", () => raster(figure, svg));
      walk(plate);
      choose(plate);
    }
    plate.after(tools);
  };
  document.querySelectorAll("figure").forEach(equip);

  // Where one is: the last heading above the middle of the window.
  const contents = document.getElementById("contents");
  const links = Array.from(contents.querySelectorAll("a"));
  const goals = links.map((link) => document.getElementById(link.hash.slice(1)));
  const mark = () => {
    const passed = goals.filter((goal) => goal.getBoundingClientRect().top < innerHeight / 2);
    const here = goals.indexOf(passed[passed.length - 1]);
    links.forEach((link, index) => {
      if (index === here) link.setAttribute("aria-current", "true");
      else link.removeAttribute("aria-current");
    });
  };
  let asked = false;
  addEventListener("scroll", () => {
    show(null);
    if (asked) return;
    asked = true;
    requestAnimationFrame(() => { asked = false; mark(); });
  }, { passive: true });
  mark();
  contents.addEventListener("click", (event) => {
    if (event.target.closest("a") && contents.matches(":popover-open")) contents.hidePopover();
  });
})();
