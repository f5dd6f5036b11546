// From a study file to settings. What the page has no setting for is refused, with the field's name; what changes no run is left out.

import { load } from "./vendor/js-yaml/js-yaml.esm.min.mjs";
import { checked, DEFAULTS, FIELDS } from "./fields.js";
import { quantity } from "./quantity.js";

const LEFT_OUT = ["name", "title", "question", "source", "measure", "claims", "conclusion", "baselines", "published", "short", "repeat_over", "exclude"];
// What an experiment has instead of the study.
const PARTS = ["topology", "flows", "duration", "kernel", "seeds"];

const LONGEST_S = 60;

class Refusal extends RangeError {
  constructor(field, why) {
    super(`${field}: ${why}`);
  }
}

function only(value, names, field) {
  const unknown = Object.keys(value ?? {}).find((name) => !names.includes(name));
  if (unknown !== undefined) throw new Refusal(field ? `${field}.${unknown}` : unknown, "the playground has no such setting; take it out, or run the study with polypath run");
}

// { settings, notes } of a study file's text; throws a RangeError with one sentence.
export function settingsOf(text) {
  let given;
  try {
    given = load(text);
  } catch (error) {
    throw new RangeError(`this is no study file: ${error.reason ?? error.message}`);
  }
  if (given === null || typeof given !== "object" || Array.isArray(given) || !given.topology || !given.flows) {
    throw new RangeError("this is no study file: it has no topology and flows");
  }
  const notes = [];
  const study = filled(given, notes);
  only(study, [...LEFT_OUT, "topology", "flows", "duration", "kernel", "seeds", "matrix"], "");
  const settings = { ...DEFAULTS };
  const set = (key, value, field) => {
    try {
      settings[key] = checked(FIELDS.find((each) => each.key === key), value);
    } catch (error) {
      throw new Refusal(field, error.message);
    }
    if (typeof value === "number" && Math.abs(settings[key] - value) > 1e-9) notes.push(`${field}: ${value} became ${settings[key]}`);
  };
  if (study.kernel !== undefined) set("kernel", String(study.kernel), "kernel");
  set("seed", Array.isArray(study.seeds) ? study.seeds[0] : 1, "seeds");
  if ((Array.isArray(study.seeds) ? study.seeds.length : study.seeds ?? 1) > 1) notes.push("seeds: the first one is taken");
  set("duration", read("time", study.duration, "duration") / 1e9, "duration");
  const main = flows(study.flows, set);
  links(study.topology, main, study.flows, set, notes);
  return { settings, notes };
}

// The study's first cell: placeholders are its parameters, the first values of its matrix, and what bundles bring with these.
function filled(given, notes) {
  const [[name, experiment] = [], ...more] = Object.entries(given.experiments ?? {});
  only(experiment, [...LEFT_OUT, ...PARTS, "parameters", "matrix"], `experiments.${name}`);
  if (more.length) notes.push(`experiments: the first one is taken: ${name}`);
  const study = { ...given, ...Object.fromEntries(PARTS.filter((part) => experiment?.[part] != null).map((part) => [part, experiment[part]])) };
  const matrix = experiment ? experiment.matrix : study.matrix;
  const varied = Object.fromEntries(Object.entries(matrix ?? {}).map(([name, values]) => [name, [].concat(values)[0]]));
  const parameters = { ...study.parameters, ...experiment?.parameters, ...varied };
  const brought = Object.entries(study.bundles ?? {}).map(([name, values]) => values[parameters[name]]);
  const first = Object.assign({}, ...brought, parameters);
  const names = Object.keys(varied);
  if (names.length) notes.push(`matrix: the first values are taken: ${names.map((name) => `${name} ${varied[name]}`).join(", ")}`);
  const fill = (value, field) => {
    if (typeof value === "string") {
      const whole = /^\$\{(\w+)\}$/.exec(value);
      const get = (name) => {
        if (!(name in first)) throw new Refusal(field, `"${value}" stands for a parameter that has no value`);
        return first[name];
      };
      return whole ? get(whole[1]) : value.replace(/\$\{(\w+)\}/g, (_, name) => get(name));
    }
    if (Array.isArray(value)) return value.map((each, index) => fill(each, `${field}[${index}]`));
    if (value && typeof value === "object") return Object.fromEntries(Object.entries(value).map(([name, each]) => [name, fill(each, field ? `${field}.${name}` : name)]));
    return value;
  };
  const kept = Object.fromEntries(Object.entries(study).filter(([name]) => ![...LEFT_OUT, "parameters", "matrix", "bundles", "experiments"].includes(name)));
  return fill(kept, "");
}

