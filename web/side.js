// One set-up: its settings, its run, its charts and its figures.

import { Charts } from "./charts.js";
import { figure, LINES, named } from "./names.js";
import { drawNetwork } from "./network.js";
import { chartsOf, figuresOf, missing, possibleOf, possibleOver } from "./results.js";
import { scenarioOf } from "./scenario.js";
import { Simulator } from "./simulator.js";
import { studyOf } from "./study.js";

// While a person drags, a run that is nearly done is still drawn; a longer one is abandoned for the newest settings.
const PATIENCE_MS = 400;

export class Side {
  settings;
  result = null;
  scenario = null;
  data = null;
  #place;
  #declared;
  #simulator = new Simulator();
  #begun = null;
  #waiting = 0;
  #onResult;
  #onEnd;

  // `place` is a copy of the page's template for a set-up; `onResult` hears that there is something new to show, `onEnd` also of a run
  // that failed.
  constructor(place, declared, { onResult, onMoment, onEnd }) {
    this.#place = place;
    this.#declared = declared;
    this.#onResult = onResult;
    this.#onEnd = onEnd;
    this.charts = new Charts(place.querySelector(".charts"), onMoment, (line) => named(line, this.settings));
  }

  // Runs the settings as soon as there is time for it.
  update(settings) {
    this.settings = settings;
    drawNetwork(this.#place.querySelector(".network"), settings);
    clearTimeout(this.#waiting);
    const running = this.#begun === null ? Infinity : performance.now() - this.#begun;
    this.#waiting = setTimeout(() => this.#run(), running < PATIENCE_MS ? PATIENCE_MS - running : 20);
  }

  stop() {
    clearTimeout(this.#waiting);
  }

  tellApart(differences) {
    this.#place.querySelector(".apart").textContent = differences.length ? differences.join("; ") : "the same settings so far";
  }

  showMoment(moment) {
    this.charts.setMoment(moment);
    const caption = this.#place.querySelector(".moment caption");
    caption.textContent = `At ${moment.toFixed(2)} s, the line in the charts`;
    if (!this.data) return;
    const { times, tables } = this.data;
    const next = times.findIndex((at) => at > moment + 1e-9);
    const index = next < 0 ? times.length - 1 : Math.max(0, next - 1);
    // A file may have come long before.
    if (moment - times[index] > 0.1) caption.textContent = `At ${times[index].toFixed(2)} s, when the run ended`;
    const names = Object.keys(LINES).filter((name) => Object.values(tables).some((table) => table[name]));
    const columns = ["goodput", "share", "window", "rtt", "queue"];
    fill(this.#place.querySelector(".moment tbody"), names.map((name) => [named(name, this.settings), ...columns.map((chart) => (tables[chart][name] ? figure(tables[chart][name][index]) : ""))]), names);
  }

  async #run() {
    const begun = performance.now();
    this.#begun = begun;
    const [bar, error] = [this.#place.querySelector("progress"), this.#place.querySelector(".error")];
    const scenario = scenarioOf(studyOf(this.settings), this.#declared);
    try {
      const answer = await this.#simulator.run(scenario, (share) => {
        bar.hidden = performance.now() - begun < 200;
        bar.value = share;
      });
      if (!answer) return;
      error.hidden = true;
      const data = chartsOf(scenario, answer.result);
      Object.assign(data, { possible: possibleOf(scenario).possible, possibleOver: possibleOver(scenario, data.times) });
      Object.assign(this, { scenario, result: answer.result, data });
      this.#tell(answer);
      this.#onResult(this);
    } catch (failure) {
      error.hidden = false;
      error.textContent = failure.message;
    }
    this.#onEnd();
    if (this.#begun === begun) this.#begun = null;
    bar.hidden = true;
  }

  #tell({ result, took }) {
    const rows = figuresOf(this.scenario, result);
    const [bound, best] = [possibleOf(this.scenario), linksRate(this.settings)];
    rows.splice(1, 0,
      { label: this.data.possibleOver ? "Possible, mean" : "Possible", unit: "Mbit/s", values: { connection: bound.possible } },
      { label: "The links' rate", unit: "Mbit/s", values: { connection: best } });
    const flows = Object.keys(rows[0].values);
    this.#place.querySelector(".figures thead").replaceChildren(cells(["", ...flows.map((name) => named(name, this.settings)), "unit"], "th"));
    fill(this.#place.querySelector(".figures tbody"), rows.map(({ label, unit, values }) => [label, ...flows.map((name) => (values[name] === undefined ? "" : figure(values[name]))), unit]));
    this.#place.querySelector(".why").textContent = missing(this.scenario, result, bound, best);
    const packets = result.outcome.delivered_packets;
    const about = this.#place.querySelector(".about");
    about.textContent = `${packets.toLocaleString("en")} packets in ${Math.round(took)} ms; fingerprint ${result.digest}`;
    Object.assign(this.#place.dataset, { digest: result.digest, took: took.toFixed(1), goodput: result.outcome.flows.find(({ name }) => name === "connection").goodput_receiver_bps });
  }
}

// What the links of the connection carry in the direction of its data, headers and all; of a radio, at its best.
function linksRate(settings) {
  const sum = settings["path1.rate"] + (settings.transport === "mptcp" ? settings["path2.rate"] : 0);
  return settings.layout === "shared-bottleneck" ? Math.min(sum, settings["bottleneck.rate"]) : sum;
}

function cells(texts, tag) {
  const row = document.createElement("tr");
  row.append(...texts.map((text, index) => {
    const cell = document.createElement(index === 0 ? "th" : tag);
    if (index === 0) cell.scope = "row";
    cell.textContent = text;
    return cell;
  }));
  return row;
}

function fill(body, rows, classes = []) {
  body.replaceChildren(...rows.map((texts, index) => {
    const row = cells(texts, "td");
    if (classes[index]) row.className = classes[index];
    return row;
  }));
}
