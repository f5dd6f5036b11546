// What lines and columns are called, and how they look: colour by the names of style.css, and a dash, so that colour is not all there is.

export const LINES = {
  connection: { label: "connection", colour: "--ink", width: 2.5 },
  path1: { label: "path 1", colour: "--path1", width: 1.8 },
  path2: { label: "path 2", colour: "--path2", width: 1.8, dash: [7, 3] },
  bottleneck: { label: "bottleneck", colour: "--bottleneck", width: 1.8, dash: [2, 2] },
  rival: { label: "rival", colour: "--rival", width: 1.8, dash: [10, 3, 2, 3] },
};

// What a line is called with these settings: the rival may be a call.
export const named = (line, settings) => (line === "rival" && settings.rival === "call" ? "call" : LINES[line].label);

export const CHARTS = [
  { name: "goodput", label: "Goodput", unit: "Mbit/s" },
  { name: "share", label: "Each subflow’s part", unit: "%" },
  { name: "window", label: "Congestion window", unit: "segments" },
  { name: "rtt", label: "Round-trip time, smoothed", unit: "ms" },
  { name: "queue", label: "Queue", unit: "packets" },
];

export const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

// Three digits that count.
export function figure(value) {
  if (value === null || value === undefined || Number.isNaN(value)) return "–";
  if (Number.isInteger(value)) return String(value);
  const digits = Math.abs(value) >= 100 ? 0 : Math.abs(value) >= 10 ? 1 : 2;
  return value.toFixed(digits);
}
