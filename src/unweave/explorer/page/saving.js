// Downloads: the image as PNG, and the codes as CSV or, with the model settings, as JSON.

import { drawPicture } from "./server.js";
import { title } from "./models.js";

function download(blob, name) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(blob);
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}

const fileName = (model) => title(model, model.method).replace(/[^\w.]+/g, "-");

export async function savePicture(model, code) {
  download(await drawPicture(model.place, code), `${fileName(model)}.png`);
}

export function saveTable(model, codes) {
  const word = (latent) => (model.names[latent] ?? "").replace(/[^\p{L}\p{N}_]+/gu, "_").replace(/^_+|_+$/g, "");
  const names = model.activity.map((_, latent) => [`latent_${latent}`, word(latent)].filter(Boolean).join("_"));
  const rows = Object.entries(codes).map(([name, code]) => [name, ...code]);
  const text = [["code", ...names], ...rows].map((row) => row.join(",")).join("\n");
  download(new Blob([`${text}\n`], { type: "text/csv" }), `${fileName(model)}.csv`);
}

export function saveJson(model, codes) {
  const { run, method, settings, seed, steps, activity, measure, activity_from, names } = model;
  const saved = { run, method, settings, seed, steps, names, activity, measure, activity_from, codes };
  const text = `${JSON.stringify(saved, null, 1)}\n`;
  download(new Blob([text], { type: "application/json" }), `${fileName(model)}.json`);
}
