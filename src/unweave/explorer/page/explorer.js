// Main script of the page: state, display and event handlers.

import { explain, listen } from "./keys.js";
import { labelOf, Latents, nameOf, number, RANGE } from "./latents.js";
import { ModelList, title } from "./models.js";
import { draw, fromBase64, nth } from "./pictures.js";
import { saveJson, savePicture, saveTable } from "./saving.js";
import { decode, encodeFile, getActivity, getImage, getModel, getModels, Newest, saveNames, ServerError } from "./server.js";

const $ = (id) => document.getElementById(id);
const STEPS = 9;
const TRAVERSAL_DELAY = 60;
const PERIOD = 5000;

let models = [];
let limits = { bytes: 0, reach: 10 };
let model = null;
let code = [];
let slots = {};
let basis = "A";
let focused = 0;
let playing = 0;
let requested = 0;
let opening = 0;
let filling = 0;

// Status and error messages

function say(text) {
  $("status").textContent = text;
}

function showError(text) {
  $("trouble").hidden = !text;
  $("trouble").querySelector("p").textContent = text;
}

/** Run something that may fail, and show the message of its error. */
async function attempt(work) {
  try {
    return await work();
  } catch (error) {
    if (!(error instanceof ServerError)) throw error;
    stop();
    showError(error.message);
    return null;
  }
}

// Decoded image

const painter = new Newest(({ from, wanted }) =>
  attempt(async () => {
    const start = performance.now();
    const { bytes, spent } = await decode(from.place, [wanted]);
    if (from !== model) return;
    draw($("picture"), bytes, model.shape);
    const shown = (performance.now() - start).toFixed(0);
    $("speed").textContent = `${shown} ms, of which ${spent.toFixed(0)} ms decoding`;
    $("picture").dataset.code = JSON.stringify(wanted);
  }),
);

/** Show the image that the code comes from next to the decoded one, if it is an image. */
function showOriginal() {
  const slot = slots[basis];
  const isImage = slot.origin.kind !== "code";
  $("source").hidden = !isImage;
  $("frame").classList.toggle("pair", isImage);
  const same = isImage && code.every((value, k) => value === slot.code[k]);
  $("picture-label").textContent = same ? "Reconstruction" : isImage ? "Changed" : "Decoded";
  if (!isImage) return;
  draw($("original"), slot.pixels, model.shape);
  $("original").setAttribute("aria-label", `Original image: ${slot.label}`);
  $("source").querySelector("p").textContent = `Original ${basis}: ${slot.label}`;
  $("source").querySelector("p").title = slot.label;
}

/** Show a code: sliders immediately, the image as soon as it is decoded. */
function show(next) {
  code = next;
  latents.update(code, slots.A.code, slots.B.code);
  showOriginal();
  painter.submit({ from: model, wanted: code });
  updateTraversal();
}

const clipped = (z) => z.map((value) => Math.min(limits.reach, Math.max(-limits.reach, value)));
const at = (base, latent, value) => base.map((old, k) => (k === latent ? value : old));

function mixed(t) {
  if (t <= 0) return [...slots.A.code];
  if (t >= 1) return [...slots.B.code];
  return slots.A.code.map((a, k) => (1 - t) * a + t * slots.B.code[k]);
}

function setMorph(t) {
  $("morph").value = t;
  $("morph").setAttribute("aria-valuetext", `${Math.round(100 * t)} % of the way to B`);
}

function morphTo(t) {
  setMorph(t);
  basis = t < 0.5 ? "A" : "B";
  show(mixed(t));
}

function play() {
  if (playing) return stop();
  $("play").setAttribute("aria-pressed", "true");
  const start = performance.now() - (Math.acos(1 - 2 * Number($("morph").value)) / (2 * Math.PI)) * PERIOD;
  const frame = (now) => {
    morphTo((1 - Math.cos((2 * Math.PI * (now - start)) / PERIOD)) / 2);
    playing = requestAnimationFrame(frame);
  };
  playing = requestAnimationFrame(frame);
}

function stop() {
  cancelAnimationFrame(playing);
  playing = 0;
  $("play").setAttribute("aria-pressed", "false");
}

/** Wrap a user action: it stops a playing morph and clears the error message. */
const userAction = (action) => (...values) => {
  stop();
  showError("");
  return action(...values);
};

const latents = new Latents($("latents"), $("latent-template"), {
  move: userAction((latent, value) => show(at(code, latent, value))),
  restore: userAction((latent) => show(at(code, latent, slots.A.code[latent]))),
  swap: userAction((latent, fromB) => show(at(code, latent, slots[fromB ? "B" : "A"].code[latent]))),
  name: (latent) => openNaming(latent),
  focus: (latent) => {
    focused = latent;
    latents.focus(latent);
    updateTraversal();
  },
});

