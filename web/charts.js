// The charts of one set-up: a uPlot for each, with the line of the chosen moment.

import uPlot from "./vendor/uplot/uPlot.esm.js";
import { CHARTS, colour, figure, LINES } from "./names.js";
import { save } from "./save.js";

const HEIGHT = 150;
// Of a figure that is saved: half a slide, in pixels of the screen, and how many of the picture stand for each.
const SAVED = { width: 640, height: 300, head: 56, sharp: 3 };

export class Charts {
  #plots = new Map();
  #data = null;
  #moment = 0;
  #tops = {};
  #onMoment;
  #nameOf;

  // `onMoment` hears the time on which a person clicks; `nameOf` says what a line is called.
  constructor(place, onMoment, nameOf) {
    this.#onMoment = onMoment;
    this.#nameOf = nameOf;
    for (const { name, label, unit } of CHARTS) {
      const figure = document.createElement("figure");
      figure.className = `chart ${name}`;
      figure.setAttribute("role", "img");
      const caption = document.createElement("figcaption");
      caption.textContent = `${label}, ${unit}`;
      const button = document.createElement("button");
      Object.assign(button, { type: "button", textContent: "Save figure", ariaLabel: `Save the figure: ${label}`, onclick: () => this.#save(name) });
      caption.append(button);
      const box = document.createElement("div");
      figure.append(caption, box);
      place.append(figure);
      this.#plots.set(name, { figure, box, plot: null, shown: "" });
      new ResizeObserver(() => this.#plots.get(name).plot?.setSize({ width: box.clientWidth, height: HEIGHT })).observe(box);
    }
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.redraw());
  }

  // The highest value of each chart, so that two set-ups can have one scale.
  static tops({ tables, possible, possibleOver }) {
    const most = possibleOver ? possibleOver.reduce((top, value) => Math.max(top, value), 0) : possible;
    const least = (name) => (name === "goodput" && Number.isFinite(most) ? most : 0);
    return Object.fromEntries(Object.entries(tables).map(([name, lines]) => [name, Object.values(lines).flat().reduce((top, value) => Math.max(top, value ?? 0), least(name))]));
  }

  show(data, tops) {
    this.#data = data;
    this.#tops = tops;
    for (const chart of CHARTS) this.#draw(chart);
  }

  setMoment(moment) {
    this.#moment = moment;
    for (const { plot } of this.#plots.values()) plot?.redraw(false);
  }

  redraw() {
    for (const entry of this.#plots.values()) {
      entry.plot?.destroy();
      Object.assign(entry, { plot: null, shown: "" });
    }
    if (this.#data) this.show(this.#data, this.#tops);
  }

  #draw({ name, label, unit }) {
    const entry = this.#plots.get(name);
    const { table, names, columns } = this.#lines(name);
    const said = names.map((line) => {
      const values = table[line].filter((value) => value !== null);
      return `${LINES[line].label} ${figure(values.reduce((sum, value) => sum + value, 0) / Math.max(1, values.length))}`;
    });
    entry.figure.setAttribute("aria-label", `${label} over time, ${unit}; means: ${said.join(", ") || "nothing"}${name === "goodput" && Number.isFinite(this.#data.possible) ? `; possible ${figure(this.#data.possible)}` : ""}`);
    if (entry.plot && entry.shown === names.join()) {
      entry.plot.setData(columns);
      return;
    }
    entry.plot?.destroy();
    entry.shown = names.join();
    entry.plot = new uPlot(this.#options(name, names, { width: entry.box.clientWidth || 300, height: HEIGHT }), columns, entry.box);
    entry.plot.over.addEventListener("click", (event) => this.#onMoment(entry.plot.posToVal(event.offsetX, "x")));
  }

  // `scale` makes everything larger; a picture has no moment, and room for the last tick.
  #options(name, names, { width, height }, scale = 1, picture = false) {
    const [ink, line] = [colour("--quiet"), colour("--line")];
    const axis = { stroke: ink, grid: { stroke: line, width: scale }, ticks: { stroke: line, width: scale, size: 10 * scale }, gap: 5 * scale, font: `${12 * scale}px sans-serif` };
    const lineOf = ({ label, colour: of, width: wide, dash }) => ({ label, stroke: colour(of), width: wide * scale, dash: dash?.map((each) => each * scale), points: { show: false }, spanGaps: false });
    return {
      width: width * scale,
      height: height * scale,
      padding: [null, picture ? 20 * scale : null, null, null],
      legend: { show: false },
      cursor: { show: !picture, sync: { key: "moment" }, drag: { x: false, y: false }, points: { size: 5 }, y: false },
      scales: { x: { time: false }, y: { range: () => [0, name === "share" ? 100 : Math.max(1, this.#tops[name] * 1.05)] } },
      axes: [{ ...axis, size: 28 * scale, space: 50 * scale, values: (_, ticks) => ticks.map((tick) => `${tick} s`) }, { ...axis, size: 52 * scale, space: 30 * scale }],
      series: [{}, ...names.map((each) => lineOf(LINES[each]))],
      hooks: { draw: [(plot) => this.#drawLines(plot, name, scale, picture)] },
    };
  }

  // The moment, and how much goodput is possible.
  #drawLines(plot, name, scale, picture) {
    const { ctx, bbox } = plot;
    ctx.save();
    const stroke = (style, dash, from, ...others) => {
      Object.assign(ctx, { strokeStyle: style, lineWidth: 2 * scale });
      ctx.setLineDash(dash.map((each) => each * scale));
      ctx.beginPath();
      ctx.moveTo(...from);
      for (const to of others) ctx.lineTo(...to);
      ctx.stroke();
    };
    const x = Math.round(plot.valToPos(this.#moment, "x", true));
    if (!picture) stroke(colour("--accent"), [], [x, bbox.top], [x, bbox.top + bbox.height]);
    const { times, possible, possibleOver } = this.#data;
    if (name === "goodput" && Number.isFinite(possible)) {
      const y = Math.round(plot.valToPos(possibleOver?.at(-1) ?? possible, "y", true));
      const line = possibleOver?.map((value, index) => [plot.valToPos(times[index], "x", true), plot.valToPos(value, "y", true)]);
      stroke(colour("--quiet"), [3, 5], ...(line ?? [[bbox.left, y], [bbox.left + bbox.width, y]]));
      Object.assign(ctx, { fillStyle: colour("--quiet"), font: `${12 * scale * uPlot.pxRatio}px sans-serif`, textAlign: "right", textBaseline: "top" });
      ctx.fillText("possible", bbox.left + bbox.width - 4 * scale, y + 4 * scale);
    }
    ctx.restore();
  }

  // As a picture for a slide, with what its lines are called.
  async #save(name) {
    if (!this.#data) return;
    const { label, unit } = CHARTS.find((chart) => chart.name === name);
    const { names, columns } = this.#lines(name);
    // uPlot has one ratio for all its plots: the screen's.
    const scale = SAVED.sharp / uPlot.pxRatio;
    const options = this.#options(name, names, SAVED, scale, true);
    const plot = await new Promise((resolve) => new uPlot({ ...options, hooks: { ...options.hooks, ready: [resolve] } }, columns, document.createElement("div")));
    const [width, head] = [plot.ctx.canvas.width, SAVED.head * SAVED.sharp];
    const picture = Object.assign(document.createElement("canvas"), { width, height: plot.ctx.canvas.height + head });
    const ctx = picture.getContext("2d");
    ctx.fillStyle = colour("--paper");
    ctx.fillRect(0, 0, picture.width, picture.height);
    ctx.drawImage(plot.ctx.canvas, 0, head);
    ctx.scale(SAVED.sharp, SAVED.sharp);
    Object.assign(ctx, { fillStyle: colour("--ink"), font: "600 15px sans-serif", textBaseline: "middle" });
    ctx.fillText(`${label}, ${unit}`, 12, 16);
    ctx.font = "12px sans-serif";
    let x = 12;
    for (const each of names) {
      const { colour: of, width: wide, dash = [] } = LINES[each];
      Object.assign(ctx, { strokeStyle: colour(of), lineWidth: wide });
      ctx.setLineDash(dash);
      ctx.beginPath();
      ctx.moveTo(x, 40);
      ctx.lineTo(x + 30, 40);
      ctx.stroke();
      ctx.fillText(this.#nameOf(each), x + 36, 40);
      x += 36 + ctx.measureText(this.#nameOf(each)).width + 18;
    }
    plot.destroy();
    picture.toBlob((blob) => save(`${name}.png`, blob, "image/png"));
  }

  #lines(name) {
    const table = this.#data.tables[name];
    const names = Object.keys(LINES).filter((line) => table[line]);
    return { table, names, columns: [this.#data.times, ...names.map((line) => table[line])] };
  }
}
