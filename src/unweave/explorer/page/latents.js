// Sliders: one row per latent, the most active first.

export const RANGE = 3;
const minus = (text) => text.replace("-", "−");
export const number = (value, digits = 2) => minus(value.toFixed(digits));

/** Name of a latent: z3, or for models with several stages C3, Z0, …, counted per stage. */
export function nameOf(model, latent) {
  if (model.stages.length < 2) return `z${latent}`;
  const stage = model.stages.find(({ latents }) => latents.includes(latent));
  return `${stage.name}${latent - stage.latents[0]}`;
}

/** Name of a latent with its number: "size (z3)", or just z3 if it has no name. */
export function labelOf(model, latent) {
  const name = model.names[latent];
  return name ? `${name} (${nameOf(model, latent)})` : nameOf(model, latent);
}

/** The rows of sliders; reports user actions through callbacks. */
export class Latents {
  #list;
  #template;
  #on;
  #rows = [];
  #reach;

  constructor(list, template, on) {
    this.#list = list;
    this.#template = template;
    this.#on = on;
  }

  /** Build the rows of a model, sorted by activity. */
  show(model, reach) {
    this.#reach = reach;
    this.#rows = [];
    this.#list.replaceChildren(...model.activity.map((_, latent) => this.#row(model, latent)));
    this.measure(model);
  }

  /** Update the bars, labels and order of the rows from the activity of the latents. */
  measure(model) {
    const most = Math.max(...model.activity, 1e-9);
    const unit = model.measure === "KL" ? "nats" : "spread";
    model.activity.forEach((activity, latent) => {
      const { item, slider } = this.#rows[latent];
      const active = activity > model.threshold;
      item.classList.toggle("inactive", !active);
      item.querySelector(".bar").style.setProperty("--part", activity / most);
      item.querySelector(".amount").textContent = active ? activity.toFixed(2) : "inactive";
      item.querySelector(".activity").title = `${model.measure} ${activity.toFixed(3)} ${unit}`;
      const amount = active ? `${model.measure} ${activity.toFixed(2)} ${unit}` : "inactive";
      const name = model.names[latent] ? ` (${model.names[latent]})` : "";
      slider.setAttribute("aria-label", `Latent ${latent}${name}, ${amount}`);
      this.#label(model, latent);
    });
    const order = model.activity.map((_, latent) => latent);
    order.sort((a, b) => model.activity[b] - model.activity[a] || a - b);
    const items = order.map((latent) => this.#rows[latent].item);
    // Moving a row loses the focus and interrupts the dragging of its slider.
    if (items.every((item, k) => item === this.#list.children[k])) return;
    const focus = this.#list.contains(document.activeElement) ? document.activeElement : null;
    this.#list.append(...items);
    focus?.focus();
  }

  /** Show the name of a latent in its row. */
  #label(model, latent) {
    const button = this.#rows[latent].item.querySelector(".name");
    const name = model.names[latent];
    const number = document.createElement(name ? "small" : "span");
    number.textContent = nameOf(model, latent);
    button.replaceChildren(...(name ? [name, " "] : []), number);
    button.disabled = !model.can_be_named;
    button.title = model.can_be_named ? `${name ? `${name}. ` : ""}Click to name this latent (e)` : name ?? "";
    this.#list.classList.toggle("named", Object.keys(model.names).length > 0);
  }

  #row(model, latent) {
    const name = nameOf(model, latent);
    const item = this.#template.content.firstElementChild.cloneNode(true);
    item.dataset.latent = latent;
    item.querySelector(".name").addEventListener("click", () => this.#on.name(latent));
    const slider = item.querySelector(".track input");
    slider.addEventListener("input", () => this.#on.move(latent, Number(slider.value)));
    slider.addEventListener("dblclick", () => this.#on.restore(latent));
    item.addEventListener("focusin", () => this.#on.focus(latent));
    item.addEventListener("pointerdown", () => this.#on.focus(latent));
    const fromB = item.querySelector(".from-b input");
    fromB.setAttribute("aria-label", `Take latent ${latent} from image B`);
    item.querySelector(".from-b").title = `Take ${name} from B (b)`;
    fromB.addEventListener("change", () => this.#on.swap(latent, fromB.checked));
    const parts = { item, slider, fromB, output: item.querySelector("output") };
    parts.marks = { A: item.querySelector(".mark.a"), B: item.querySelector(".mark.b") };
    this.#rows[latent] = parts;
    return item;
  }

  /** Set sliders, numbers, marks and switches to a code. */
  update(code, a, b) {
    code.forEach((value, latent) => {
      const { slider, output, fromB, marks } = this.#rows[latent];
      const far = Math.max(Math.abs(value), Math.abs(a[latent]), Math.abs(b[latent]));
      const end = Math.min(this.#reach, Math.max(RANGE, Math.ceil(far)));
      if (Number(slider.max) !== end) {
        slider.min = -end;
        slider.max = end;
      }
      slider.value = value;
      const text = number(value);
      if (output.value !== text) {
        output.value = text;
        slider.setAttribute("aria-valuetext", text);
      }
      fromB.checked = value === b[latent] && value !== a[latent];
      marks.A.style.setProperty("--at", (a[latent] + end) / (2 * end));
      marks.B.style.setProperty("--at", (b[latent] + end) / (2 * end));
    });
  }

  focus(latent) {
    for (const { item } of this.#rows) {
      item.classList.toggle("focused", Number(item.dataset.latent) === latent);
    }
  }

  slider(latent) {
    return this.#rows[latent].slider;
  }

  get firstLatent() {
    return Number(this.#list.firstElementChild.dataset.latent);
  }
}