/** Show a button per stage if there are several; it swaps all latents of the stage with B. */
function showStages() {
  const several = model.stages.length > 1;
  $("stages").hidden = !several;
  $("stages").replaceChildren(
    ...(several ? model.stages : []).map(({ name, latents: own }) => {
      const button = document.createElement("button");
      button.textContent = `${name} from B`;
      button.title = `Take all latents of ${name} from image B, or reset them to A`;
      button.dataset.stage = name;
      button.addEventListener(
        "click",
        userAction(() => {
          const there = own.every((latent) => code[latent] === slots.B.code[latent]);
          const source = slots[there ? "A" : "B"].code;
          show(code.map((value, latent) => (own.includes(latent) ? source[latent] : value)));
        }),
      );
      return button;
    }),
  );
}

const randomCode = (latents = model.latents) =>
  Array.from({ length: latents }, () => {
    const radius = Math.sqrt(-2 * Math.log(1 - Math.random()));
    return Math.fround(Math.max(-5, Math.min(5, radius * Math.cos(2 * Math.PI * Math.random()))));
  });

// Traversal of one latent

let traversed = "";
let traversalTimer = 0;
const traversalValues = Array.from({ length: STEPS }, (_, k) => -RANGE + (2 * RANGE * k) / (STEPS - 1));

const traverser = new Newest((key) =>
  attempt(async () => {
    const from = model;
    const latent = focused;
    const { bytes } = await decode(from.place, traversalValues.map((value) => at(code, latent, value)));
    if (from !== model) return;
    traversed = key;
    [...$("traversal").children].forEach((button, k) => {
      draw(button.querySelector("canvas"), nth(bytes, k, model.shape), model.shape);
      button.setAttribute("aria-label", `Set latent ${latent} to ${number(traversalValues[k])}`);
    });
    $("traversal").dataset.latent = latent;
  }),
);

function updateTraversal() {
  $("traversal-title").textContent = `Traversal of latent ${labelOf(model, focused)}`;
  let nearest = 0;
  traversalValues.forEach((value, k) => {
    if (Math.abs(value - code[focused]) < Math.abs(traversalValues[nearest] - code[focused])) nearest = k;
  });
  [...$("traversal").children].forEach((button, k) => button.classList.toggle("nearest", k === nearest));
  // A traversal does not depend on the current value of its own latent.
  const key = JSON.stringify([model.place, focused, at(code, focused, 0)]);
  clearTimeout(traversalTimer);
  if (key !== traversed) traversalTimer = setTimeout(() => traverser.submit(key), TRAVERSAL_DELAY);
}

function buildTraversal() {
  $("traversal").replaceChildren(
    ...traversalValues.map((value) => {
      const button = document.createElement("button");
      const canvas = document.createElement("canvas");
      const caption = document.createElement("span");
      caption.textContent = number(value);
      canvas.width = canvas.height = 1;
      button.append(canvas, caption);
      button.addEventListener("click", userAction(() => show(at(code, focused, value))));
      return button;
    }),
  );
}

// The two starting images

function buildSlot(letter) {
  const part = $("slot-template").content.firstElementChild.cloneNode(true);
  part.id = `slot-${letter.toLowerCase()}`;
  part.setAttribute("aria-label", `Image ${letter}`);
  const badge = part.querySelector(".badge");
  badge.textContent = letter;
  badge.classList.add(letter.toLowerCase());
  const file = part.querySelector("input");
  const name = (button, what, key) => {
    part.querySelector(button).setAttribute("aria-label", `Image ${letter}: ${what}`);
    if (letter === "A" && key) part.querySelector(button).title = `${what} (${key})`;
    else part.querySelector(button).title = what;
  };
  name(".previous", "previous image", "p");
  name(".next", "next image", "n");
  name(".random", "random image", "r");
  name(".open", "choose a file");
  part.querySelector(".previous").addEventListener("click", () => step(letter, -1));
  part.querySelector(".next").addEventListener("click", () => step(letter, 1));
  part.querySelector(".random").addEventListener("click", () => random(letter));
  part.querySelector(".open").addEventListener("click", () => file.click());
  file.addEventListener("change", () => {
    if (file.files.length) fill(letter, { kind: "file", file: file.files[0] });
    file.value = "";
  });
  return part;
}

const wrapped = (place) => ((place % model.images) + model.images) % model.images;

function step(letter, by) {
  if (!model.images) return null;
  const now = slots[letter].origin;
  return fill(letter, { kind: "data", number: wrapped(now.kind === "data" ? now.number + by : model.start) });
}

