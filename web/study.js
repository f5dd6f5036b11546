// From settings to a study: the same document that study.yaml holds, so that `polypath run` and this page run the same thing.

import { dump } from "./vendor/js-yaml/js-yaml.esm.min.mjs";

const rate = (mbit) => `${mbit}mbit`;
const ms = (value) => `${value}ms`;

function direction(settings, group, isData) {
  const get = (name) => settings[`${group}.${name}`];
  const queue = `${get("queue")}packets`;
  const speed = rate(isData ? get("rate") : get("back"));
  // More would let packets arrive before they are sent.
  const jitter = Math.min(get("jitter"), get("delay"));
  const loss = isData && get("loss") > 0 ? `${get("loss")}%` : null;
  const [from, end] = [get("cut_at"), Number((get("cut_at") + get("cut_for")).toFixed(2))];
  const isCut = end > from && from < settings.duration;
  if ((get("radio") ?? "none") !== "none") {
    // The wireless element stands first: what the seed draws depends on its place.
    return [
      { kind: "wireless", radio: get("radio"), peak: speed, queue, delay: ms(get("delay")), jitter: ms(jitter) },
      ...(isCut ? [{ kind: "down", spans: [[`${from}s`, `${end}s`]] }] : []),
      ...(loss ? [{ kind: "loss", share: loss }] : []),
    ];
  }
  return {
    rate: speed,
    queue,
    ...(isData && get("aqm") !== "none" ? { aqm: get("aqm") } : {}),
    delay: ms(get("delay")),
    ...(jitter > 0 ? { jitter: ms(jitter) } : {}),
    ...(loss ? { loss } : {}),
    // A study has no change behind its end.
    ...(isCut ? { changes: [{ at: `${from}s`, up: false }, ...(end < settings.duration ? [{ at: `${end}s`, up: true }] : [])] } : {}),
  };
}

// `forward` is from the first end, the client's, to the second.
function link(settings, group, ends) {
  const download = settings.app === "requests" || settings.direction === "download";
  return { ends, forward: direction(settings, group, !download), backward: direction(settings, group, download) };
}

// A link on which nothing waits: a study gives each link something.
const PLAIN = { delay: "0ms" };

function topology(settings) {
  const hasRival = settings.rival !== "none";
  const rival = hasRival ? { rival: {} } : {};
  if (settings.layout === "shared-bottleneck") {
    return {
      nodes: { client: {}, ...rival, router: { router: true }, server: {} },
      links: {
        path1: link(settings, "path1", ["client", "router"]),
        path2: link(settings, "path2", ["client", "router"]),
        bottleneck: link(settings, "bottleneck", ["router", "server"]),
        ...(hasRival ? { rival: { ends: ["rival", "router"], both: PLAIN } } : {}),
      },
    };
  }
  return {
    nodes: { client: {}, ...rival, router1: { router: true }, router2: { router: true }, server: {} },
    links: {
      access1: { ends: ["client", "router1"], both: PLAIN },
      path1: link(settings, "path1", ["router1", "server"]),
      access2: { ends: ["client", "router2"], both: PLAIN },
      path2: link(settings, "path2", ["router2", "server"]),
      ...(hasRival ? { rival: { ends: ["rival", "router1"], both: PLAIN } } : {}),
    },
  };
}

function app(settings) {
  switch (settings.app) {
    case "transfer": return { kind: "transfer", size: `${settings.size}KB` };
    case "requests": return { kind: "requests", response: `${settings.size}KB`, pause: ms(settings.pause) };
    case "on_off": return { kind: "on_off", on: "1s", off: "1s" };
    case "constant": return { kind: "constant", rate: rate(settings.stream) };
    default: return null;
  }
}

function flows(settings) {
  const [kind, mptcp] = [app(settings), settings.transport === "mptcp"];
  const download = settings.direction === "download" && settings.app !== "requests";
  const found = {
    connection: {
      client: "client", server: "server", transport: settings.transport,
      ...(download ? { direction: "download" } : {}),
      cc: settings.cc,
      ...(mptcp && settings.scheduler ? { scheduler: settings.scheduler } : {}),
      ...(kind ? { app: kind } : {}),
    },
  };
  // The rival sends in the direction of the connection's data.
  const same = settings.app === "requests" || download ? { direction: "download" } : {};
  if (settings.rival === "tcp") {
    found.rival = { client: "rival", server: "server", transport: "tcp", ...same, cc: settings.rival_cc };
  } else if (settings.rival === "call") {
    found.rival = { client: "rival", server: "server", transport: "udp", ...same, datagram: "1200B", app: { kind: "constant", rate: "1mbit" } };
  }
  return found;
}

// Of the settings alone, so that another study gets another folder of results.
function nameOf(text) {
  let sum = 0x811c9dc5;
  for (const letter of text) sum = Math.imul(sum ^ letter.codePointAt(0), 0x01000193) >>> 0;
  return `playground-${sum.toString(16).padStart(8, "0")}`;
}

export function studyOf(settings) {
  return {
    name: "playground",
    title: "From the playground",
    topology: topology(settings),
    flows: flows(settings),
    duration: `${settings.duration}s`,
    kernel: settings.kernel,
    seeds: [settings.seed],
    measure: { series: "50ms" },
  };
}

export function studyText(settings) {
  return written(named(studyOf(settings)));
}

// Both set-ups as one study with a matrix of two cells, a and b; null where they differ in more than values.
export function comparedText(a, b) {
  const [one, other, differs] = [studyOf(a), studyOf(b), { a: {}, b: {} }];
  const tree = merged(one, other, [], differs);
  if (tree === null) return null;
  return written(named({ ...tree, title: "Two set-ups from the playground", bundles: { setup: differs }, matrix: { setup: ["a", "b"] } }));
}

const named = (study) => ({ ...study, name: nameOf(JSON.stringify(study)) });

const written = (study) =>
  "# Saved by the playground; `polypath run` gives the same figures.\n" + dump(study, { lineWidth: -1, noRefs: true, flowLevel: 3 });

// Only what a network and its flows have can be a placeholder.
const VARIED = new Set(["topology", "flows"]);

function merged(one, other, place, differs) {
  if (JSON.stringify(one) === JSON.stringify(other)) return one;
  const isTree = (each) => typeof each === "object" && each !== null;
  if (isTree(one) && isTree(other) && Array.isArray(one) === Array.isArray(other)) {
    const keys = Object.keys(one);
    if (keys.join() !== Object.keys(other).join()) return null;
    const found = keys.map((key) => [key, merged(one[key], other[key], [...place, key], differs)]);
    if (found.some(([, each]) => each === null)) return null;
    return Array.isArray(one) ? found.map(([, each]) => each) : Object.fromEntries(found);
  }
  if (isTree(one) || isTree(other) || !VARIED.has(place[0])) return null;
  const name = place.slice(1).filter((each) => each !== "links" && each !== "connection").join("_");
  [differs.a[name], differs.b[name]] = [one, other];
  return `\${${name}}`;
}
