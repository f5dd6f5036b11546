// From a study as study.js makes it to the scenario that the simulator runs: what polypath/study/_scenario.py makes of the same document.

import { quantity } from "./quantity.js";

// The connection is made a little after the flow's start, and its window is counted from then: the run lasts this much longer.
const TAIL_NS = 2e9;
// The end of a cut that is never mended.
const FOREVER_NS = 2 ** 62;
const DEFAULT_KERNEL = "6.12";

// `declared` is what the build took from Python: queue management and radios with their figures (declared.json).
export function scenarioOf(study, declared) {
  const duration = quantity("time", study.duration);
  const [seed] = study.seeds;
  const kernel = (node) => (node.router || study.kernel === DEFAULT_KERNEL ? {} : { kernel: study.kernel });
  return {
    seed,
    duration_ns: duration + TAIL_NS,
    series_interval_ns: quantity("time", study.measure.series),
    nodes: Object.entries(study.topology.nodes).map(([name, node]) => ({
      name, router: node.router ?? false, addresses: [], sysctl: {}, ...kernel(node),
    })),
    links: Object.entries(study.topology.links).map(([name, link], index) => {
      const [a, b] = link.ends.map((node, end) => ({ node, address: `10.0.${index + 1}.${end + 1}`, mtu: 1500 }));
      const side = (shape, way) => chain(shape ?? link.both, `${name} ${way}`, seed, duration, declared);
      return { name, a, b, a_to_b: side(link.forward, "there"), b_to_a: side(link.backward, "back") };
    }),
    flows: Object.entries(study.flows).map(([name, flow]) => flowOf(name, flow, duration)),
  };
}

function chain(shape, name, seed, until, declared) {
  if (Array.isArray(shape)) return shape.flatMap((element, number) => elements(element, `${name} ${number}`, seed, until, declared));
  const cuts = (shape.changes ?? []).map((change) => quantity("time", change.at));
  return [
    ...(cuts.length ? [{ kind: "down", spans_ns: [[cuts[0], cuts[1] ?? FOREVER_NS]] }] : []),
    ...(shape.loss ? [loss(shape.loss)] : []),
    ...(shape.rate ? [rate(quantity("rate", shape.rate), shape.queue, [], shape.aqm && { aqm: declared.aqm[shape.aqm] })] : []),
    delay(shape.delay, shape.jitter),
  ];
}

function elements(element, name, seed, until, declared) {
  switch (element.kind) {
    case "down": return [{ kind: "down", spans_ns: element.spans.map((span) => span.map((at) => quantity("time", at))) }];
    case "loss": return [loss(element.share)];
    default: return wireless(element, name, seed, until, declared.radios[element.radio]);
  }
}

const loss = (share) => ({ kind: "loss", model: "bernoulli", probability: quantity("share", share), changes: [] });

const rate = (bits, queue, changes, aqm) => ({
  kind: "rate", bits_per_s: bits, queue: { packets: quantity("packets", queue) }, framing_bytes: 14, hold_ns: 0, changes, ...aqm,
});

const delay = (time, jitter) => ({
  kind: "delay", delay_ns: quantity("time", time), jitter_ns: jitter ? quantity("time", jitter) : 0, reorder: false, changes: [],
});

// A walk is a list of [ms, state], drawn by Python for each seed and direction of a link.
function wireless(element, name, seed, until, radio) {
  const peak = quantity("rate", element.peak);
  const walk = radio.walks[name][seed].filter(([at]) => at === 0 || at * 1e6 < until);
  const [first, ...later] = walk.map(([at, state]) => ({ at_ns: at * 1e6, to: Math.round(peak * radio.states[state]) }));
  return [rate(first.to, element.queue, later), radio.retry, delay(element.delay, element.jitter)];
}

function flowOf(name, flow, duration) {
  const datagrams = flow.transport === "udp";
  const down = flow.direction === "download";
  // Nobody opens anything: whoever sends is the client.
  const [client, server] = datagrams && down ? [flow.server, flow.client] : [flow.client, flow.server];
  return {
    name, transport: flow.transport, cc: datagrams ? null : flow.cc, client, server, client_address: null, server_address: null,
    ...(down && !datagrams ? { direction: "download" } : {}),
    start_ns: 0,
    app: app(flow.app ?? { kind: "bulk" }, duration),
    ...(datagrams ? { datagram_bytes: quantity("size", flow.datagram) } : {}),
    mptcp: { scheduler: flow.scheduler ?? null, path_manager: { kind: "fullmesh" } },
    routes: [],
    window_ns: [0, duration],
  };
}

function app(kind, duration) {
  switch (kind.kind) {
    case "bulk": return { kind: "bulk", duration_ns: duration };
    case "transfer": return { kind: "transfer", bytes: quantity("size", kind.size) };
    case "requests": return { kind: "requests", request_bytes: 200, response_bytes: quantity("size", kind.response), pause_ns: quantity("time", kind.pause), duration_ns: duration };
    case "on_off": return { kind: "on_off", on_ns: quantity("time", kind.on), off_ns: quantity("time", kind.off), duration_ns: duration, bits_per_s: null };
    default: return { kind: "on_off", on_ns: duration, off_ns: 0, duration_ns: duration, bits_per_s: quantity("rate", kind.rate) };
  }
}