function random(letter) {
  if (!model.images) return fill(letter, { kind: "code", code: randomCode() });
  return fill(letter, { kind: "data", number: Math.floor(Math.random() * model.images) });
}

/** Load the contents of a slot from an origin, encoded by a model. */
async function fetched(of, origin) {
  if (origin.kind === "file") {
    if (origin.file.size > limits.bytes) {
      throw new ServerError(`This file is too large: at most ${Math.floor(limits.bytes / 2 ** 20)} MB.`);
    }
    const { pixels, code: z } = await encodeFile(of.place, origin.file);
    return { origin, code: z, pixels: fromBase64(pixels), label: origin.file.name, factors: "" };
  }
  if (origin.kind === "data") {
    const { pixels, code: z, factors, file } = await getImage(of.place, origin.number);
    const count = `${(origin.number + 1).toLocaleString("en")} / ${of.images.toLocaleString("en")}`;
    const text = Object.entries(factors).map(([name, value]) => `${name} ${value}`);
    const facts = (file ? [count, ...text] : text).join(" · ");
    return { origin, code: z, pixels: fromBase64(pixels), label: file || count, factors: facts };
  }
  const { bytes } = await decode(of.place, [origin.code]);
  const zero = origin.code.every((value) => value === 0);
  const label = zero ? "mean of the prior" : "sample from the prior";
  return { origin, code: origin.code, pixels: bytes, label, factors: "" };
}

/** Put something into a slot and show it. */
const fill = userAction((letter, origin) => {
  const now = ++filling;
  const from = model;
  return attempt(async () => {
    const slot = await fetched(from, origin);
    if (now !== filling || from !== model) return;
    place(letter, slot);
    setMorph(letter === "A" ? 0 : 1);
    basis = letter;
    show([...slots[letter].code]);
    say(`Image ${letter}: ${slot.label}.${slot.far ? ` ${slot.far}` : ""}`);
  });
});

function place(letter, slot) {
  const within = clipped(slot.code);
  const cut = slot.code.flatMap((value, k) => (value === within[k] ? [] : [`${nameOf(model, k)} = ${number(value, 1)}`]));
  slots[letter] = { ...slot, code: within, encoded: slot.code };
  if (cut.length) slots[letter].far = slot.far = `Outside the sliders’ range and clipped: ${cut.join(", ")}.`;
  const part = $(`slot-${letter.toLowerCase()}`);
  const canvas = part.querySelector("canvas");
  draw(canvas, slot.pixels, model.shape);
  canvas.setAttribute("aria-label", `Image ${letter}: ${slot.label}`);
  part.querySelector(".label").title = slot.label;
  part.querySelector(".label").textContent = slot.label;
  part.querySelector(".factors").textContent = slot.far ?? slot.factors;
  part.querySelector(".factors").title = slot.far ?? slot.factors;
  for (const button of part.querySelectorAll(".previous, .next")) button.disabled = !model.images;
}

/** Keep the same image for another model, if it has it. */
function carried(letter, of) {
  const origin = slots[letter]?.origin;
  if (origin?.kind === "file") return origin;
  if (of.images) {
    const known = origin?.kind === "data" && origin.number < of.images && model?.origin === of.origin;
    const second = Math.floor(of.start + 0.382 * of.images) % of.images;
    return { kind: "data", number: known ? origin.number : letter === "A" ? of.start : second };
  }
  const fits = origin?.kind === "code" && origin.code.length === of.latents;
  if (fits) return origin;
  return { kind: "code", code: letter === "A" ? Array(of.latents).fill(0) : randomCode(of.latents) };
}

// Models

const choose = userAction((wanted) => {
  const now = ++opening;
  requested = wanted;
  const hadFocus = $("latents").contains(document.activeElement);
  say(`Opening ${title(models[wanted])} …`);
  document.body.classList.add("busy");
  return attempt(async () => {
    const next = await getModel(wanted);
    const filled = {};
    for (const letter of ["A", "B"]) {
      try {
        filled[letter] = await fetched(next, carried(letter, next));
      } catch (error) {
        if (slots[letter]?.origin.kind !== "file") throw error;
        slots[letter] = undefined;
        filled[letter] = await fetched(next, carried(letter, next));
      }
    }
    if (now !== opening) return;
    model = next;
    $("main").inert = false;
    traversed = "";
    for (const letter of ["A", "B"]) place(letter, filled[letter]);
    describe();
    latents.show(model, limits.reach);
    showStages();
    latents.focus((focused = latents.firstLatent));
    hide();
    if (hadFocus) latents.slider(focused).focus();
    setMorph(0);
    basis = "A";
    show([...slots.A.code]);
    say(`Opened ${title(model)}.`);
    if (!model.activity_complete) measureAll(model);
  }).finally(() => document.body.classList.remove("busy"));
});

