// The form: a slider and a number field, or a list, for each setting that is declared in fields.js.

import { checked, FIELDS, GROUPS } from "./fields.js";

const STEPS = 1000;
// How much finer a logarithmic slider is at its low end.
const BEND = 6;

const toSlider = ({ min, max, log }, value) => {
  const share = (value - min) / (max - min);
  return STEPS * (log ? Math.log1p(share * Math.expm1(BEND)) / BEND : share);
};

const fromSlider = (field, position) => {
  const share = position / STEPS;
  const value = field.min + (field.max - field.min) * (field.log ? Math.expm1(BEND * share) / Math.expm1(BEND) : share);
  // What a hand means: two digits that count.
  const digits = value > 0 ? Math.max(field.step, 10 ** (Math.floor(Math.log10(value)) - 1)) : field.step;
  return checked(field, Math.min(field.max, Math.max(field.min, Math.round(value / digits) * digits)));
};

function element(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  made.append(...children);
  return made;
}

export class Controls {
  #rows = new Map();
  #groups = new Map();
  #settings;
  #onChange;

  // `onChange` hears the new settings.
  constructor(form, onChange) {
    this.#onChange = onChange;
    form.onsubmit = (event) => event.preventDefault();
    for (const group of GROUPS) {
      const fields = FIELDS.filter((field) => field.group === group.name);
      const rows = fields.filter(({ more }) => !more).map((field) => this.#row(field, group));
      const rest = fields.filter(({ more }) => more).map((field) => this.#row(field, group));
      const more = rest.length ? [element("details", {}, element("summary", {}, "More"), ...rest)] : [];
      const box = element("fieldset", { class: group.name }, element("legend", {}, group.label), ...rows, ...more);
      this.#groups.set(group, box);
      form.append(box);
    }
  }

  show(settings) {
    this.#settings = settings;
    for (const [field, { row, write }] of this.#rows) {
      row.hidden = field.when ? !field.when(settings) : false;
      write(settings[field.key]);
    }
    for (const [group, box] of this.#groups) box.hidden = group.when ? !group.when(settings) : false;
  }

  #row(field, group) {
    const made = field.kind === "choice" ? this.#choice(field) : this.#number(field, group);
    this.#rows.set(field, made);
    return made.row;
  }

  #change(field, value) {
    this.#settings = { ...this.#settings, [field.key]: value };
    this.show(this.#settings);
    this.#onChange(this.#settings);
  }

  #choice(field) {
    const id = `field-${field.key}`;
    const options = field.choices.map(({ name, label, about }) => element("option", { value: name, title: about ?? "" }, label ?? name));
    const select = element("select", { id, name: field.key }, ...options);
    // What a list from the simulator has is not known by its name alone.
    const about = element("small", field.listed ? {} : { hidden: "" });
    select.onchange = () => this.#change(field, select.value);
    const row = element("div", { class: "row choice" }, element("label", { for: id }, field.label), select, about);
    const write = (value) => {
      select.value = value;
      about.textContent = field.choices.find(({ name }) => name === value)?.about ?? "";
      select.title = about.textContent;
    };
    return { row, write };
  }

  #number(field, group) {
    const id = `field-${field.key}`;
    const name = group.name === "connection" ? field.label : `${group.label}: ${field.label}`;
    const slider = element("input", { type: "range", min: 0, max: STEPS, step: 1, "aria-label": `${name}, slider`, "data-field": field.key });
    if (!field.log) Object.assign(slider, { min: field.min, max: field.max, step: field.step });
    const box = element("input", { type: "number", id, name: field.key, min: field.min, max: field.max, step: field.step, inputmode: "decimal", "aria-label": `${name} ${field.unit}`.trim() });
    const label = element("label", { for: id, title: field.about ?? "" }, field.label);
    const row = element("div", { class: "row number" }, label, slider, box, element("span", { class: "unit" }, field.unit));
    slider.oninput = () => this.#change(field, field.log ? fromSlider(field, Number(slider.value)) : checked(field, slider.value));
    if (field.log) slider.onkeydown = (event) => this.#key(event, field);
    box.oninput = () => {
      let value;
      try {
        value = checked(field, box.value);
      } catch (error) {
        box.setCustomValidity(error.message);
        return;
      }
      box.setCustomValidity("");
      this.#settings = { ...this.#settings, [field.key]: value };
      write(value, box);
      this.#onChange(this.#settings);
    };
    box.onchange = () => (box.validity.customError ? box.reportValidity() : this.#change(field, checked(field, box.value)));
    const write = (value, typedIn) => {
      slider.value = field.log ? toSlider(field, value) : value;
      slider.setAttribute("aria-valuetext", `${value} ${field.unit}`.trim());
      if (typedIn !== box) {
        box.value = value;
        box.setCustomValidity("");
      }
    };
    return { row, write };
  }

  // On a logarithmic slider a key moves by a tenth of the value, so that it moves at either end.
  #key(event, field) {
    const ways = { ArrowRight: 1, ArrowUp: 1, ArrowLeft: -1, ArrowDown: -1, PageUp: 5, PageDown: -5 };
    const way = ways[event.key];
    if (way === undefined) return;
    event.preventDefault();
    const value = this.#settings[field.key];
    const by = Math.max(field.step, 10 ** (Math.floor(Math.log10(Math.max(value, field.step))) - 1));
    this.#change(field, checked(field, Math.min(field.max, Math.max(field.min, value + way * by))));
  }
}
