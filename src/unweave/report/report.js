"use strict";
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const $ = (id) => document.getElementById(id);
  const column = Object.fromEntries(data.columns.map((one) => [one.key, one]));
  const count = data.names.length;
  const everyone = [...Array(count).keys()];
  const several = data.parts.length > 1;
  let selected = -1;
  let part = 0;

  const make = (tag, attributes = {}, text) => {
    const svg = ["svg", "g", "path", "line", "rect", "text", "circle"].includes(tag);
    const node = svg ? document.createElementNS("http://www.w3.org/2000/svg", tag) : document.createElement(tag);
    for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
    if (text !== undefined) node.textContent = text;
    return node;
  };
  const number = (key, value) => {
    if (value === null || value === undefined) return "–";
    const digits = { minimumFractionDigits: column[key].digits, maximumFractionDigits: column[key].digits };
    return value.toLocaleString("en", digits).replace("-", "−");
  };
  const fullName = (i) => data.names[i] + (several ? ` (${data.parts[data.part[i]]})` : "");

  // Tooltip.

  const tip = $("tip");
  const showTip = (text, x, y) => {
    tip.textContent = text;
    tip.hidden = false;
    const box = tip.getBoundingClientRect();
    tip.style.left = `${Math.max(6, Math.min(x + 14, innerWidth - box.width - 6))}px`;
    tip.style.top = `${y + 18 + box.height > innerHeight ? y - box.height - 10 : y + 18}px`;
  };
  const hideTip = () => { tip.hidden = true; };
  for (const kind of ["wheel", "touchmove"]) addEventListener(kind, hideTip, { passive: true });

  // The leaderboard.

  const board = $("board");
  const rows = [...board.tBodies[0].rows];
  const compare = (a, b, up) => {
    const none = (value) => value === null || value === undefined || value === "" || value === "–";
    if (none(a) || none(b)) return none(a) - none(b);
    const order = typeof a === "number" ? a - b : a.localeCompare(b, "en", { numeric: true });
    return up ? order : -order;
  };
  const sort = (heading) => {
    const key = heading.dataset.key;
    const before = heading.getAttribute("aria-sort");
    const up = before === "none" ? Boolean(heading.dataset.text) : before === "descending";
    for (const other of heading.parentNode.cells) other.setAttribute("aria-sort", "none");
    heading.setAttribute("aria-sort", up ? "ascending" : "descending");
    const value = (row) => {
      const i = Number(row.dataset.i);
      if (heading.dataset.text === "name") return data.names[i];
      if (heading.dataset.text) return row.cells[heading.cellIndex].textContent;
      return column[key].values[i];
    };
    const sorted = rows.map((row, place) => [value(row), place, row]);
    sorted.sort((a, b) => compare(a[0], b[0], up) || a[1] - b[1]);
    board.tBodies[0].append(...sorted.map((one) => one[2]));
  };
  for (const heading of board.tHead.rows[0].cells) {
    heading.firstElementChild.addEventListener("click", () => sort(heading));
  }
  const searchTexts = rows.map((row) => `${row.cells[0].textContent} ${data.runs[row.dataset.i]} ${[...row.cells].filter((cell) => !cell.classList.contains("number")).map((cell) => cell.textContent).join(" ")}`.toLowerCase());
  const filter = () => {
    const wanted = $("filter").value.toLowerCase().split(/\s+/).filter(Boolean);
    let left = 0;
    rows.forEach((row, place) => {
      row.hidden = !wanted.every((word) => searchTexts[place].includes(word));
      left += !row.hidden;
    });
    $("count").textContent = wanted.length ? `${left.toLocaleString("en")} of ${count.toLocaleString("en")} models` : "";
  };
  $("filter").addEventListener("input", filter);
  $("more")?.addEventListener("change", (event) => board.classList.toggle("all", event.target.checked));
  board.tBodies[0].addEventListener("click", (event) => {
    const name = event.target.closest(".name");
    if (!name) return;
    select(Number(name.closest("tr").dataset.i));
    $("panel").scrollIntoView({ block: "center" });
  });

  // Shapes and colours by method, or by group if there is only one method; never colour alone.

  const oneMethod = data.methods.length === 1;
  const kinds = oneMethod ? data.groups : data.methods;
  const kindOf = (i) => (oneMethod ? data.group[i] : data.method[i]);
  const shapes = [
    (r) => `M${-r},0a${r},${r} 0 1,0 ${2 * r},0a${r},${r} 0 1,0 ${-2 * r},0`,
    (r) => `M${-r * 0.9},${-r * 0.9}h${1.8 * r}v${1.8 * r}h${-1.8 * r}z`,
    (r) => `M0,${-1.2 * r}L${1.1 * r},${0.8 * r}H${-1.1 * r}z`,
    (r) => `M0,${-1.3 * r}L${1.3 * r},0L0,${1.3 * r}L${-1.3 * r},0z`,
    (r) => `M0,${1.2 * r}L${1.1 * r},${-0.8 * r}H${-1.1 * r}z`,
    (r) => `M${-0.45 * r},${-1.2 * r}h${0.9 * r}v${0.75 * r}h${0.75 * r}v${0.9 * r}h${-0.75 * r}v${0.75 * r}h${-0.9 * r}v${-0.75 * r}h${-0.75 * r}v${-0.9 * r}h${0.75 * r}z`,
  ];
  const mark = (kind, radius) => shapes[kind % shapes.length](radius);

  // Axes.

  const ticks = (low, high, wanted) => {
    const rough = (high - low) / wanted;
    const power = 10 ** Math.floor(Math.log10(rough));
    const step = [1, 2, 5, 10].find((one) => one * power >= rough) * power;
    const found = [];
    for (let k = Math.ceil(low / step - 1e-9); k * step <= high + step * 1e-9; k += 1) found.push(k * step || 0);
    return [found, Math.max(0, -Math.floor(Math.log10(step) + 1e-9))];
  };
  const tickText = (value, digits) => value.toLocaleString("en", { minimumFractionDigits: digits, maximumFractionDigits: digits }).replace("-", "−");
  const range = (values) => {
    let low = Infinity;
    let high = -Infinity;
    for (const value of values) { low = Math.min(low, value); high = Math.max(high, value); }
    const edge = (high - low) * 0.06 || Math.abs(high) * 0.1 || 1;
    return [low - edge, high + edge];
  };
  const here = (key) => everyone.filter((i) => data.part[i] === part && !data.diverged[i] && column[key].values[i] !== null);

  const interact = (node, i, text) => {
    node.addEventListener("pointermove", (event) => showTip(text(i), event.clientX, event.clientY));
    node.addEventListener("pointerleave", hideTip);
    node.addEventListener("click", () => select(i));
  };
  const reachable = (svg, points, text) => {
    svg.setAttribute("tabindex", "0");
    svg.addEventListener("keydown", (event) => {
      const order = points.map((point) => point.i);
      const at = order.indexOf(Number(svg.dataset.at ?? -1));
      const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
      if (step) {
        const next = points[(at + step + points.length) % points.length];
        svg.dataset.at = next.i;
        const box = next.node.getBoundingClientRect();
        showTip(text(next.i), box.right, box.bottom);
        event.preventDefault();
      } else if ((event.key === "Enter" || event.key === " ") && at >= 0) {
        select(order[at]);
        event.preventDefault();
      }
    });
    svg.addEventListener("blur", hideTip);
  };
  const place = (i, kind, radius, x, y) => {
    const node = make("path", { d: mark(kind, radius), transform: `translate(${x.toFixed(1)},${y.toFixed(1)})`, class: `dot k${kind % 8}${i === selected ? " selected" : ""}`, "data-i": i });
    return node;
  };
  const ring = (x, y, radius) => make("circle", { cx: x.toFixed(1), cy: y.toFixed(1), r: radius, class: "ring" });

  // Distributions: one row per method and strength.

  const quantile = (sorted, q) => {
    const at = (sorted.length - 1) * q;
    const low = Math.floor(at);
    return sorted[low] + (at - low) * ((sorted[low + 1] ?? sorted[low]) - sorted[low]);
  };
  const drawStrips = () => {
    const key = $("score").value;
    const chart = $("strip-chart");
    chart.replaceChildren();
    const models = here(key);
    if (!models.length) { chart.append(make("p", {}, "No model has this score.")); return; }
    const values = column[key].values;
    const groups = [...new Set(models.map((i) => data.group[i]))].sort((a, b) => a - b);
    const width = Math.max(300, chart.clientWidth || 900);
    const narrow = width < 560;
    const left = narrow ? 8 : Math.min(230, 20 + 7 * Math.max(...groups.map((g) => data.groups[g].length)));
    const band = narrow ? 52 : 38;
    const top = 8;
    const height = top + groups.length * band + 44;
    const [low, high] = range(models.map((i) => values[i]));
    const x = (value) => left + 8 + ((value - low) / (high - low)) * (width - left - 24);
    const svg = make("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": `${column[key].label} of ${models.length} models, by method and strength` });
    const [marks, digits] = ticks(low, high, narrow ? 4 : 8);
    for (const value of marks) {
      svg.append(make("line", { class: "axis", x1: x(value), x2: x(value), y1: top, y2: height - 40 }));
      svg.append(make("text", { x: x(value), y: height - 24, "text-anchor": "middle" }, tickText(value, digits)));
    }
    svg.append(make("text", { class: "title", x: x((low + high) / 2), y: height - 5, "text-anchor": "middle" }, column[key].label));
    const text = (i) => `${fullName(i)}\n${column[key].label} ${number(key, values[i])}`;
    const points = [];
    groups.forEach((group, row) => {
      const members = models.filter((i) => data.group[i] === group).sort((a, b) => values[a] - values[b]);
      const middle = top + row * band + band / 2 + (narrow ? 8 : 0);
      const sorted = members.map((i) => values[i]);
      svg.append(narrow
        ? make("text", { x: left, y: middle - 15 }, data.groups[group])
        : make("text", { x: left - 8, y: middle + 4, "text-anchor": "end" }, data.groups[group]));
      const [q1, q2, q3] = [0.25, 0.5, 0.75].map((q) => quantile(sorted, q));
      if (members.length > 3) svg.append(make("rect", { class: "box", x: x(q1), width: Math.max(1, x(q3) - x(q1)), y: middle - 10, height: 20, rx: 2 }));
      if (members.length > 1) svg.append(make("line", { class: "median", x1: x(q2), x2: x(q2), y1: middle - 10, y2: middle + 10 }));
      members.forEach((i, k) => {
        const y = middle + (members.length > 3 ? ((k * 7) % 5 - 2) * 2.6 : 0);
        const node = place(i, kindOf(i), members.length > 60 ? 3 : 4.2, x(values[i]), y);
        interact(node, i, text);
        points.push({ i, node });
        svg.append(node);
        if (data.chosen.includes(i)) svg.append(ring(x(values[i]), y, 7.5));
      });
    });
    reachable(svg, points, text);
    chart.append(svg);
    $("strip-summary").textContent = groups.map((group) => {
      const sorted = models.filter((i) => data.group[i] === group).map((i) => values[i]).sort((a, b) => a - b);
      return `${data.groups[group]}: median ${number(key, quantile(sorted, 0.5))} of ${sorted.length}`;
    }).join("; ");
  };

  // Trade-off.

  const drawScatter = () => {
    const [keyX, keyY] = [$("x").value, $("y").value];
    const chart = $("scatter");
    chart.replaceChildren();
    const withY = new Set(here(keyY));
    const models = here(keyX).filter((i) => withY.has(i));
    if (!models.length) { chart.append(make("p", {}, "No model has both scores.")); return; }
    const [vx, vy] = [column[keyX].values, column[keyY].values];
    const width = Math.max(300, chart.clientWidth || 640);
    const height = Math.round(Math.min(460, Math.max(300, width * 0.68)));
    const [left, right, top, bottom] = [58, 14, 26, 46];
    const [lowX, highX] = range(models.map((i) => vx[i]));
    const [lowY, highY] = range(models.map((i) => vy[i]));
    const x = (value) => left + ((value - lowX) / (highX - lowX)) * (width - left - right);
    const y = (value) => height - bottom - ((value - lowY) / (highY - lowY)) * (height - top - bottom);
    const svg = make("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": `${column[keyY].label} against ${column[keyX].label} of ${models.length} models; use the arrow keys to move between models` });
    const [marksX, digitsX] = ticks(lowX, highX, width < 480 ? 4 : 7);
    for (const value of marksX) {
      svg.append(make("line", { class: "axis", x1: x(value), x2: x(value), y1: top, y2: height - bottom }));
      svg.append(make("text", { x: x(value), y: height - bottom + 18, "text-anchor": "middle" }, tickText(value, digitsX)));
    }
    const [marksY, digitsY] = ticks(lowY, highY, 6);
    for (const value of marksY) {
      svg.append(make("line", { class: "axis", x1: left, x2: width - right, y1: y(value), y2: y(value) }));
      svg.append(make("text", { x: left - 8, y: y(value) + 4, "text-anchor": "end" }, tickText(value, digitsY)));
    }
    svg.append(make("text", { class: "title", x: (left + width - right) / 2, y: height - 6, "text-anchor": "middle" }, column[keyX].label));
    svg.append(make("text", { class: "title", x: 4, y: 14 }, column[keyY].label));
    if (keyX === "kl" && keyY === "reconstruction" && column.front) {
      const front = models.filter((i) => column.front.values[i] === 1).sort((a, b) => vx[a] - vx[b]);
      if (front.length > 1) svg.append(make("path", { class: "frontier", d: front.map((i, k) => `${k ? "L" : "M"}${x(vx[i]).toFixed(1)},${y(vy[i]).toFixed(1)}`).join("") }));
    }
    const text = (i) => `${fullName(i)}\n${column[keyX].label} ${number(keyX, vx[i])}, ${column[keyY].label} ${number(keyY, vy[i])}`;
    const radius = models.length > 150 ? 4 : 5.5;
    const points = models.map((i) => ({ i, node: place(i, kindOf(i), radius, x(vx[i]), y(vy[i])) }));
    points.sort((a, b) => vx[a.i] - vx[b.i]);
    for (const { i, node } of points) {
      interact(node, i, text);
      svg.append(node);
      if (data.chosen.includes(i)) svg.append(ring(x(vx[i]), y(vy[i]), radius + 4));
    }
    reachable(svg, points, text);
    chart.append(svg);
    const present = [...new Set(models.map(kindOf))].sort((a, b) => a - b);
    $("legend").replaceChildren(...present.map((kind) => {
      const item = make("span");
      const icon = make("svg", { viewBox: "-7 -7 14 14", "aria-hidden": "true" });
      icon.append(make("path", { d: mark(kind, 5), class: `k${kind % 8}` }));
      item.append(icon, make("span", {}, kinds[kind]));
      return item;
    }));
    if (models.some((i) => data.chosen.includes(i))) {
      const item = make("span");
      const icon = make("svg", { viewBox: "-7 -7 14 14", "aria-hidden": "true" });
      icon.append(make("circle", { r: 5.5, class: "ring" }));
      item.append(icon, make("span", {}, "chosen"));
      $("legend").append(item);
    }
  };

  // Selected model.

  const shown = ["reconstruction", "kl", "udr", "clear", "found", "mig", "dci", "elbo"].filter((key) => column[key]);
  const select = (i) => {
    selected = i;
    const panel = $("panel");
    panel.replaceChildren(make("h3", {}, fullName(i)));
    const facts = make("dl");
    for (const key of shown) facts.append(make("dt", {}, column[key].label), make("dd", {}, number(key, column[key].values[i])));
    panel.append(facts);
    const strip = data.strips[i];
    if (strip?.picture) {
      const strips = make("div", { class: `strips rows-${strip.rows.length}` });
      const labels = make("ol", { class: "labels" });
      for (const [latent, note, factor, name] of strip.rows) {
        const item = make("li");
        item.append(make("b", {}, name ? `${name} (z${latent})` : `z${latent}`));
        item.append(make("span", factor ? { class: "factor" } : {}, factor ? `factor ${factor}` : note));
        labels.append(item);
      }
      const film = make("div", { class: "film" });
      film.append(make("img", { src: `data:image/webp;base64,${strip.picture}`, alt: `Traversals of ${data.names[i]}, one row per latent` }));
      strips.append(labels, film);
      panel.append(strips);
    } else {
      panel.append(make("p", { class: "small" }, data.diverged[i] ? "This model diverged." : strip ? "None of its latents changes anything visible." : "This file has no traversals of this model."));
    }
    for (const row of rows) row.classList.toggle("selected", Number(row.dataset.i) === i);
    for (const dot of document.querySelectorAll(".dot")) dot.classList.toggle("selected", Number(dot.dataset.i) === i);
  };

  // Agreement.

  const cividis = ["#00224e", "#123570", "#3b496c", "#575d6d", "#707173", "#8a8678", "#a59c74", "#c3b369", "#e1cc55", "#fee838"]
    .map((hex) => [1, 3, 5].map((at) => parseInt(hex.slice(at, at + 2), 16)));
  const colour = (share) => {
    const at = Math.max(0, Math.min(1, share)) * (cividis.length - 1);
    const low = Math.min(Math.floor(at), cividis.length - 2);
    return cividis[low].map((value, k) => Math.round(value + (at - low) * (cividis[low + 1][k] - value)));
  };
  const paint = (canvas, width, height, share) => {
    canvas.width = width;
    canvas.height = height;
    const context = canvas.getContext("2d");
    const image = context.createImageData(width, height);
    for (let k = 0; k < width * height; k += 1) image.data.set([...colour(share(k)), 255], 4 * k);
    context.putImageData(image, 0, 0);
  };
  const drawHeat = (box) => {
    const heat = data.heats[box.dataset.part];
    const kind = document.getElementById(`kind-${box.dataset.part}`).value;
    const values = Uint8Array.from(atob(heat.kinds[kind]), (letter) => letter.charCodeAt(0));
    const size = heat.models.length;
    const canvas = make("canvas", { tabindex: "0", role: "img", "aria-label": `${kind} of all pairs of ${size} models; use the arrow keys to move between pairs` });
    paint(canvas, size, size, (k) => values[k] / 100);
    const frame = make("div", { class: "frame" });
    const sides = make("div", { class: "sides", "aria-hidden": "true" });
    const groups = heat.models.map((i) => data.group[i]);
    [...new Set(groups)].forEach((group) => {
      const [first, last] = [groups.indexOf(group), groups.lastIndexOf(group)];
      const label = make("span", {}, data.groups[group]);
      label.style.top = `${(100 * (first + last + 1)) / 2 / size}%`;
      sides.append(label);
    });
    frame.append(sides, canvas);
    const scale = make("div", { class: "scale" });
    const bar = make("canvas", { "aria-hidden": "true" });
    paint(bar, 64, 1, (k) => k / 63);
    scale.append(make("span", {}, "0"), bar, make("span", {}, "1"));
    box.replaceChildren(frame, scale);
    const text = (i, j) => `${kind} ${(values[i * size + j] / 100).toFixed(2)}\n${data.names[heat.models[i]]}\n${data.names[heat.models[j]]}`;
    const at = [0, 0];
    const showAt = () => {
      const area = canvas.getBoundingClientRect();
      showTip(text(...at), area.left + ((at[1] + 0.5) * area.width) / size, area.top + ((at[0] + 0.5) * area.height) / size);
    };
    canvas.addEventListener("pointermove", (event) => {
      const area = canvas.getBoundingClientRect();
      const cell = (along, length) => Math.max(0, Math.min(size - 1, Math.floor((along / length) * size)));
      const [i, j] = [cell(event.clientY - area.top, area.height), cell(event.clientX - area.left, area.width)];
      showTip(text(i, j), event.clientX, event.clientY);
    });
    canvas.addEventListener("pointerleave", hideTip);
    canvas.addEventListener("blur", hideTip);
    canvas.addEventListener("keydown", (event) => {
      const step = { ArrowRight: [0, 1], ArrowLeft: [0, -1], ArrowDown: [1, 0], ArrowUp: [-1, 0] }[event.key];
      if (!step) return;
      for (const k of [0, 1]) at[k] = Math.max(0, Math.min(size - 1, at[k] + step[k]));
      showAt();
      event.preventDefault();
    });
  };

  // Menus.

  const fill = (menu, chosen) => {
    const useful = data.columns.filter((one) => one.values.some((value) => value !== null));
    menu.append(...useful.map((one) => make("option", { value: one.key }, one.label)));
    const there = chosen.find((key) => useful.some((one) => one.key === key));
    menu.value = there ?? useful[0].key;
  };
  fill($("score"), ["udr", "mig", "reconstruction"]);
  fill($("x"), ["kl", "elbo.kl", "strength"]);
  fill($("y"), ["reconstruction", "elbo.reconstruction_error", "udr"]);
  const choosePart = $("part");
  if (choosePart) {
    choosePart.append(...data.parts.map((name, k) => make("option", { value: k }, name)));
    choosePart.addEventListener("change", () => { part = Number(choosePart.value); drawStrips(); drawScatter(); });
  }
  $("score").addEventListener("change", drawStrips);
  for (const id of ["x", "y"]) $(id).addEventListener("change", drawScatter);
  for (const box of document.querySelectorAll(".heat")) {
    drawHeat(box);
    document.getElementById(`kind-${box.dataset.part}`).addEventListener("change", () => drawHeat(box));
  }
  drawStrips();
  drawScatter();
  select(data.chosen[0] ?? 0);
  let width = innerWidth;
  addEventListener("resize", () => {
    if (innerWidth === width) return;
    width = innerWidth;
    drawStrips();
    drawScatter();
  });
})();
