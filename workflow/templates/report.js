// Saves figures, sorts tables, and marks the section in view. The page reads without it.
"use strict";

{
  const find = (id) => document.getElementById(id);
  const all = (selector) => Array.from(document.querySelectorAll(selector));
  const button = (text, place, act) => {
    const element = document.createElement("button");
    element.type = "button";
    element.textContent = text;
    element.addEventListener("click", act);
    place.append(element);
    return element;
  };
  const save = (content, type, name) => {
    const link = document.createElement("a");
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
  all("figure").forEach((figure) => {
    const svg = figure.querySelector(".plate svg");
    const { name, table } = figure.dataset;
    const tools = document.createElement("div");
    tools.className = "tools";
    figure.append(tools);
    button("Enlarge", tools, ({ target }) => {
      target.textContent = figure.classList.toggle("large") ? "Reduce" : "Enlarge";
    });
    if (table) button("CSV", tools, async () => save(await csv(table), "text/csv", `${name}.csv`));
    const drawing = () => new XMLSerializer().serializeToString(svg);
    button("SVG", tools, () => save(drawing(), "image/svg+xml", `${name}.svg`));
  });

  // Numbers are compared by their first number; cells without one come last in both directions.
  const compare = (a, b, sign) => {
    const [x, y] = [a, b].map((text) => parseFloat(text.replace("\u2212", "-").replace("< ", "")));
    if (isNaN(x) && isNaN(y)) return sign * a.localeCompare(b, "en");
    return isNaN(x) - isNaN(y) || sign * (x - y);
  };
  all(".sortable").forEach((table) => {
    const body = table.tBodies[0];
    const heads = Array.from(table.tHead.rows[0].cells);
    heads.forEach((head, index) => {
      const label = Array.from(head.childNodes).filter((node) => node.className !== "help");
      const sorter = button("", head, () => {
        const sign = head.ariaSort === "ascending" ? -1 : 1;
        heads.forEach((other) => { other.ariaSort = "none"; });
        head.ariaSort = sign > 0 ? "ascending" : "descending";
        const text = (row) => row.cells[index].textContent;
        body.append(...Array.from(body.rows).sort((a, b) => compare(text(a), text(b), sign)));
      });
      head.ariaSort = "none";
      sorter.className = "sort";
      sorter.append(...label);
      head.prepend(sorter);
    });
  });

  // The section in view has the last heading above the middle of the window.
  const contents = find("contents");
  const links = Array.from(contents.querySelectorAll("a"));
  const mark = () => {
    const top = (link) => find(link.hash.slice(1)).getBoundingClientRect().top;
    const current = links.findLast((link) => top(link) < innerHeight / 2);
    links.forEach((link) => { link.ariaCurrent = link === current ? "true" : null; });
  };
  addEventListener("scroll", mark, { passive: true });
  mark();
  contents.addEventListener("click", (event) => {
    if (event.target.closest("a")) contents.hidePopover();
  });

  // An address opens the folds around its target.
  const reveal = () => {
    const target = location.hash && find(location.hash.slice(1));
    for (let at = target; at; at = at.parentElement) if (at.tagName === "DETAILS") at.open = true;
    if (target) target.scrollIntoView();
  };
  addEventListener("hashchange", reveal);
  reveal();
}
