// The packet timeline: for each path a lane, the client at its upper edge and the server at its lower one, each packet a line between.

import { colour } from "./names.js";

// The lane is as high as its packets in flight need: so much between two of them, within limits.
const [LOWEST, HIGHEST, BETWEEN] = [120, 440, 3];
const GAP = 36;
const MOST_ROWS = 400;

const LOOKS = {
  data: { colour: (path) => `--path${path}`, width: 1.4 },
  datagram: { colour: (path) => `--path${path}`, width: 1.4 },
  ack: { colour: () => "--ink", width: 0.6 },
  handshake: { colour: () => "--holds", width: 1.6 },
  end: { colour: () => "--holds", width: 1.6 },
};

export class Timeline {
  #canvas;
  #summary;
  #body;
  #shown = null;

  constructor(place) {
    this.#canvas = place.querySelector("canvas");
    this.#summary = place.querySelector(".summary");
    this.#body = place.querySelector("tbody");
    new ResizeObserver(() => this.#draw()).observe(this.#canvas.parentElement);
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.#draw());
  }

  // The packets that were on their way between `from` and `from + span`, seconds.
  show(packets, from, span) {
    const until = from + span;
    const inside = packets.filter(({ sent, arrived }) => sent < until && (arrived ?? sent) >= from);
    this.#shown = { packets: inside, from, span };
    this.#summary.textContent = summary(inside);
    this.#canvas.setAttribute("aria-label", `Packets from ${from.toFixed(3)} s to ${until.toFixed(3)} s: ${this.#summary.textContent}`);
    this.#body.replaceChildren(...inside.slice(0, MOST_ROWS).map(row));
    this.#draw();
  }

  #draw() {
    if (!this.#shown) return;
    const { packets, from, span } = this.#shown;
    const paths = [...new Set(packets.map(({ path }) => path))].sort();
    const ratio = window.devicePixelRatio || 1;
    const width = this.#canvas.parentElement.clientWidth;
    const lanes = [];
    for (const path of paths) lanes.push({ path, top: (lanes.at(-1)?.bottom ?? -20) + GAP, get bottom() { return this.top + this.height; }, height: laneOf(packets.filter((each) => each.path === path), from, span) });
    const height = (lanes.at(-1)?.bottom ?? LOWEST) + GAP;
    Object.assign(this.#canvas, { width: width * ratio, height: height * ratio });
    Object.assign(this.#canvas.style, { width: `${width}px`, height: `${height}px` });
    const draw = this.#canvas.getContext("2d");
    draw.scale(ratio, ratio);
    draw.font = "12px sans-serif";
    const x = (at) => ((at - from) / span) * width;
    draw.fillStyle = colour("--quiet");
    for (const share of [0, 0.25, 0.5, 0.75]) draw.fillText(`${(from + share * span).toFixed(3)} s`, share * width + 2, height - 5);
    const colours = new Map();
    const paint = (name) => colours.get(name) ?? colours.set(name, colour(name)).get(name);
    for (const { path, top, bottom } of lanes) {
      draw.strokeStyle = paint("--line");
      draw.lineWidth = 1;
      for (const y of [top, bottom]) stroke(draw, 0, y, width, y);
      draw.fillStyle = paint("--quiet");
      draw.fillText(`path ${path}: client`, 4, top - 4);
      draw.fillText("server", 4, bottom + 12);
      // What is rare lies above what is common.
      const own = packets.filter((packet) => packet.path === path).sort((one, other) => rank(one) - rank(other));
      for (const packet of own) line(draw, packet, x, packet.toServer ? [top, bottom] : [bottom, top], paint);
    }
  }
}

const rank = ({ kind, again, arrived }) => (again || arrived === null ? 2 : Number(kind === "ack"));

// How high a lane is: by the packets that are on their way at once, on average.
function laneOf(packets, from, span) {
  const busy = packets.reduce((sum, { sent, arrived }) => sum + Math.max(0, Math.min(arrived ?? sent, from + span) - Math.max(sent, from)), 0);
  return Math.round(Math.min(HIGHEST, Math.max(LOWEST, (BETWEEN * busy) / span)));
}

function stroke(draw, x1, y1, x2, y2) {
  draw.beginPath();
  draw.moveTo(x1, y1);
  draw.lineTo(x2, y2);
  draw.stroke();
}

function line(draw, packet, x, [from, to], paint) {
  const look = LOOKS[packet.kind];
  draw.strokeStyle = paint(packet.again || packet.arrived === null ? "--fails" : look.colour(packet.path));
  draw.lineWidth = packet.again ? 2 : look.width;
  if (packet.arrived !== null) return stroke(draw, x(packet.sent), from, x(packet.arrived), to);
  // Lost, or still on its way when the run ended: half of the lane, and a cross.
  const [end, middle] = [x(packet.sent) + 12, from + (to - from) * 0.45];
  stroke(draw, x(packet.sent), from, end, middle);
  stroke(draw, end - 4, middle - 4, end + 4, middle + 4);
  stroke(draw, end - 4, middle + 4, end + 4, middle - 4);
}

function summary(packets) {
  if (!packets.length) return "no packet of the connection is on its way";
  const paths = [...new Set(packets.map(({ path }) => path))].sort();
  return paths.map((path) => {
    const on = packets.filter((packet) => packet.path === path);
    const count = (test) => on.filter(test).length;
    return `path ${path}: ${on.length} packets, ${count(({ kind }) => kind === "data")} with data, ${count(({ arrived }) => arrived === null)} lost, ${count(({ again }) => again)} sent again`;
  }).join("; ");
}

function row({ path, toServer, sent, arrived, kind, len, seq, ack, flags, dsn, again }) {
  const cells = [
    path, toServer ? "to the server" : "to the client", (sent * 1000).toFixed(3), arrived === null ? "lost" : (arrived * 1000).toFixed(3),
    again ? `${kind}, again` : kind, len, seq ?? "", ack ?? "", dsn ?? "", flags,
  ];
  const made = document.createElement("tr");
  made.append(...cells.map((text) => Object.assign(document.createElement("td"), { textContent: text })));
  return made;
}