function read(what, text, field) {
  try {
    return quantity(what, text);
  } catch (error) {
    throw new Refusal(field, error.message);
  }
}

// The connection, and the rival if there is one. Returns the connection's flow.
function flows(given, set) {
  const all = Object.entries(given);
  const [name, main] = all.find(([, flow]) => (flow.transport ?? "mptcp") === "mptcp") ?? all[0];
  const field = (of) => `flows.${name}.${of}`;
  only(main, ["client", "server", "transport", "direction", "cc", "scheduler", "app", "start", "start_spread", "path_manager", "client_address", "server_address"], `flows.${name}`);
  if ((main.path_manager?.kind ?? main.path_manager ?? "fullmesh") !== "fullmesh") throw new Refusal(field("path_manager"), "the playground has the full mesh alone");
  set("transport", main.transport ?? "mptcp", field("transport"));
  set("cc", main.cc ?? "cubic", field("cc"));
  set("scheduler", main.scheduler ?? "", field("scheduler"));
  set("direction", main.direction ?? "upload", field("direction"));
  const app = main.app ?? { kind: "bulk" };
  set("app", app.kind, field("app.kind"));
  const fields = { bulk: ["kind"], transfer: ["kind", "size"], requests: ["kind", "response", "pause"], on_off: ["kind", "on", "off"], constant: ["kind", "rate"] };
  only(app, fields[app.kind], field("app"));
  const size = app.size ?? app.response ?? (app.kind === "requests" ? "10KB" : undefined);
  if (size !== undefined) set("size", read("size", size, field("app")) / 1000, field("app"));
  if (app.kind === "requests") set("pause", app.pause === undefined ? 0 : read("time", app.pause, field("app.pause")) / 1e6, field("app.pause"));
  if (app.kind === "constant") set("stream", read("rate", app.rate, field("app.rate")) / 1e6, field("app.rate"));
  for (const [key, must] of [["on", "1s"], ["off", "1s"]]) {
    if (app[key] !== undefined && read("time", app[key], field(`app.${key}`)) !== quantity("time", must)) throw new Refusal(field(`app.${key}`), `in the playground it is ${must}`);
  }
  const others = all.filter(([other]) => other !== name);
  if (others.length > 1) throw new Refusal(`flows.${others[1][0]}`, "the playground has one connection and one rival");
  for (const [rival, flow] of others) {
    only(flow, ["client", "server", "transport", "direction", "cc", "app", "start", "start_spread", "datagram"], `flows.${rival}`);
    const down = (each) => each.app?.kind === "requests" || each.direction === "download";
    if (flow.server !== main.server) throw new Refusal(`flows.${rival}.server`, "the playground's rival has the connection's server");
    if (flow.client === main.client) throw new Refusal(`flows.${rival}.client`, "the playground's rival has a host of its own");
    if (down(flow) !== down(main)) throw new Refusal(`flows.${rival}.direction`, "the playground's rival sends in the direction of the connection's data");
    const isCall = flow.transport === "udp";
    if (isCall ? flow.app?.kind !== "constant" : flow.transport !== "tcp" || (flow.app?.kind ?? "bulk") !== "bulk") throw new Refusal(`flows.${rival}.app`, "the playground's rival is TCP with bulk data, or a call");
    if (isCall && (read("rate", flow.app.rate, `flows.${rival}.app.rate`) !== 1e6 || flow.datagram !== "1200B")) throw new Refusal(`flows.${rival}.app.rate`, "the playground's call has 1mbit in datagrams of 1200B");
    set("rival", isCall ? "call" : "tcp", `flows.${rival}`);
    if (!isCall) set("rival_cc", flow.cc ?? "cubic", `flows.${rival}.cc`);
  }
  return main;
}

const nodeOf = (end) => (typeof end === "string" ? end : end.node);

