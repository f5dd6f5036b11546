// Every setting of the page, declared once: the form, the address, the study and the texts beside them come from this table.
// What a setting means goes into study.js (the study that is saved), scenario.js (what Python makes of that study) and open.js;
// a case in SETTINGS of tests/python/test_play.py holds all of them against Python. `make playground` comes before that test.

const RADIOS = [
  { name: "none", label: "fixed rate", about: "a line whose rate does not change" },
  { name: "wifi6", label: "Wi-Fi 6", about: "Wi-Fi 6: the rate is the best one, and walks between the radio's states by the seed" },
  { name: "5g", label: "5G", about: "5G: the rate is the best one, and walks between the radio's states by the seed" },
];
const AQM = [
  { name: "none", label: "nothing: drop-tail", about: "a full queue drops what comes" },
  { name: "codel", about: "CoDel, RFC 8289" },
  { name: "fq_codel", about: "FQ-CoDel, RFC 8290: flows have queues of their own" },
  { name: "pie", about: "PIE, RFC 8033" },
  { name: "dualpi2", about: "DualPI2, RFC 9332: a queue of its own for L4S traffic" },
];

const number = (key, label, unit, value, min, max, step, more = {}) => ({ key, label, unit, value, min, max, step, kind: "number", ...more });
const choice = (key, label, value, choices, more = {}) => ({ key, label, value, choices, kind: "choice", ...more });

function path(group, radio, [rate, back, delay, jitter, loss, queue]) {
  const key = (name) => `${group}.${name}`;
  return [
    ...(radio ? [choice(key("radio"), "Kind of link", "none", RADIOS)] : []),
    number(key("rate"), "Rate", "Mbit/s", rate, 0.1, 1000, 0.1, { log: true, about: "in the direction of the data" }),
    number(key("delay"), "Delay, one way", "ms", delay, 0, 500, 0.1, { log: true, about: "one way" }),
    number(key("loss"), "Loss", "%", loss, 0, 20, 0.01, { log: true, about: "of packets, at random, in the direction of the data" }),
    number(key("queue"), "Queue", "packets", queue, 2, 5000, 1, { log: true }),
    choice(key("aqm"), "Queue kept by", "none", AQM, { more: true, when: (s) => (s[key("radio")] ?? "none") === "none" }),
    number(key("jitter"), "Jitter", "ms", jitter, 0, 100, 0.1, { log: true, more: true, about: "around the delay, and at most as much" }),
    number(key("back"), "Rate back", "Mbit/s", back, 0.1, 1000, 0.1, { log: true, more: true, about: "against the direction of the data" }),
    number(key("cut_at"), "Cut from", "s", 0, 0, 60, 0.1, { more: true }),
    number(key("cut_for"), "Cut for", "s", 0, 0, 60, 0.1, { more: true, about: "0: the link is never cut" }),
  ].map((field) => ({ ...field, group }));
}

