// List of models: a table in a dialog, with filter and sorting.

// Integers are shown in full; numbers that JSON cannot represent arrive as text.
const short = (value) => Number.isInteger(value) || typeof value !== "number";
const format = (value) => String(short(value) ? value : Number(value.toPrecision(3)));

export function strength(model) {
  return Object.entries(model.settings ?? {}).map(([name, value]) => `${name.replaceAll("_", " ")} ${format(value)}`).join(", ");
}

/** Title of a model, such as "β-VAE · beta 4 · seed 0". */
export function title(model, method = model.label) {
  if (!model.method) return model.run;
  return [method, strength(model), `seed ${model.seed}`].filter(Boolean).join(" · ");
}

/** The dialog; calls `choose(place)`. */
export class ModelList {
  #dialog;
  #models = [];
  #columns = [];
  #sorted = { column: null, down: true };
  #choose;
  #current = 0;

  constructor(dialog, choose) {
    this.#dialog = dialog;
    this.#choose = choose;
    dialog.querySelector("#models-filter").addEventListener("input", () => this.#fill());
  }

  set models(models) {
    this.#models = models;
    const scores = [...new Set(models.flatMap((model) => Object.keys(model.scores)))];
    this.#columns = [
      { name: "method", of: (m) => m.label ?? m.run },
      { name: "strength", of: strength, order: (m) => Object.values(m.settings ?? {})[0] ?? -Infinity },
      { name: "seed", of: (m) => m.seed, number: true },
      { name: "steps", of: (m) => m.steps?.toLocaleString("en"), order: (m) => m.steps, number: true },
      ...scores.map((score) => ({
        name: score.replaceAll("_", " "),
        of: (m) => m.scores[score]?.toFixed(3),
        order: (m) => m.scores[score],
        number: true,
      })),
      { name: "", of: (m) => (m.trouble ? "damaged" : m.warning ? "⚠ warning" : m.best ? "★ best" : "") },
    ];
    const head = document.createElement("tr");
    this.#columns.forEach((column) => head.append(this.#heading(column)));
    this.#dialog.querySelector("thead").replaceChildren(head);
  }

  #heading(column) {
    const cell = document.createElement("th");
    cell.scope = "col";
    cell.classList.toggle("number", Boolean(column.number));
    if (column.name) {
      const button = document.createElement("button");
      button.className = "quiet";
      button.textContent = column.name;
      button.addEventListener("click", () => {
        this.#sorted = { column, down: this.#sorted.column === column ? !this.#sorted.down : true };
        this.#fill();
      });
      cell.append(button);
    }
    column.cell = cell;
    return cell;
  }

  #fill() {
    const wanted = plain(this.#dialog.querySelector("#models-filter").value);
    const { column, down } = this.#sorted;
    for (const one of this.#columns) {
      if (one === column) one.cell.setAttribute("aria-sort", down ? "descending" : "ascending");
      else one.cell.removeAttribute("aria-sort");
    }
    const places = [...this.#models.keys()].filter((place) => {
      const model = this.#models[place];
      const names = [title(model), title(model, model.method)].map(plain);
      return names.some((name) => name.includes(wanted)) || (wanted.length > 3 && model.run.startsWith(wanted));
    });
    if (column) {
      const key = (place) => (column.order ?? column.of)(this.#models[place]);
      places.sort((one, two) => compare(key(one), key(two), down));
    }
    this.#dialog.querySelector("tbody").replaceChildren(...places.map((place) => this.#row(place)));
    const all = this.#models.length;
    this.#dialog.querySelector("#models-count").textContent =
      places.length === all ? `${all} ${all === 1 ? "model" : "models"}` : `${places.length} of ${all} models`;
  }

  #row(place) {
    const model = this.#models[place];
    const row = document.createElement("tr");
    row.classList.toggle("damaged", Boolean(model.trouble));
    this.#columns.forEach((column, k) => {
      const cell = document.createElement("td");
      cell.classList.toggle("number", Boolean(column.number));
      const text = String(column.of(model) ?? "–");
      if (k) {
        cell.textContent = text;
      } else {
        const button = document.createElement("button");
        button.className = "quiet";
        button.textContent = text;
        button.setAttribute("aria-label", model.trouble ? `${title(model)}, damaged` : title(model));
        if (place === this.#current) button.setAttribute("aria-current", "true");
        cell.append(button);
      }
      row.append(cell);
    });
    row.title = model.trouble || model.warning || model.run;
    row.addEventListener("click", () => {
      this.#dialog.close();
      this.#choose(place);
    });
    return row;
  }

  open(current) {
    this.#current = current;
    this.#fill();
    this.#dialog.showModal();
  }
}

const plain = (text) => text.toLowerCase().split(/[\s·,]+/).filter(Boolean).join(" ");

function compare(one, two, down) {
  if (one === two) return 0;
  if (one === undefined) return 1;
  if (two === undefined) return -1;
  return (one < two ? 1 : -1) * (down ? 1 : -1);
}
