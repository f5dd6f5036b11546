// Runs the simulator off the page's thread, in steps: between two of them it hears whether something newer is asked for.

import { Engine } from "./engine.js";

const STEP_MS = 25;
let engine = null;
let bytes = null;
let newest = 0;

const pause = () => new Promise((resolve) => setTimeout(resolve));

async function ready() {
  bytes ??= await (await fetch(new URL("./polypath.wasm", import.meta.url))).arrayBuffer();
  engine ??= await Engine.load(bytes);
  return engine;
}

// Advances to a time; false if something newer came meanwhile.
async function advance(id, until, of) {
  let [at, step] = [0, 50e6];
  for (;;) {
    const before = performance.now();
    at = Math.min(until, at + step);
    if (engine.advance(at) || at >= until) return true;
    step *= Math.min(4, Math.max(0.25, STEP_MS / Math.max(0.5, performance.now() - before)));
    postMessage({ id, kind: "progress", share: at / of });
    await pause();
    if (id !== newest) return false;
  }
}

async function run({ id, scenario }) {
  const begun = performance.now();
  engine.begin(scenario);
  if (!(await advance(id, scenario.duration_ns, scenario.duration_ns))) return null;
  const result = engine.finish();
  return { result, took: performance.now() - begun };
}

// What the captures of a scenario saw between two times.
async function packets({ id, scenario, from, until }) {
  engine.begin(scenario);
  if (!(await advance(id, from, until))) return null;
  engine.discardCaptured();
  engine.advance(until);
  engine.finish();
  return { files: scenario.captures.map((_, number) => engine.capture(number)) };
}

const ANSWERS = { run, packets, catalogue: () => ({ catalogue: engine.catalogue() }) };

onmessage = async ({ data }) => {
  newest = data.id;
  try {
    await ready();
    // Something newer may have come while the module was loaded.
    const answer = data.id === newest ? await ANSWERS[data.kind](data) : null;
    postMessage({ id: data.id, kind: answer ? "answer" : "abandoned", ...answer });
  } catch (error) {
    const isTrap = error instanceof WebAssembly.RuntimeError;
    if (isTrap) engine = null;
    postMessage({ id: data.id, kind: "error", sentence: isTrap ? `the simulator failed, which is a bug in it: ${error.message}` : error.message });
  }
};
