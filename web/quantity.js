// Quantities as studies write them, in base units: bit/s, ns, bytes, packets, a fraction.

const UNITS = {
  rate: { bit: 1, kbit: 1e3, mbit: 1e6, gbit: 1e9 },
  time: { ns: 1, us: 1e3, "µs": 1e3, ms: 1e6, s: 1e9, min: 60e9, h: 3600e9 },
  size: { B: 1, kB: 1e3, KB: 1e3, MB: 1e6, GB: 1e9, KiB: 1024, MiB: 1024 ** 2, GiB: 1024 ** 3 },
  packets: { packets: 1, packet: 1 },
};

// Throws a RangeError that says what a quantity looks like.
export function quantity(what, text) {
  const match = /^\s*(\d+(?:\.\d+)?)\s*([^\d\s.]\S*?)\s*$/.exec(text ?? "");
  const written = match?.[2].replace(/\/s$/i, "");
  // As in Python, bits in letters of any case.
  const unit = what === "rate" ? written?.toLowerCase() : written;
  if (match && what === "share" && unit === "%") return Number(`${match[1]}e-2`);
  const size = match && UNITS[what]?.[unit];
  if (!size) throw new RangeError(`"${text}" is no ${what}`);
  return Math.round(Number(match[1]) * size);
}
