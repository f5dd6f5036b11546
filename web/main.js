// The page: two set-ups at most, the form for one of them, the moment, and the address that says it all.

import { fromHash, toHash } from "./address.js";
import { Charts } from "./charts.js";
import { Controls } from "./controls.js";
import { drawer } from "./drawer.js";
import { declare, DEFAULTS, differences } from "./fields.js";
import { LINES, named } from "./names.js";
import { Moment } from "./moment.js";
import { settingsOf } from "./open.js";
import { PRESETS } from "./presets.js";
import { save } from "./save.js";
import { Side } from "./side.js";
import { Simulator } from "./simulator.js";
import { comparedText, studyText } from "./study.js";

const $ = (selector) => document.querySelector(selector);

function say(sentence) {
  $("#said").textContent = sentence;
  $("#said").hidden = !sentence;
}

function loaded() {
  $("#loading")?.remove();
}

// `polypath play` says which simulator is installed; another server says nothing.
function tellVersion(built, installed) {
  if (!installed || built === installed) return;
  $("#other-build").hidden = false;
  $("#other-build").textContent = `This page has another simulator (${built}) than polypath run (${installed}), so their figures differ: run make playground in Polypath's folder, and load the page again.`;
}

async function begin() {
  const [declared, catalogue, answer] = await Promise.all([
    fetch("declared.json").then((response) => response.json()),
    new Simulator().catalogue(),
    fetch("version.txt"),
  ]);
  tellVersion(answer.ok ? (await answer.text()).trim() : "of no known version", answer.headers.get("X-Polypath-Version"));
  declare(catalogue);
  new Page(declared);
}

class Page {
  #sides = {};
  #active = "a";
  #controls;
  #moment;
  #declared;
  #written = 0;

  constructor(declared) {
    this.#declared = declared;
    this.#moment = new Moment((value) => this.#showMoment(value));
    this.#controls = new Controls($("#controls"), (settings) => this.#change(settings));
    this.#buttons();
    legend();
    this.#load();
    window.addEventListener("hashchange", () => this.#load());
    document.body.dataset.ready = "yes";
  }

  #buttons() {
    const presets = $("#preset");
    presets.append(...PRESETS.map(({ name, label }) => new Option(label, name)));
    presets.onchange = () => {
      const preset = PRESETS.find(({ name }) => name === presets.value);
      if (preset) this.#take({ ...DEFAULTS, ...preset.settings });
      presets.value = "";
    };
    $("#compare").onchange = () => this.#compare($("#compare").checked ? { ...this.#sides.a.settings } : null);
    for (const name of ["a", "b"]) $(`#edit-${name}`).onchange = () => this.#edit(name);
    $("#save").onclick = () => this.#save();
    $("#open").onclick = () => $("#file").click();
    $("#file").onchange = async () => {
      const [file] = $("#file").files;
      if (file) this.#open(file.name, await file.text());
      $("#file").value = "";
    };
    $("#reset").onclick = () => this.#take({ ...DEFAULTS });
    drawer($("aside"), $("#handle"));
  }

