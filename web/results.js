// From what the simulator gives back to what the page shows: lines over time, and a table of figures.

import { LINES } from "./names.js";
import { clientPaths } from "./paths.js";

const GOODPUT_OVER_S = 0.2;
// Applications that send no faster than they mean to.
const PACED = new Set(["constant", "on_off"]);

// Whose line a subflow of a flow is.
function linesOf(scenario, outcome) {
  const paths = clientPaths(scenario);
  const name = ({ source, destination }) => `path${paths.get(source) ?? paths.get(destination)}`;
  return outcome.flows.map((flow) => flow.subflows.map((subflow) => (flow.name === "rival" ? "rival" : name(subflow))));
}

// Tables of a chart: { times, lines: { name: values } }; every name has a value for every time, or null.
export function chartsOf(scenario, { outcome, subflow_series: rows, link_series: queues }) {
  const until = scenario.flows[0].window_ns[1] / 1e9;
  const times = [...new Set(rows.time_ns.concat(queues.time_ns))].map((ns) => ns / 1e9).filter((at) => at <= until).sort((a, b) => a - b);
  const place = new Map(times.map((at, index) => [at, index]));
  const lines = linesOf(scenario, outcome);
  const empty = () => new Array(times.length).fill(null);
  const put = (table, name, at, value) => {
    const index = place.get(at);
    if (index === undefined) return;
    table[name] ??= empty();
    table[name][index] = (table[name][index] ?? 0) + value;
  };
  const [window, rtt, bytes, queue] = [{}, {}, {}, {}];
  rows.time_ns.forEach((ns, row) => {
    const [at, name] = [ns / 1e9, lines[rows.flow[row]]?.[rows.subflow[row]]];
    if (name === undefined) return;
    put(window, name, at, rows.cwnd[row]);
    if (rows.srtt_us[row] > 0) put(rtt, name, at, rows.srtt_us[row] / 1000);
    put(bytes, name, at, rows.bytes_received[row]);
  });
  const download = dataGoesDown(scenario);
  queues.time_ns.forEach((ns, row) => {
    const { name, a_to_b } = outcome.links[queues.link[row]] ?? {};
    if (/^(path\d|bottleneck)$/.test(name) && a_to_b !== download) put(queue, name, ns / 1e9, queues.queue_packets[row]);
  });
  const goodput = {};
  for (const [name, values] of Object.entries(bytes)) goodput[name] = rates(times, values);
  // Datagrams have no row in the series of the subflows.
  const call = outcome.flows.find((flow) => flow.name === "rival" && flow.datagrams);
  if (call) goodput.rival = rates(times, times.map((at) => between(call.received_100ms, at * 10)));
  const own = Object.keys(goodput).filter((name) => name !== "rival");
  const share = {};
  times.forEach((_, index) => {
    const total = own.reduce((sum, name) => sum + (goodput[name][index] ?? 0), 0);
    for (const name of own) (share[name] ??= empty())[index] = total > 0 ? (100 * (goodput[name][index] ?? 0)) / total : null;
  });
  if (own.length > 1) goodput.connection = times.map((_, index) => own.reduce((sum, name) => sum + (goodput[name][index] ?? 0), 0));
  return { times, tables: { goodput, share, window, rtt, queue } };
}

const dataGoesDown = (scenario) => {
  const flow = scenario.flows.find(({ name }) => name === "connection");
  return flow.direction === "download" || flow.app.kind === "requests";
};

// Mbit/s, over a short span before each time.
function rates(times, bytes) {
  return times.map((at, index) => {
    let from = index;
    while (from > 0 && at - times[from] < GOODPUT_OVER_S - 1e-9) from -= 1;
    return index === from ? 0 : (Math.max(0, (bytes[index] ?? 0) - (bytes[from] ?? 0)) * 8) / 1e6 / (at - times[from]);
  });
}

function between(values, at) {
  const index = Math.min(Math.floor(at), values.length - 1);
  const next = values[Math.min(index + 1, values.length - 1)] ?? 0;
  return (values[index] ?? 0) + (next - (values[index] ?? 0)) * (at - index);
}

const ms = (ns) => (ns === null || ns === undefined ? null : ns / 1e6);