// `listed`: the choices come from the simulator itself.
export const FIELDS = [
  choice("layout", "Network", "two-paths", [
    { name: "two-paths", label: "two separate paths", about: "nothing is shared" },
    { name: "shared-bottleneck", label: "shared bottleneck", about: "both paths lead through one link" },
  ]),
  choice("transport", "Protocol", "mptcp", [
    { name: "mptcp", label: "MPTCP, both paths", about: "RFC 8684" },
    { name: "tcp", label: "TCP, path 1 alone", about: "RFC 9293" },
  ]),
  choice("app", "Application", "bulk", [
    { name: "bulk", label: "bulk data", about: "sends as fast as it can until the end" },
    { name: "transfer", label: "one file", about: "sends so much, then closes" },
    { name: "requests", label: "web requests", about: "asks, waits for the whole answer, pauses, and so on" },
    { name: "constant", label: "live video", about: "sends at one rate, and no faster" },
    { name: "on_off", label: "video in bursts", about: "sends for a second, rests for a second" },
  ]),
  number("size", "Size", "KB", 1000, 1, 1000000, 1, { log: true, when: (s) => s.app === "transfer" || s.app === "requests", about: "of the file, or of each answer" }),
  number("pause", "Pause", "ms", 100, 0, 10000, 1, { log: true, when: (s) => s.app === "requests", about: "from an answer to the next question" }),
  number("stream", "Rate", "Mbit/s", 2.5, 0.1, 100, 0.1, { log: true, when: (s) => s.app === "constant", about: "of the video" }),
  choice("direction", "Direction", "download", [
    { name: "download", about: "the server sends" },
    { name: "upload", about: "the client sends" },
  ], { when: (s) => s.app !== "requests" }),
  choice("cc", "Congestion control", "cubic", "cc", { listed: true }),
  choice("scheduler", "Scheduler", "", "schedulers", { listed: true, empty: "the kernel's own", when: (s) => s.transport === "mptcp" }),
  choice("kernel", "Kernel", "6.12", "kernels", { listed: true }),
  choice("rival", "Rival", "none", [
    { name: "none", about: "nobody else is there" },
    { name: "tcp", label: "a TCP connection", about: "bulk data over path 1, or over the bottleneck" },
    { name: "call", label: "a call (UDP)", about: "1 Mbit/s in datagrams of 1200 bytes over path 1, or over the bottleneck" },
  ]),
  choice("rival_cc", "Rival's control", "cubic", "cc", { listed: true, when: (s) => s.rival === "tcp" }),
  number("duration", "Duration", "s", 10, 1, 60, 1),
  number("seed", "Seed", "", 1, 1, 8, 1, { about: "of all random numbers" }),
].map((field) => ({ ...field, group: "connection" })).concat(
  path("path1", true, [50, 50, 10, 0, 0, 100]),
  path("path2", true, [20, 20, 25, 0, 0, 100]),
  path("bottleneck", false, [30, 30, 5, 0, 0, 100]),
);

export const GROUPS = [
  { name: "path1", label: "Path 1" },
  { name: "path2", label: "Path 2" },
  { name: "bottleneck", label: "Bottleneck", when: (s) => s.layout === "shared-bottleneck" },
  { name: "connection", label: "Connection" },
];

export const DEFAULTS = Object.freeze(Object.fromEntries(FIELDS.map(({ key, value }) => [key, value])));

// The choices that the simulator declares come in here, once it is loaded.
export function declare(catalogue) {
  for (const field of FIELDS) {
    if (field.listed) field.choices = [...(field.empty ? [{ name: "", label: field.empty, about: "" }] : []), ...catalogue[field.choices]];
  }
}

// A value that the field can have, or a sentence that says why this is none.
export function checked(field, value) {
  if (field.kind === "choice") {
    const names = field.choices.map(({ name }) => name);
    if (names.includes(value)) return value;
    throw new RangeError(`${field.key} cannot be "${value}"; there are ${names.filter(Boolean).join(", ")}`);
  }
  const given = Number(value);
  if (value === "" || !Number.isFinite(given) || given < field.min || given > field.max) {
    throw new RangeError(`${field.key} cannot be "${value}"; it goes from ${field.min} to ${field.max} ${field.unit}`.trim());
  }
  return Number((Math.round(given / field.step) * field.step).toFixed(2));
}

// In words, what of these settings differs from the others: "path 1: rate 20 Mbit/s". What does not count in either is left out.
export function differences(settings, others) {
  const counts = (field, each) => !field.when || field.when(each);
  return FIELDS.filter((field) => settings[field.key] !== others[field.key] && (counts(field, settings) || counts(field, others))).map((field) => {
    const value = settings[field.key];
    const told = field.kind === "choice" ? (field.choices.find(({ name }) => name === value)?.label ?? value) : `${value} ${field.unit}`.trim();
    const label = field.label[0].toLowerCase() + field.label.slice(1);
    return `${field.group === "connection" ? "" : `${GROUPS.find(({ name }) => name === field.group).label.toLowerCase()}: `}${label} ${told}`;
  });
}
