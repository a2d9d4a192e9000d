"use strict";
(() => {
  const make = (tag, text, attributes) => {
    const element = document.createElement(tag);
    if (text) element.textContent = text;
    for (const [name, value] of Object.entries(attributes || {})) element.setAttribute(name, value);
    return element;
  };

  // -- sorting: a button in every heading; a third press brings the first order back ------------------------------
  const collator = new Intl.Collator("en", { numeric: true, sensitivity: "base" });

  const order = (cell) => {
    const value = cell.dataset.v;
    if (value !== undefined) return { number: Number(value), text: "" };
    return { number: null, text: cell.textContent.trim() };
  };

  const compare = (a, b, numeric, down) => {
    if (numeric) {
      // A cell without a number stands last, whichever way it is sorted.
      if (a.number === null || b.number === null) return (a.number === null) - (b.number === null);
      return down ? b.number - a.number : a.number - b.number;
    }
    return down ? collator.compare(b.text, a.text) : collator.compare(a.text, b.text);
  };

  const sort = (table, index, header, said) => {
    const body = table.tBodies[0];
    const numeric = header.classList.contains("num");
    const first = numeric ? "descending" : "ascending";
    const other = numeric ? "ascending" : "descending";
    const now = header.getAttribute("aria-sort");
    const next = now === first ? other : now === other ? null : first;
    for (const cell of table.tHead.querySelectorAll("th[aria-sort]")) cell.removeAttribute("aria-sort");
    if (next) header.setAttribute("aria-sort", next);
    const rows = [...body.rows];
    if (next) {
      const keys = new Map(rows.map((row) => [row, order(row.cells[index])]));
      rows.sort((a, b) => compare(keys.get(a), keys.get(b), numeric, next === "descending") || a.dataset.i - b.dataset.i);
    } else {
      rows.sort((a, b) => a.dataset.i - b.dataset.i);
    }
    body.append(...rows);
    said.textContent = next ? `Sorted by ${header.dataset.name}, ${next}.` : "In the first order again.";
  };

  const said = make("div", "", { role: "status", class: "skip" });
  document.body.append(said);
  for (const table of document.querySelectorAll("table.sortable")) {
    [...table.tBodies[0].rows].forEach((row, index) => { row.dataset.i = index; });
    const headers = table.tHead.rows[table.tHead.rows.length - 1].cells;
    // A heading that spans both rows of headings stands in the first one.
    const corner = table.tHead.rows.length > 1 ? [table.tHead.rows[0].cells[0]] : [];
    [...corner, ...headers].forEach((header, index) => {
      header.dataset.name = header.textContent.trim().replace(/\s+/g, " ");
      const button = make("button", "", { type: "button", title: "Sort" });
      button.append(...header.childNodes);
      header.append(button);
      button.addEventListener("click", () => sort(table, index, header, said));
    });
  }

  // -- filters ----------------------------------------------------------------------------------------------------
  const fold = (text) => text.toLocaleLowerCase("en");

  for (const table of document.querySelectorAll("table.sortable")) {
    const rows = [...table.tBodies[0].rows];
    if (rows.length < 8) continue;
    const bar = make("div", "", { class: "bar" });
    const label = make("label", "Filter");
    const input = make("input", "", { type: "search", autocomplete: "off" });
    const count = make("output", "");
    label.append(input);
    bar.append(label, count);
    table.caption.append(bar);
    input.addEventListener("input", () => {
      const wanted = fold(input.value.trim());
      let shown = 0;
      for (const row of rows) {
        row.hidden = wanted !== "" && !fold(row.textContent).includes(wanted);
        shown += row.hidden ? 0 : 1;
      }
      count.textContent = wanted ? `${shown} of ${rows.length} rows` : "";
    });
  }

  const box = document.getElementById("samples");
  if (box) {
    const samples = [...box.querySelectorAll(".sample")];
    const bar = make("div", "", { class: "bar", role: "group", "aria-label": "Filter samples" });
    const count = make("output", `${samples.length} samples`);
    const selects = ["model", "dataset", "kind"].map((name) => {
      const label = make("label", { model: "Model", dataset: "Data set", kind: "Kind" }[name]);
      const select = make("select", "", { "data-filter": name });
      select.append(make("option", "all", { value: "" }));
      const seen = new Map();
      for (const sample of samples) seen.set(sample.dataset[name], (seen.get(sample.dataset[name]) || 0) + 1);
      for (const [value, number] of seen) {
        const option = make("option", `${value} (${number})`);
        option.value = value;
        select.append(option);
      }
      label.append(select);
      bar.append(label);
      return [name, select];
    });
    const label = make("label", "Text");
    const input = make("input", "", { type: "search", autocomplete: "off", "data-filter": "text" });
    label.append(input);
    bar.append(label, count);
    box.before(bar);
    const apply = () => {
      const wanted = fold(input.value.trim());
      let shown = 0;
      for (const sample of samples) {
        const fits = selects.every(([name, select]) => !select.value || sample.dataset[name] === select.value);
        sample.hidden = !(fits && (wanted === "" || fold(sample.textContent).includes(wanted)));
        shown += sample.hidden ? 0 : 1;
      }
      count.textContent = `${shown} of ${samples.length} samples`;
    };
    for (const [, select] of selects) select.addEventListener("change", apply);
    input.addEventListener("input", apply);
  }
})();