// Rows { label, unit, values }: of the connection, and of the rival where there is one. Named as `polypath run` names them.
export function figuresOf(scenario, { outcome }) {
  const flows = ["connection", "rival"].map((name) => outcome.flows.find((flow) => flow.name === name)).filter(Boolean);
  const total = flows.reduce((sum, flow) => sum + flow.goodput_receiver_bps, 0);
  const sum = (flow, name) => flow.subflows.reduce((all, subflow) => all + (subflow[name] ?? 0), 0);
  const row = (key, label, unit, get) => ({ key, label, unit, values: Object.fromEntries(flows.map((flow) => [flow.name, get(flow) ?? null])) });
  // Of bulk data a byte's delay is that of the send buffer, which says nothing to anybody: theirs is the round trip.
  const waits = (flow) => PACED.has(scenario.flows.find(({ name }) => name === flow.name).app.kind);
  const delay = (flow) => flow.datagrams?.delay ?? (waits(flow) ? flow.byte_delay : null);
  const lines = linesOf(scenario, outcome);
  const carried = (flow, name) => flow.subflows.reduce((all, { acked_bps: each }, index) => all + (lines[outcome.flows.indexOf(flow)][index] === name ? each : 0), 0);
  const acked = sum(flows[0], "acked_bps");
  const subflows = flows[0].subflows.length > 1 && acked > 0 && !flows[0].responses
    ? ["path1", "path2"].map((name) => row(name, `Over ${LINES[name].label}`, "% of its data", (flow) => (flow === flows[0] ? (100 * carried(flow, name)) / acked : null)))
    : [];
  return [
    row("goodput_receiver_mbps", flows[0].responses ? "Goodput of the requests" : "Goodput", "Mbit/s", (flow) => flow.goodput_receiver_bps / 1e6),
    ...(flows.length > 1 ? [row("share", "Part of both flows’ goodput", "%", (flow) => (total > 0 ? (100 * flow.goodput_receiver_bps) / total : null))] : []),
    ...subflows,
    row("completion_s", "Completion", "s", (flow) => flow.completion_ns && flow.completion_ns / 1e9),
    row("responses", "Answers", "", (flow) => flow.responses?.count),
    row("response_p50_ms", "Answer, median", "ms", (flow) => ms(flow.responses?.time?.p50_ns)),
    row("response_p95_ms", "Answer, 95th percentile", "ms", (flow) => ms(flow.responses?.time?.p95_ns)),
    row("srtt_ms", "Round trip, mean", "ms", (flow) => (flow.datagrams || !sum(flow, "acked_bps") ? null : flow.subflows.reduce((all, each) => all + each.acked_bps * each.mean_srtt_us, 0) / sum(flow, "acked_bps") / 1000)),
    row("delay_p50_ms", "Delay, median", "ms", (flow) => ms(delay(flow)?.p50_ns)),
    row("delay_p95_ms", "Delay, 95th percentile", "ms", (flow) => ms(delay(flow)?.p95_ns)),
    row("loss", "Datagrams lost", "%", (flow) => flow.datagrams && flow.datagrams.loss !== null ? 100 * flow.datagrams.loss : null),
    row("retransmissions", "Sent again", "segments", (flow) => (flow.datagrams ? null : sum(flow, "retransmissions"))),
  ].filter(({ values }) => Object.values(values).some((value) => value !== null));
}

// Of a frame of 1514 bytes with a full packet, what is payload: behind the headers of IP and TCP, and MPTCP's option.
const FRAME = 1514;
const PAYLOAD = { tcp: 1448, mptcp: 1424 };
// The headers of a datagram: Ethernet, IPv4 and UDP.
const DATAGRAM_HEADERS = 42;

// What nothing can better, as `polypath run` says it: the payload that the links of the connection carry in the direction of its data
// between two times, by default while it runs, and what the application asks for; Mbit/s. `rate` is that of the links, headers and all.
export function possibleOf(scenario, from = 0, until = undefined) {
  const flow = scenario.flows.find(({ name }) => name === "connection");
  const down = dataGoesDown(scenario);
  const rateOf = (name) => {
    const link = scenario.links.find((each) => each.name === name);
    return link ? carried(down ? link.b_to_a : link.a_to_b, from, until ?? flow.window_ns[1]) : Infinity;
  };
  const paths = ["path1", ...(flow.transport === "mptcp" ? ["path2"] : [])].map(rateOf);
  const rate = Math.min(paths.reduce((sum, each) => sum + each, 0), rateOf("bottleneck")) / 1e6;
  const asked = flow.app.bits_per_s ? (flow.app.bits_per_s / 1e6) * (flow.app.on_ns / (flow.app.on_ns + flow.app.off_ns)) : Infinity;
  const links = (rate * PAYLOAD[flow.transport]) / FRAME;
  return { rate, links, possible: Math.min(links, asked) };
}

// The same before each time, as goodput is counted there; null where it is the same all the time.
export function possibleOver(scenario, times) {
  const found = times.map((at) => possibleOf(scenario, Math.max(0, at - GOODPUT_OVER_S) * 1e9, Math.max(at, GOODPUT_OVER_S) * 1e9).possible);
  return found.some((each) => Math.abs(each - found[0]) > 1e-6) ? found : null;
}

// The mean rate of a chain from one time to another, bit/s; while it is cut it carries nothing.
function carried(elements, from, until) {
  let [rate, up] = [Infinity, 1];
  for (const element of elements) {
    if (element.kind === "rate") rate = Math.min(rate, meanRate(element, from, until));
    if (element.kind === "down") up -= element.spans_ns.reduce((sum, [at, to]) => sum + Math.max(0, Math.min(to, until) - Math.max(at, from)), 0) / (until - from);
  }
  return rate * Math.max(0, up);
}

function meanRate({ bits_per_s: first, changes }, from, until) {
  let [sum, at, rate] = [0, from, first];
  for (const { at_ns: next, to } of changes) {
    if (next >= until) break;
    if (next > at) [sum, at] = [sum + rate * (next - at), next];
    rate = to;
  }
  return (sum + rate * (until - at)) / (until - from);
}

// Why the goodput is less than the links' rate, at its best `best`, in sentences; nothing where the application does not send without end.
export function missing(scenario, { outcome }, { rate }, best) {
  if (!(rate > 0) || scenario.flows.find(({ name }) => name === "connection").app.kind !== "bulk") return "";
  const flows = outcome.flows.map(({ name, goodput_receiver_bps: got }) => ({ got: got / 1e6, ...scenario.flows.find((flow) => flow.name === name) }));
  const headers = flows.reduce((sum, { got, transport, datagram_bytes: size }) => sum + got * (size ? DATAGRAM_HEADERS / size : FRAME / PAYLOAD[transport] - 1), 0);
  const rest = rate - headers - flows.reduce((sum, { got }) => sum + got, 0);
  const mean = Number(rate.toPrecision(4));
  const changing = best - rate > 0.01 * best ? `The links change over time: of ${best} Mbit/s they carry ${mean} in the mean. ` : "";
  const rival = flows.length > 1 ? ", both flows together" : "";
  const others = rest > 0.05 ? `; the start, losses and waiting take ${rest.toPrecision(2)}` : "";
  return `${changing}Of ${mean} Mbit/s headers take ${headers.toPrecision(2)}${others}${rival}.`;
}
