// The simulator's module: texts in and out of its memory. For a browser's worker and for Node alike.

export class Engine {
  #exports;

  constructor(instance) {
    this.#exports = instance.exports;
  }

  static async load(bytes) {
    const module = await WebAssembly.compile(bytes);
    return new Engine(await WebAssembly.instantiate(module, {}));
  }

  catalogue() {
    this.#exports.catalogue();
    return JSON.parse(this.#text());
  }

  // Begins a run; throws an Error with what is wrong with the scenario.
  begin(scenario) {
    const bytes = new TextEncoder().encode(JSON.stringify(scenario));
    const at = this.#exports.input(bytes.length);
    new Uint8Array(this.#exports.memory.buffer, at, bytes.length).set(bytes);
    if (this.#exports.begin() !== 0) throw new Error(JSON.parse(this.#text()).sentence);
  }

  // Runs until this simulated time; true if the run has ended.
  advance(untilNs) {
    return this.#exports.advance(untilNs) === 1;
  }

  discardCaptured() {
    this.#exports.discard_captured();
  }

  // Ends the run: { outcome, digest, subflow_series, link_series }.
  finish() {
    this.#exports.finish();
    return JSON.parse(this.#text());
  }

  // The pcapng file of a capture.
  capture(number) {
    this.#exports.capture(number);
    return this.#bytes().slice();
  }

  #bytes() {
    return new Uint8Array(this.#exports.memory.buffer, this.#exports.output(), this.#exports.output_len());
  }

  #text() {
    return new TextDecoder().decode(this.#bytes());
  }
}
