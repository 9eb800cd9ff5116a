// Sorting, filtering and choosing columns of the table of runs; colours and print. Without it the
// table is whole.
"use strict";

// Equips the table; returns the buttons of its headers.
const equip = (table, headers) => {
  const controls = document.getElementById("runs-controls");
  const filter = document.getElementById("runs-filter");
  const count = document.getElementById("runs-count");
  const body = table.tBodies[0];
  const rows = Array.from(body.rows);
  const exact = (cell) => cell.title || cell.textContent;
  const texts = new Map(rows.map((row) => [row, row.textContent.toLowerCase()]));

  // Numbers ascend; what is absent or no number comes last in both directions.
  const compare = (kind, sign) => (a, b) => {
    if (kind !== "number") return sign * a.key.localeCompare(b.key, "en", { numeric: true });
    const [x, y] = [Number.isNaN(a.key), Number.isNaN(b.key)];
    if (x || y) return x - y;
    return sign * (a.key - b.key);
  };

  const sort = (index) => {
    const header = headers[index];
    const direction = header.getAttribute("aria-sort") === "ascending" ? "descending" : "ascending";
    const kind = header.dataset.type;
    const keyed = Array.from(body.rows, (row) => {
      const text = exact(row.cells[index]);
      return { row, key: kind === "number" ? parseFloat(text) : text };
    });
    keyed.sort(compare(kind, direction === "ascending" ? 1 : -1));
    headers.forEach((other) => other.setAttribute("aria-sort", "none"));
    header.setAttribute("aria-sort", direction);
    body.append(...keyed.map((item) => item.row));
  };

  const buttons = headers.map((header, index) => {
    const button = document.createElement("button");
    button.type = "button";
    const label = document.createElement("span");
    label.append(...header.childNodes);
    button.append(label);
    button.addEventListener("click", () => sort(index));
    header.append(button);
    header.setAttribute("aria-sort", "none");
    return button;
  });

  const selects = Array.from(controls.querySelectorAll("select"));
  const narrow = () => {
    const words = filter.value.toLowerCase().split(/\s+/).filter(Boolean);
    const wanted = selects.filter((select) => select.value);
    let shown = 0;
    rows.forEach((row) => {
      const keep =
        words.every((word) => texts.get(row).includes(word)) &&
        wanted.every((select) => exact(row.cells[select.dataset.column]) === select.value);
      row.hidden = !keep;
      shown += keep;
    });
    count.textContent = `${shown} of ${rows.length} runs`;
  };
  controls.addEventListener("submit", (event) => event.preventDefault());
  ["input", "change"].forEach((name) => filter.addEventListener(name, narrow));
  selects.forEach((select) => select.addEventListener("change", narrow));

  // One rule per hidden column, so that 1,000 rows need no class of their own.
  const style = document.createElement("style");
  document.head.append(style);
  const boxes = Array.from(controls.querySelectorAll("input[type=checkbox]"));
  const choose = () => {
    const hidden = boxes.filter((box) => !box.checked).map((box) => Number(box.dataset.column) + 1);
    style.textContent = hidden
      .map((n) => `.runs :is(th, td):nth-child(${n}) { display: none; }`)
      .join("\n");
  };
  boxes.forEach((box) => box.addEventListener("change", choose));
  const check = (rule) => () => {
    boxes.forEach((box) => { box.checked = rule(box); });
    choose();
  };
  document.getElementById("columns-all").addEventListener("click", check(() => true));
  document.getElementById("columns-usual").addEventListener("click", check((box) => "usual" in box.dataset));
  check((box) => "usual" in box.dataset)();
  narrow();
  controls.hidden = false;
  return buttons;
};

(() => {
  const table = document.getElementById("runs-table");  // null where a study only times
  const headers = table ? Array.from(table.tHead.rows[0].cells) : [];
  const buttons = table ? equip(table, headers) : [];

  const theme = document.createElement("button");
  theme.type = "button";
  theme.id = "theme";
  const themes = ["automatic", "light", "dark"];
  const paint = (name) => {
    if (name === "automatic") delete document.documentElement.dataset.theme;
    else document.documentElement.dataset.theme = name;
    theme.textContent = `Colours: ${name}`;
    theme.value = name;
  };
  theme.addEventListener("click", () => paint(themes[(themes.indexOf(theme.value) + 1) % 3]));
  paint("automatic");
  document.getElementById("bar").append(theme);

  // For print: a closed <details> would lose its content, and Chromium paints a button in a
  // table's head on the first page alone.
  let closed = [];
  window.addEventListener("beforeprint", () => {
    closed = Array.from(document.querySelectorAll("details:not(.chooser, .manual, [open])"));
    closed.forEach((item) => { item.open = true; });
    headers.forEach((header, index) => header.replaceChildren(buttons[index].firstChild));
  });
  window.addEventListener("afterprint", () => {
    closed.forEach((item) => { item.open = false; });
    headers.forEach((header, index) => {
      buttons[index].append(header.firstChild);
      header.append(buttons[index]);
    });
  });
})();
