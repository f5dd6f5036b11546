// The state of the page in its address, behind the #: what differs from the defaults, of the one set-up or of both.

import { checked, DEFAULTS, FIELDS } from "./fields.js";

const MOMENT = 2;

// `state` is { a, b, moment }: settings, settings or null, seconds.
export function toHash({ a, b, moment }) {
  const words = new URLSearchParams();
  for (const [name, settings] of Object.entries({ a, b })) {
    if (!settings) continue;
    for (const { key } of FIELDS) if (settings[key] !== DEFAULTS[key]) words.set(name === "a" ? key : `b.${key}`, settings[key]);
  }
  if (b) words.set("compare", "1");
  if (moment !== MOMENT) words.set("at", moment);
  return words.toString() ? `#${words}` : "";
}

// The state that an address means, and a sentence about each word in it that means nothing.
export function fromHash(hash) {
  const words = new URLSearchParams(hash.replace(/^#/, ""));
  const moment = Number(words.get("at") ?? MOMENT);
  const state = { a: { ...DEFAULTS }, b: words.get("compare") === "1" ? { ...DEFAULTS } : null, moment: moment >= 0 && moment <= 60 ? moment : MOMENT };
  const faults = [];
  for (const [word, value] of words) {
    if (word === "at" || word === "compare") continue;
    const [settings, key] = word.startsWith("b.") ? [state.b, word.slice(2)] : [state.a, word];
    const field = FIELDS.find((each) => each.key === key);
    if (!field || !settings) {
      faults.push(`the address names ${word}, which is no setting`);
      continue;
    }
    try {
      settings[key] = checked(field, value);
    } catch (error) {
      faults.push(`in the address, ${error.message}`);
    }
  }
  return { state, faults };
}