/** Measure activity on all images; the first estimate uses only a few. */
const measureAll = (of) =>
  attempt(async () => {
    Object.assign(of, await getActivity(of.place));
    if (of !== model) return;
    describe();
    latents.measure(model);
  });

function describe() {
  const [height, width, channels] = model.shape;
  $("model-name").textContent = title(model);
  document.title = `${title(model)} – unweave explorer`;
  const part = model.members > 1 ? `, first of ${model.members} members` : "";
  $("shape").textContent = `${width} × ${height}, ${channels === 1 ? "greyscale" : "colour"}${part}`;
  const failed = model.verdict?.level === "failed";
  const warnings = [model.warning, failed && `This fit failed: do not use this model. ${model.verdict.reasons[0]}`];
  $("warning").textContent = warnings.filter(Boolean).join(" ");
  $("warning").hidden = !$("warning").textContent;
  showVerdict();
  const idle = model.activity.filter((value) => !(value > model.threshold)).length;
  const count = `${model.activity.length - idle} of ${model.activity.length} latents are clear`;
  const measured =
    model.measure === "KL"
      ? `mean KL divergence above ${model.threshold} nats`
      : "standard deviation of the code above a tenth of the largest, since this model has no noise";
  const source =
    model.activity_from === "data"
      ? `on images of ${model.data}.`
      : `estimated on images decoded from the prior. ${model.no_data}`;
  $("activity-note").textContent = `${count}: ${measured}, ${source}`;
  $("hide-text").textContent = idle ? `Hide ${idle} inactive` : "All latents are clear";
  $("hide").disabled = !idle;
  const draws = model.images ? "random image" : "random code";
  for (const letter of ["A", "B"]) {
    const button = $(`slot-${letter.toLowerCase()}`).querySelector(".random");
    button.setAttribute("aria-label", `Image ${letter}: ${draws}`);
  }
}

const VERDICTS = {
  good: ["✓", "Good fit"],
  weak: ["!", "Weak fit"],
  failed: ["✕", "Failed fit"],
};

/** Show the verdict on the fit as a badge, with its reasons in a dialog; other models have none. */
function showVerdict() {
  const { verdict } = model;
  $("verdict").hidden = !verdict;
  if (!verdict) return;
  const [sign, text] = VERDICTS[verdict.level];
  $("verdict").className = verdict.level;
  $("verdict").setAttribute("aria-label", `Verdict: ${text}`);
  $("verdict").title = [...verdict.reasons, verdict.advice].join(" ");
  $("verdict").querySelector(".sign").textContent = sign;
  $("verdict").querySelector(".text").textContent = text;
  $("verdict-title").textContent = text;
  $("verdict-reasons").replaceChildren(
    ...verdict.reasons.map((reason) => {
      const item = document.createElement("li");
      item.textContent = reason;
      return item;
    }),
  );
  $("verdict-advice").textContent = verdict.advice && `Next: ${verdict.advice}`;
}

// Names of latents

function openNaming(latent) {
  if (!model.can_be_named) return showError("Only latents of saved models can be named; save this model in a folder first.");
  $("name-dialog").dataset.latent = latent;
  $("name-title").textContent = `Name of latent ${nameOf(model, latent)}`;
  $("name-text").value = model.names[latent] ?? "";
  $("name-text").maxLength = limits.name;
  $("name-remove").hidden = !model.names[latent];
  $("name-error").hidden = true;
  $("name-dialog").showModal();
  $("name-text").select();
  return null;
}

async function rename(text) {
  const of = model;
  const latent = Number($("name-dialog").dataset.latent);
  const { [latent]: _, ...others } = of.names;
  const name = text.trim();
  try {
    of.names = (await saveNames(of.place, name ? { ...others, [latent]: name } : others)).names;
  } catch (error) {
    if (!(error instanceof ServerError)) throw error;
    $("name-error").textContent = error.message;
    $("name-error").hidden = false;
    return;
  }
  $("name-dialog").close();
  latents.measure(of);
  updateTraversal();
  say(name ? `Latent ${nameOf(of, latent)} is now called ${name}.` : `Latent ${nameOf(of, latent)} has no name.`);
}

function hide() {
  $("latents").classList.toggle("only-active", $("hide").checked);
}

/** Open the next model after the one last requested, even if that one could not be opened. */
function neighbour(by) {
  for (let k = 1; k <= models.length; k++) {
    const there = ((requested + by * k) % models.length + models.length) % models.length;
    if (!models[there].trouble) return choose(there);
  }
  return null;
}

