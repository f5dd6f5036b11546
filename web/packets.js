// The packets of a moment: what the captures at both ends saw, each packet with its sending, its arrival, and what it carries.

import { clientPaths } from "./paths.js";

const SPAN_BEFORE_S = 0.4;
const SPAN_BEHIND_S = 0.8;
const SNAPLEN = 160;
const MOST = 200_000;

// The scenario with captures at both ends of the connection, and the times (ns) between which they are needed for a moment.
export function capturing(scenario, moment, span) {
  const links = (node) => scenario.links.filter(({ a, b }) => a.node === node || b.node === node).map(({ name }) => name);
  const at = (node) => links(node).filter((name) => name !== "rival").map((link) => ({ node, link, snaplen: SNAPLEN, packets: MOST }));
  return {
    scenario: { ...scenario, series_interval_ns: null, captures: [...at("client"), ...at("server")] },
    from: Math.max(0, moment - SPAN_BEFORE_S) * 1e9,
    until: Math.min(scenario.duration_ns, (moment + span + SPAN_BEHIND_S) * 1e9),
  };
}

// The packets in time order: { path, toServer, sent, arrived, kind, len, seq, ack, flags, dsn, again }; null: not sent or not arrived then.
export function packetsOf(scenario, files) {
  const client = clientPaths(scenario);
  const found = [];
  const open = new Map();
  const events = files.flatMap((file, index) => read(file).map((event) => ({ ...event, atClient: scenario.captures[index].node === "client" })));
  // What leaves comes before what arrives at the same time.
  events.sort((x, y) => x.time - y.time);
  const highest = new Map();
  for (const event of events) {
    const toServer = client.has(event.source);
    const path = client.get(toServer ? event.source : event.destination);
    if (path === undefined) continue;
    const key = `${event.source} ${event.destination} ${event.ports} ${event.ident} ${event.seq} ${event.ack} ${event.len} ${event.flags} ${event.stamp}`;
    if (event.atClient === toServer) {
      const line = `${path} ${toServer}`;
      // Sequence numbers wrap (RFC 9293 section 3.4).
      const ahead = event.len > 0 && event.seq !== null ? (event.seq - (highest.get(line) ?? event.seq)) | 0 : 0;
      const again = ahead < 0;
      if (event.len > 0 && event.seq !== null && !again) highest.set(line, (event.seq + event.len) >>> 0);
      const packet = { ...event, path, toServer, sent: event.time, arrived: null, again };
      found.push(packet);
      if (!open.has(key)) open.set(key, []);
      open.get(key).push(packet);
    } else {
      const packet = open.get(key)?.shift();
      if (packet) packet.arrived = event.time;
    }
  }
  return found;
}

const hex = (flags) => ["F", "S", "R", "P", "A"].filter((_, bit) => flags & (1 << bit)).join("");

// The packets of a pcapng file as our own simulator writes it: little-endian, one interface, raw IPv4, nanoseconds.
function read(file) {
  const view = new DataView(file.buffer, file.byteOffset, file.byteLength);
  const events = [];
  for (let at = 0; at + 12 <= view.byteLength; at += view.getUint32(at + 4, true)) {
    if (view.getUint32(at, true) !== 6) continue;
    const time = (view.getUint32(at + 12, true) * 2 ** 32 + view.getUint32(at + 16, true)) / 1e9;
    const event = packet(new DataView(file.buffer, file.byteOffset + at + 28, view.getUint32(at + 20, true)));
    if (event) events.push({ time, ...event });
  }
  return events;
}

function packet(view) {
  if (view.byteLength < 28 || view.getUint8(0) >> 4 !== 4) return null;
  const address = (at) => [0, 1, 2, 3].map((byte) => view.getUint8(at + byte)).join(".");
  const head = (view.getUint8(0) & 15) * 4;
  const [total, protocol] = [view.getUint16(2), view.getUint8(9)];
  const common = { source: address(12), destination: address(16), ident: view.getUint16(4), ports: view.getUint32(head) };
  if (protocol === 17) return { ...common, kind: "datagram", len: total - head - 8, seq: null, ack: null, flags: "", stamp: "", dsn: null };
  if (protocol !== 6 || view.byteLength < head + 20) return null;
  const options = (view.getUint8(head + 12) >> 4) * 4;
  const len = total - head - options;
  const bits = view.getUint8(head + 13);
  const { dsn, stamp } = tcpOptions(view, head + 20, head + options);
  const kind = bits & 2 ? "handshake" : len > 0 ? "data" : bits & 5 ? "end" : "ack";
  return { ...common, kind, len, seq: view.getUint32(head + 4), ack: view.getUint32(head + 8), flags: hex(bits), stamp, dsn };
}

// The data sequence number of an MPTCP mapping (RFC 8684 section 3.3; option 30, subtype 2), and the time stamps as text.
function tcpOptions(view, from, until) {
  let [dsn, stamp] = [null, ""];
  for (let at = from; at < Math.min(until, view.byteLength); ) {
    const kind = view.getUint8(at);
    if (kind === 0) break;
    if (kind === 1) {
      at += 1;
      continue;
    }
    const length = at + 1 < view.byteLength ? view.getUint8(at + 1) : 0;
    if (length < 2 || at + length > view.byteLength) break;
    if (kind === 8) stamp = `${view.getUint32(at + 2)} ${view.getUint32(at + 6)}`;
    if (kind === 30 && view.getUint8(at + 2) >> 4 === 2) {
      const flags = view.getUint8(at + 3);
      const behindAck = at + 4 + (flags & 1 ? (flags & 2 ? 8 : 4) : 0);
      if (flags & 4) dsn = flags & 8 ? Number(view.getBigUint64(behindAck) & 0xffffffffn) : view.getUint32(behindAck);
    }
    at += length;
  }
  return { dsn, stamp };
}
