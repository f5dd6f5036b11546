// The charts of one set-up: a uPlot for each, with the line of the chosen moment.

import uPlot from "./vendor/uplot/uPlot.esm.js";
import { CHARTS, colour, figure, LINES } from "./names.js";

const HEIGHT = 150;

export class Charts {
  #plots = new Map();
  #data = null;
  #moment = 0;
  #tops = {};
  #onMoment;

  // `onMoment` hears the time on which a person clicks.
  constructor(place, onMoment) {
    this.#onMoment = onMoment;
    for (const { name, label, unit } of CHARTS) {
      const figure = document.createElement("figure");
      figure.className = `chart ${name}`;
      figure.setAttribute("role", "img");
      const caption = document.createElement("figcaption");
      caption.textContent = `${label}, ${unit}`;
      const box = document.createElement("div");
      figure.append(caption, box);
      place.append(figure);
      this.#plots.set(name, { figure, box, plot: null, shown: "" });
      new ResizeObserver(() => this.#plots.get(name).plot?.setSize({ width: box.clientWidth, height: HEIGHT })).observe(box);
    }
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.redraw());
  }

  // The highest value of each chart, so that two set-ups can have one scale.
  static tops({ tables }) {
    return Object.fromEntries(Object.entries(tables).map(([name, lines]) => [name, Object.values(lines).flat().reduce((top, value) => Math.max(top, value ?? 0), 0)]));
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
    const table = this.#data.tables[name];
    const names = Object.keys(LINES).filter((line) => table[line]);
    const columns = [this.#data.times, ...names.map((line) => table[line])];
    const said = names.map((line) => {
      const values = table[line].filter((value) => value !== null);
      return `${LINES[line].label} ${figure(values.reduce((sum, value) => sum + value, 0) / Math.max(1, values.length))}`;
    });
    entry.figure.setAttribute("aria-label", `${label} over time, ${unit}; means: ${said.join(", ") || "nothing"}`);
    if (entry.plot && entry.shown === names.join()) {
      entry.plot.setData(columns);
      return;
    }
    entry.plot?.destroy();
    entry.shown = names.join();
    const [ink, line] = [colour("--quiet"), colour("--line")];
    const axis = { stroke: ink, grid: { stroke: line, width: 1 }, ticks: { stroke: line, width: 1 }, font: "12px sans-serif" };
    entry.plot = new uPlot({
      width: entry.box.clientWidth || 300,
      height: HEIGHT,
      legend: { show: false },
      cursor: { sync: { key: "moment" }, drag: { x: false, y: false }, points: { size: 5 }, y: false },
      scales: { x: { time: false }, y: { range: () => [0, name === "share" ? 100 : Math.max(1, this.#tops[name] * 1.05)] } },
      axes: [{ ...axis, size: 28, values: (_, ticks) => ticks.map((tick) => `${tick} s`) }, { ...axis, size: 52 }],
      series: [{}, ...names.map((each) => ({ label: LINES[each].label, stroke: colour(LINES[each].colour), width: LINES[each].width, dash: LINES[each].dash, points: { show: false }, spanGaps: false }))],
      hooks: { draw: [(plot) => this.#drawMoment(plot)] },
    }, columns, entry.box);
    entry.plot.over.addEventListener("click", (event) => this.#onMoment(entry.plot.posToVal(event.offsetX, "x")));
  }

  #drawMoment(plot) {
    const x = Math.round(plot.valToPos(this.#moment, "x", true));
    const { ctx, bbox } = plot;
    ctx.save();
    ctx.strokeStyle = colour("--accent");
    ctx.lineWidth = 2;
    ctx.setLineDash([]);
    ctx.beginPath();
    ctx.moveTo(x, bbox.top);
    ctx.lineTo(x, bbox.top + bbox.height);
    ctx.stroke();
    ctx.restore();
  }
}
