// Asks a worker. The newest question wins: whoever asked before gets null.

export class Simulator {
  #worker = new Worker(new URL("./worker.js", import.meta.url), { type: "module" });
  #asked = 0;
  #waiting = new Map();

  constructor() {
    this.#worker.onmessage = ({ data }) => this.#hear(data);
    this.#worker.onerror = (event) => {
      for (const { reject } of this.#waiting.values()) reject(new Error(event.message || "the simulator could not be loaded"));
      this.#waiting.clear();
    };
  }

  catalogue() {
    return this.#ask({ kind: "catalogue" }).then((answer) => answer.catalogue);
  }

  // { result, took } or null; `onProgress` hears the share that is done.
  run(scenario, onProgress = () => {}) {
    return this.#ask({ kind: "run", scenario }, onProgress);
  }

  // { files } or null.
  packets(scenario, from, until, onProgress = () => {}) {
    return this.#ask({ kind: "packets", scenario, from, until }, onProgress);
  }

  #ask(question, onProgress = () => {}) {
    const id = ++this.#asked;
    return new Promise((resolve, reject) => {
      this.#waiting.set(id, { resolve, reject, onProgress });
      this.#worker.postMessage({ id, ...question });
    });
  }

  #hear({ id, kind, share, sentence, ...answer }) {
    const waiting = this.#waiting.get(id);
    if (!waiting) return;
    if (kind === "progress") return waiting.onProgress(share);
    this.#waiting.delete(id);
    if (kind === "error") waiting.reject(new Error(sentence));
    else waiting.resolve(kind === "answer" ? answer : null);
  }
}
