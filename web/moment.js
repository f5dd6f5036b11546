// The chosen moment: its slider, play and pause, and the packets that are on their way then.

import { capturing, packetsOf } from "./packets.js";
import { save } from "./save.js";
import { Simulator } from "./simulator.js";
import { Timeline } from "./timeline.js";

export class Moment {
  value = 0;
  #until = 10;
  #slider = document.querySelector("#moment");
  #said = document.querySelector("#moment-said");
  #button = document.querySelector("#play");
  #place = document.querySelector("#packets");
  #span = document.querySelector("#span");
  #timeline = new Timeline(this.#place);
  #simulator = null;
  #side = null;
  #busy = false;
  #stale = false;
  #files = null;
  #playing = null;
  #onChange;

  constructor(onChange) {
    this.#onChange = onChange;
    this.#slider.oninput = () => this.set(Number(this.#slider.value));
    this.#button.onclick = () => (this.#playing === null ? this.#play() : this.pause());
    this.#span.onchange = () => this.#ask();
    this.#place.ontoggle = () => this.#ask();
    document.querySelector("#pcap").onclick = () => this.#download();
  }

  setDuration(seconds) {
    this.#until = seconds;
    this.#slider.max = seconds;
    if (this.value > seconds) this.set(seconds);
  }

  set(value) {
    this.value = Number(Math.min(this.#until, Math.max(0, value)).toFixed(3));
    this.#slider.value = this.value;
    this.#said.textContent = `${this.value.toFixed(2)} s`;
    this.#slider.setAttribute("aria-valuetext", `${this.value.toFixed(2)} seconds`);
    this.#onChange(this.value);
    this.#ask();
  }

  // The packets are those of this set-up.
  of(side) {
    this.#side = side;
    this.#ask();
  }

  pause() {
    if (this.#playing !== null) cancelAnimationFrame(this.#playing);
    this.#playing = null;
    this.#button.textContent = "Play";
    this.#button.setAttribute("aria-pressed", "false");
    // The address is written once the moment stands still.
    this.#onChange(this.value);
  }

  get isPlaying() {
    return this.#playing !== null;
  }

  #play() {
    if (this.value >= this.#until - 0.01) this.value = 0;
    this.#button.textContent = "Pause";
    this.#button.setAttribute("aria-pressed", "true");
    let last = null;
    const step = (now) => {
      const next = this.value + (last === null ? 0 : (now - last) / 1000);
      last = now;
      this.#playing = requestAnimationFrame(step);
      this.set(next);
      if (next >= this.#until) this.pause();
    };
    this.#playing = requestAnimationFrame(step);
  }

  // One question at a time: while the moment moves, the next one is about where it is then.
  async #ask() {
    if (!this.#place.open || !this.#side?.scenario) return;
    this.#stale = true;
    if (this.#busy) return;
    this.#busy = true;
    this.#simulator ??= new Simulator();
    try {
      while (this.#stale) {
        this.#stale = false;
        const [side, from, span] = [this.#side, this.value, Number(this.#span.value)];
        const asked = capturing(side.scenario, from, span);
        const answer = await this.#simulator.packets(asked.scenario, asked.from, asked.until);
        if (!answer) continue;
        this.#files = asked.scenario.captures.map(({ node, link }, number) => ({ name: `${node}-${link}.pcapng`, bytes: answer.files[number] }));
        this.#timeline.show(packetsOf(asked.scenario, answer.files), from, span);
      }
    } catch (failure) {
      this.#place.querySelector(".summary").textContent = failure.message;
    } finally {
      this.#busy = false;
    }
  }

  #download() {
    for (const { name, bytes } of this.#files ?? []) save(name, bytes, "application/octet-stream");
  }
}