const list = new ModelList($("models-dialog"), choose);
const openList = () => list.open(model?.place ?? 0);
const openHelp = () => $("help-dialog").showModal();

// Controls

const encoded = () => ({ shown: code, A: slots.A.encoded, B: slots.B.encoded });
const reset = userAction(() => morphTo(0));
const randomise = userAction(() => {
  show(randomCode());
  say("Sampled a code from the prior.");
});
const saving = (save) => () => attempt(save);
const savePng = saving(() => savePicture(model, code));
const saveCsv = saving(() => saveTable(model, encoded()));

function toggleHide() {
  if (!$("hide").disabled) $("hide").click();
}

function swapFocused() {
  const box = $("latents").querySelector(`[data-latent="${focused}"] .from-b input`);
  box.click();
}

const shortcuts = [
  ["n", "next image for A", () => step("A", 1)],
  ["p", "previous image for A", () => step("A", -1)],
  ["r", "random image for A", () => random("A")],
  ["b", "take the focused latent from B, or reset it to A", swapFocused],
  ["m", "play or stop the morph", play],
  ["0", "back to image A", reset],
  ["g", "sample a code from the prior", randomise],
  ["e", "name the focused latent", () => openNaming(focused)],
  ["h", "hide or show inactive latents", toggleHide],
  ["[", "previous model", () => neighbour(-1)],
  ["]", "next model", () => neighbour(1)],
  ["l", "list of models", openList],
  ["s", "save the image as PNG", savePng],
  ["c", "save the codes as CSV", saveCsv],
  ["?", "this help", openHelp],
];

function listenToFiles() {
  const carries = (event) => event.dataTransfer?.types.includes("Files");
  const over = (event) => {
    if (!carries(event)) return;
    event.preventDefault();
    $("veil").hidden = false;
    const onB = Boolean(event.target.closest?.("#slot-b"));
    $("slot-b").classList.toggle("target", onB);
    $("slot-a").classList.toggle("target", !onB);
  };
  const leave = () => {
    $("veil").hidden = true;
    for (const letter of ["a", "b"]) $(`slot-${letter}`).classList.remove("target");
  };
  addEventListener("dragenter", over);
  addEventListener("dragover", over);
  addEventListener("dragleave", (event) => !event.relatedTarget && leave());
  addEventListener("drop", (event) => {
    if (!carries(event)) return;
    event.preventDefault();
    leave();
    take(event.dataTransfer.files, event.target.closest?.("#slot-b") ? "B" : "A");
  });
  addEventListener("paste", (event) => take(event.clipboardData.files, "A"));
}

function take(files, letter) {
  if (files.length && model) fill(letter, { kind: "file", file: files[0] });
}

function listenToControls() {
  const on = (id, event, action) => $(id).addEventListener(event, action);
  on("previous-model", "click", () => neighbour(-1));
  on("next-model", "click", () => neighbour(1));
  on("choose-model", "click", openList);
  on("help", "click", openHelp);
  on("dismiss", "click", () => showError(""));
  on("morph", "input", userAction(() => morphTo(Number($("morph").value))));
  on("play", "click", play);
  on("reset", "click", reset);
  on("randomise", "click", randomise);
  on("save-picture", "click", savePng);
  on("save-csv", "click", saveCsv);
  on("save-json", "click", saving(() => saveJson(model, encoded())));
  on("hide", "change", hide);
  on("verdict", "click", () => $("verdict-dialog").showModal());
  on("name-save", "click", () => rename($("name-text").value));
  on("name-remove", "click", () => rename(""));
  on("name-text", "keydown", (event) => event.key === "Enter" && !event.isComposing && rename($("name-text").value));
  for (const button of document.querySelectorAll("[data-close]")) {
    button.addEventListener("click", () => button.closest("dialog").close());
  }
  for (const dialog of document.querySelectorAll("dialog")) {
    dialog.addEventListener("click", (event) => event.target === dialog && dialog.close());
  }
  explain($("shortcuts"), shortcuts);
  listen(shortcuts, () => model && $("shortcuts-on").checked);
  listenToFiles();
}

async function begin() {
  $("slots").append(buildSlot("A"), buildSlot("B"));
  buildTraversal();
  listenToControls();
  await attempt(async () => {
    const index = await getModels();
    ({ models, limits } = index);
    $("title").textContent = index.title;
    list.models = models;
    for (const id of ["previous-model", "next-model"]) $(id).disabled = models.length < 2;
    await choose(models.findIndex((one) => !one.trouble));
  });
}

begin();