// The client's links, that of the flow's address first. Addresses are counted through where none are written.
function clientLinks(found, main) {
  const address = ({ link, place }) => {
    const end = link.ends.findIndex((each) => nodeOf(each) === main.client);
    return link.ends[end].address ?? `10.0.${place}.${end + 1}`;
  };
  const wanted = main.client_address;
  if (wanted == null) return found;
  const own = found.filter((each) => address(each).split("/")[0] === wanted);
  if (!own.length) throw new Refusal("flows", `no link of \`${main.client}\` has the address ${wanted}`);
  return [...own, ...found.filter((each) => !own.includes(each))];
}

// Follows each link of the client to the server.
function links({ nodes, links: all, ...rest }, main, allFlows, set, notes) {
  only(rest, [], "topology");
  for (const [name, node] of Object.entries(nodes)) only(node, ["router"], `topology.nodes.${name}`);
  const joined = Object.entries(all).map(([name, link], index) => {
    only(link, ["ends", "both", "forward", "backward"], `topology.links.${name}`);
    return { name, link, place: index + 1, ends: link.ends.map(nodeOf) };
  });
  const at = (node, but) => joined.filter((each) => each !== but && each.ends.includes(node));
  const far = ({ ends }, node) => ends[ends[0] === node ? 1 : 0];
  const first = clientLinks(at(main.client), main);
  const isAlone = first.length === 1 && main.transport === "tcp";
  if (isAlone) notes.push("path 2: the study has no second path, and TCP takes the first alone");
  else if (first.length !== 2) throw new Refusal("topology.links", `the playground has two paths, and \`${main.client}\` has ${first.length} links`);
  const rivals = Object.values(allFlows).filter((flow) => flow.client !== main.client).map((flow) => flow.client);
  const onward = (link) => at(far(link, main.client), link).filter((each) => !rivals.includes(far(each, far(link, main.client))) && !each.ends.includes(main.client));
  const routers = first.map((link) => far(link, main.client));
  const shared = routers[0] === routers[1] && routers[0] !== main.server;
  set("layout", shared ? "shared-bottleneck" : "two-paths", "topology.links");
  const used = new Set(first);
  const walk = (from, start) => {
    const chain = [];
    for (let [node, link] = [from, start]; link; ) {
      used.add(link);
      chain.push({ ...link, forward: link.ends[0] === node });
      node = far(link, node);
      if (node === main.server) return chain;
      const next = at(node, link).filter((each) => !rivals.includes(far(each, node)) && !first.includes(each));
      if (next.length !== 1) throw new Refusal(`topology.links.${link.name}`, "the playground follows one link after another to the server, and here it does not");
      [link] = next;
    }
  };
  if (shared) {
    first.forEach((link, index) => shape([{ ...link, forward: link.ends[0] === main.client }], `path${index + 1}`, main, set, notes));
    const [bottleneck, ...more] = onward(first[0]);
    if (!bottleneck || more.length) throw new Refusal("topology.links", `the playground has one link behind \`${routers[0]}\``);
    shape(walk(routers[0], bottleneck), "bottleneck", main, set, notes);
  } else {
    first.forEach((link, index) => shape(walk(main.client, link), `path${index + 1}`, main, set, notes));
  }
  for (const rival of rivals) {
    const [own, ...more] = at(rival);
    if (!own || more.length || far(own, rival) !== routers[0]) throw new Refusal("topology.links", `the playground's rival is beside \`${routers[0]}\`, and \`${rival}\` is not`);
    const { rate, delay } = figures(own.link.both ?? {}, `topology.links.${own.name}`);
    if (rate || delay || !own.link.both) notes.push(`topology.links.${own.name}: in the playground the rival's own link has no rate and no delay`);
    used.add(own);
  }
  const left = joined.find((each) => !used.has(each));
  if (left) throw new Refusal(`topology.links.${left.name}`, "it is on no path of the connection; take it out");
}