  // Two set-ups are one study where they differ in values alone, else a study each.
  #save() {
    const { a, b } = this.#sides;
    const both = b && comparedText(a.settings, b.settings);
    if (!b || both) save("study.yaml", both || studyText(a.settings), "text/yaml");
    else for (const [name, side] of [["a", a], ["b", b]]) save(`study-${name}.yaml`, studyText(side.settings), "text/yaml");
    if (b) say(both ? "study.yaml holds both set-ups: setup a and setup b." : "A and B differ in more than values, so each is a study of its own: study-a.yaml and study-b.yaml.");
  }

  #open(name, text) {
    try {
      const { settings, notes } = settingsOf(text);
      this.#take(settings);
      say(notes.length ? `${name} is open. ${notes.join(". ")}.` : `${name} is open.`);
    } catch (error) {
      say(`${name} cannot be opened here. ${error.message}.`);
    }
  }

  #load() {
    const { state, faults } = fromHash(location.hash);
    say(faults.map((fault) => `${fault[0].toUpperCase()}${fault.slice(1)}.`).join(" "));
    this.#put("a", state.a);
    this.#compare(state.b, state.b ? this.#active : "a");
    this.#moment.setDuration(this.#longest());
    this.#moment.set(state.moment);
  }

  // A set-up gets settings, and its place on the page if it has none.
  #put(name, settings) {
    this.#sides[name] ??= new Side(place(name), this.#declared, {
      onResult: () => this.#show(),
      onMoment: (value) => this.#moment.set(value),
      onEnd: loaded,
    });
    this.#sides[name].update(settings);
    this.#head();
  }

  // Of two set-ups each is headed by what it has and the other one has not.
  #head() {
    const { a, b } = this.#sides;
    for (const [side, other] of b ? [[a, b], [b, a]] : []) side.tellApart(differences(side.settings, other.settings));
  }

  #compare(settings, active = "b") {
    $("#compare").checked = settings !== null;
    $("#edit").hidden = settings === null;
    $("#results").classList.toggle("two", settings !== null);
    if (settings) this.#put("b", settings);
    else if (this.#sides.b) {
      this.#sides.b.stop();
      $("#side-b").remove();
      delete this.#sides.b;
    }
    this.#edit(settings ? active : "a");
    this.#write();
    this.#show();
  }

  #edit(name) {
    this.#active = name;
    $(`#edit-${name}`).checked = true;
    this.#controls.show(this.#sides[name].settings);
    this.#moment.of(this.#sides[name]);
    for (const each of document.querySelectorAll(".side")) each.classList.toggle("active", each.id === `side-${name}` && Boolean(this.#sides.b));
  }

  #take(settings) {
    say("");
    this.#controls.show(settings);
    this.#change(settings);
  }

  #change(settings) {
    this.#put(this.#active, settings);
    this.#moment.setDuration(this.#longest());
    this.#write();
  }

  #longest() {
    return Math.max(...Object.values(this.#sides).map(({ settings }) => settings.duration));
  }

  // Both set-ups have the same scales, so that they can be compared.
  #show() {
    const sides = Object.values(this.#sides).filter(({ data }) => data);
    const tops = sides.map(({ data }) => Charts.tops(data));
    const highest = Object.fromEntries(Object.keys(tops[0] ?? {}).map((name) => [name, Math.max(...tops.map((top) => top[name]))]));
    for (const side of sides) side.charts.show(side.data, highest);
    const drawn = new Set(sides.flatMap(({ data }) => Object.values(data.tables).flatMap((table) => Object.keys(table))));
    for (const item of $("#legend").children) {
      item.hidden = !drawn.has(item.dataset.line);
      item.lastChild.textContent = [...new Set(sides.map(({ settings }) => named(item.dataset.line, settings)))].join(" or ");
    }
    this.#moment.of(this.#sides[this.#active]);
    this.#showMoment(this.#moment.value);
  }

  #showMoment(value) {
    for (const side of Object.values(this.#sides)) side.showMoment(value);
    if (!this.#moment.isPlaying) this.#write();
  }

  #write() {
    clearTimeout(this.#written);
    this.#written = setTimeout(() => {
      const hash = toHash({ a: this.#sides.a.settings, b: this.#sides.b?.settings ?? null, moment: this.#moment.value });
      history.replaceState(null, "", hash || location.pathname);
    }, 200);
  }
}

function place(name) {
  const made = $("#side").content.firstElementChild.cloneNode(true);
  made.id = `side-${name}`;
  made.querySelector("h2").textContent = name.toUpperCase();
  made.setAttribute("aria-label", `Results of set-up ${name.toUpperCase()}`);
  $("#results").append(made);
  return made;
}

function legend() {
  for (const [name, { label, dash }] of Object.entries(LINES)) {
    const item = document.createElement("li");
    item.dataset.line = name;
    item.innerHTML = `<svg width="34" height="10" aria-hidden="true"><line class="${name}" x1="0" y1="5" x2="34" y2="5" stroke-width="2.5" stroke-dasharray="${dash?.join(" ") ?? ""}"/></svg>`;
    item.append(label);
    $("#legend").append(item);
  }
}

begin().catch((error) => {
  loaded();
  say(`The playground cannot start: ${error.message}. Load the page again; if that does not help, build it anew with make playground.`);
});
