// The network of a set-up as a drawing: client and server, a line a path in its colour, as thick as it is fast beside the others.

import { figure, named } from "./names.js";

const SVG = "http://www.w3.org/2000/svg";
const [WIDTH, HEIGHT, MIDDLE] = [640, 150, 75];
const [LEFT, RIGHT, MEET] = [70, 570, 400];
const [THIN, THICK] = [1.5, 7];

export function drawNetwork(place, settings) {
  const shared = settings.layout === "shared-bottleneck";
  const links = ["path1", "path2", ...(shared ? ["bottleneck"] : [])];
  const fastest = Math.max(...links.map((name) => settings[`${name}.rate`]));
  const width = (name) => THIN + ((THICK - THIN) * settings[`${name}.rate`]) / fastest;
  const end = shared ? MEET : RIGHT;
  const arc = (top) => `M${LEFT},${MIDDLE} C${LEFT + 90},${MIDDLE + top} ${end - 90},${MIDDLE + top} ${end},${MIDDLE}`;
  const unused = settings.transport === "mptcp" ? "" : " unused";
  const rival = settings.rival === "none" || !settings.rival ? [] : [
    element("path", { class: "rival", d: shared ? `M${MEET - 60},18 L${MEET},${MIDDLE - 8} L${RIGHT},${MIDDLE - 8}` : arc(-76), fill: "none", "stroke-width": THIN }),
    text(shared ? MEET - 60 : (LEFT + end) / 2 + 150, shared ? 12 : 22, named("rival", settings), "rival"),
  ];
  const drawing = element("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: "img", "aria-label": links.map((name) => `${named(name, settings)}: ${about(name, settings)}`).join("; ") });
  drawing.append(
    element("path", { class: "path1", d: arc(-60), fill: "none", "stroke-width": width("path1") }),
    element("path", { class: `path2${unused}`, d: arc(60), fill: "none", "stroke-width": width("path2") }),
    ...(shared ? [element("path", { class: "bottleneck", d: `M${MEET},${MIDDLE} L${RIGHT},${MIDDLE}`, fill: "none", "stroke-width": width("bottleneck") })] : []),
    ...rival,
    text((LEFT + end) / 2, MIDDLE - 52, about("path1", settings), "path1"),
    text((LEFT + end) / 2, MIDDLE + 64, about("path2", settings) + (unused ? ", not used by TCP" : ""), "path2"),
    ...(shared ? [text((MEET + RIGHT) / 2, MIDDLE + 32, about("bottleneck", settings), "bottleneck"), element("circle", { class: "node", cx: MEET, cy: MIDDLE, r: 8 })] : []),
    ...[[LEFT, "client"], [RIGHT, "server"]].flatMap(([x, name]) => [
      element("rect", { class: "node", x: x - 34, y: MIDDLE - 15, width: 68, height: 30, rx: 7 }), text(x, MIDDLE + 5, name, "name"),
    ]),
  );
  place.replaceChildren(drawing);
}

function about(name, settings) {
  const of = (part) => settings[`${name}.${part}`];
  const radio = { wifi6: "Wi-Fi 6, at best ", "5g": "5G, at best " }[of("radio")] ?? "";
  return `${radio}${figure(of("rate"))} Mbit/s, ${figure(of("delay"))} ms${of("loss") ? `, loss ${figure(of("loss"))} %` : ""}`;
}

function element(name, attributes) {
  const made = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  return made;
}

function text(x, y, words, name) {
  const made = element("text", { class: name, x, y, "text-anchor": "middle" });
  made.textContent = words;
  return made;
}
