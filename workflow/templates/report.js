// Saves figures, sorts, filters and copies tables, and marks the section in view. The page reads
// without it.
"use strict";

{
  const find = (id) => document.getElementById(id);
  const all = (selector, within = document) => Array.from(within.querySelectorAll(selector));
  const make = (tag, text = "", place = null) => {
    const made = document.createElement(tag);
    made.textContent = text;
    if (place) place.append(made);
    return made;
  };
  const button = (text, place, act) => {
    const made = make("button", text, place);
    made.type = "button";
    made.addEventListener("click", () => act(made));
    return made;
  };
  const toolbar = (before) => {
    const made = make("div");
    made.className = "tools";
    before.after(made);
    return made;
  };
  const copied = async (made, text) => {
    await navigator.clipboard.writeText(text);
    made.textContent = "Copied";
  };
  const save = (content, type, name) => {
    const link = make("a");
    link.href = URL.createObjectURL(new Blob([content], { type }));
    link.download = name;
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 1000);
  };
  const csv = (packed) => {
    const bytes = Uint8Array.from(atob(packed), (letter) => letter.charCodeAt(0));
    const open = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate-raw"));
    return new Response(open).text();
  };
  const drawn = (svg) => new XMLSerializer().serializeToString(svg);
  all("figure").forEach((figure) => {
    const plate = figure.querySelector(".plate");
    const svg = plate.querySelector("svg");
    const { name, table: packed } = figure.dataset;
    const tools = toolbar(figure.querySelector("figcaption"));
    button("Enlarge", tools, (made) => {
      made.textContent = figure.classList.toggle("large") ? "Reduce" : "Enlarge";
    });
    if (packed) button("CSV", tools, async () => save(await csv(packed), "text/csv", `${name}.csv`));
    if (svg) button("SVG", tools, () => save(drawn(svg), "image/svg+xml", `${name}.svg`));
  });

  const exact = (row, index) => (row.cells[index].title || row.cells[index].textContent).replace("\u2212", "-");
  all(".sortable").forEach((sorted) => {
    const body = sorted.tBodies[0];
    const heads = Array.from(sorted.tHead.rows[0].cells);
    heads.forEach((head, index) => {
      const number = head.dataset.type === "number";
      const label = Array.from(head.childNodes).filter((node) => node.className !== "help");
      head.ariaSort = "none";
      const sorter = button("", head, () => {
        const sign = head.ariaSort === "ascending" ? -1 : 1;
        heads.forEach((other) => { other.ariaSort = "none"; });
        head.ariaSort = sign > 0 ? "ascending" : "descending";
        // Empty cells come last in both directions.
        const compare = (a, b) => number
          ? isNaN(a) - isNaN(b) || sign * (a - b)
          : sign * a.localeCompare(b, "en", { numeric: true });
        const keyed = Array.from(body.rows, (row) => {
          const text = exact(row, index);
          return [number ? parseFloat(text) : text, row];
        });
        body.append(...keyed.sort(([a], [b]) => compare(a, b)).map(([, row]) => row));
      });
      sorter.append(...label);
    });
    const lines = () => Array.from(sorted.rows, (row) => Array.from(row.cells, (cell) => cell.textContent).join("\t"));
    button("Copy table", toolbar(sorted.parentElement), (made) => copied(made, lines().join("\n")));
  });

  const table = find("runs-table");
  if (table) {
    const controls = find("runs-controls");
    const rows = Array.from(table.tBodies[0].rows);
    const filter = () => {
      const words = find("runs-filter").value.toLowerCase().split(/\s+/);
      rows.forEach((row) => {
        const text = row.textContent.toLowerCase();
        row.hidden = !words.every((word) => text.includes(word));
      });
      find("runs-count").textContent = `${rows.filter((row) => !row.hidden).length} of ${rows.length} rows`;
    };
    ["input", "change"].forEach((kind) => controls.addEventListener(kind, filter));
    controls.addEventListener("submit", (event) => event.preventDefault());
    controls.hidden = false;
  }

  // The section in view has the last heading above the middle of the window.
  const contents = find("contents");
  const links = all("a", contents);
  const mark = () => {
    const top = (link) => find(link.hash.slice(1)).getBoundingClientRect().top;
    const here = links.findLast((link) => top(link) < innerHeight / 2);
    links.forEach((link) => { link.ariaCurrent = link === here ? "true" : null; });
  };
  addEventListener("scroll", mark, { passive: true });
  mark();
  contents.addEventListener("click", (event) => { if (event.target.closest("a")) contents.hidePopover(); });

  // An address opens the folds around its target.
  const reveal = () => {
    const target = location.hash && find(location.hash.slice(1));
    for (let at = target; at; at = at.parentElement) if (at.tagName === "DETAILS") at.open = true;
    if (target) target.scrollIntoView();
  };
  addEventListener("hashchange", reveal);
  reveal();
}
