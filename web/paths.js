// Which path a packet or a subflow takes: the client has an address on each.

// The client's addresses with the number of their path.
export function clientPaths(scenario) {
  const found = new Map();
  for (const { name, a, b } of scenario.links) {
    const number = /^(?:access|path)([12])$/.exec(name)?.[1];
    for (const end of [a, b]) if (number && end.node === "client") found.set(end.address, Number(number));
  }
  return found;
}