// The links of a path as one: their delays are added, and one of them has the rate.
function shape(chain, group, main, set, notes) {
  const download = main.app?.kind === "requests" || main.direction === "download";
  const total = { delay: 0, jitter: 0 };
  let delays = 0;
  const found = {};
  for (const { name, link, forward } of chain) {
    const side = (isForward) => link[isForward ? "forward" : "backward"] ?? link.both ?? {};
    const [data, back] = download ? [side(!forward), side(forward)] : [side(forward), side(!forward)];
    const [field, one] = [`topology.links.${name}`, figures(data, `topology.links.${name}`)];
    const other = figures(back, field);
    total.delay += one.delay;
    delays += one.delay > 0 ? 1 : 0;
    total.jitter += one.jitter;
    if (Math.abs(one.delay - other.delay) > 1e-9) throw new Refusal(`${field}.backward.delay`, "in the playground both directions of a link have one delay");
    if (one.rate === undefined) continue;
    if (found.rate !== undefined) {
      if (one.rate < found.rate) throw new Refusal(`${field}.rate`, "in the playground one link of a path has a rate");
      notes.push(`${field}: its rate is left out, since another link of the path is slower`);
      continue;
    }
    Object.assign(found, one, { back: other.rate ?? one.rate });
  }
  if (found.rate === undefined) throw new Refusal(`topology.links.${chain[0].name}`, "no link of this path has a rate");
  if (chain.length > 1 && delays > 1) notes.push(`${group}: the delays of ${chain.map(({ name }) => name).join(" and ")} are added`);
  for (const [key, value] of Object.entries({ ...found, ...total })) {
    const hasKey = FIELDS.some((field) => field.key === `${group}.${key}`);
    if (hasKey) set(`${group}.${key}`, value, `topology.links.${chain.at(-1).name}.${key}`);
    else if (value !== 0 && value !== "none") throw new Refusal(`topology.links.${chain.at(-1).name}.${key}`, "the playground's bottleneck has no such setting");
  }
}

// One direction of a link, in the page's units.
function figures(side, field) {
  if (Array.isArray(side)) return radio(side, field);
  only(side, ["rate", "queue", "aqm", "delay", "jitter", "loss", "changes"], field);
  const get = (name, what, base) => (side[name] === undefined ? 0 : read(what, side[name], `${field}.${name}`) / base);
  const cuts = side.changes ?? [];
  if (cuts.length && (cuts.length > 2 || cuts.some((change) => Object.keys(change).some((key) => !["at", "up"].includes(key))) || cuts[0].up !== false)) {
    throw new Refusal(`${field}.changes`, "in the playground a link can be cut once, and nothing else of it changes");
  }
  // Without a second change it is cut until the end.
  const [from = 0, until = cuts.length ? from + LONGEST_S : 0] = cuts.map((change) => read("time", change.at, `${field}.changes`) / 1e9);
  if (side.aqm && typeof side.aqm !== "string") throw new Refusal(`${field}.aqm`, "in the playground queue management has its usual figures: write its name alone");
  return {
    ...(side.rate === undefined ? {} : { rate: get("rate", "rate", 1e6), queue: side.queue === undefined ? 1000 : get("queue", "packets", 1), radio: "none", aqm: side.aqm ?? "none" }),
    delay: get("delay", "time", 1e6),
    jitter: get("jitter", "time", 1e6),
    loss: side.loss === undefined ? 0 : Number((quantity("share", side.loss) * 100).toFixed(4)),
    cut_at: from,
    cut_for: Number((until - from).toFixed(2)),
  };
}

// The chain that the page writes for a radio.
function radio(chain, field) {
  const [first, ...others] = chain;
  if (first?.kind !== "wireless") throw new Refusal(field, "the playground reads chains that begin with a wireless element, and no others");
  only(first, ["kind", "radio", "peak", "queue", "delay", "jitter"], `${field}[0]`);
  for (const name of ["queue", "delay", "jitter"]) if (first[name] === undefined) throw new Refusal(`${field}[0].${name}`, "it must be given");
  const found = {
    radio: first.radio, aqm: "none", rate: read("rate", first.peak, `${field}[0].peak`) / 1e6, queue: read("packets", first.queue, `${field}[0].queue`),
    delay: read("time", first.delay, field) / 1e6, jitter: read("time", first.jitter, field) / 1e6, loss: 0, cut_at: 0, cut_for: 0,
  };
  others.forEach((element, index) => {
    const place = `${field}[${index + 1}]`;
    if (element.kind === "loss" && !element.changes) found.loss = Number((read("share", element.share, place) * 100).toFixed(4));
    else if (element.kind === "down" && element.spans.length === 1) {
      const [from, until] = element.spans[0].map((at) => read("time", at, place) / 1e9);
      Object.assign(found, { cut_at: from, cut_for: Number((until - from).toFixed(2)) });
    } else throw new Refusal(place, "the playground has no such element behind a radio");
  });
  return found;
}
