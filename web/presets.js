// Set-ups to begin with: what differs from the defaults.

export const PRESETS = [
  { name: "two-paths", label: "Two paths: a download with cubic", settings: {} },
  { name: "equal", label: "Two equal paths: a download with cubic", settings: { "path2.rate": 50, "path2.back": 50, "path2.delay": 10 } },
  {
    name: "shared-bottleneck",
    label: "Shared bottleneck: an upload with reno beside TCP",
    settings: {
      layout: "shared-bottleneck", direction: "upload", rival: "tcp", rival_cc: "reno", cc: "reno",
      "path1.rate": 100, "path1.back": 100, "path1.delay": 5, "path2.rate": 100, "path2.back": 100, "path2.delay": 5,
      "bottleneck.rate": 20, "bottleneck.back": 20, "bottleneck.delay": 10, "bottleneck.queue": 50,
    },
  },
  {
    name: "home-line",
    label: "Home line and LTE: a download beside a call",
    settings: {
      rival: "call", "path1.rate": 50, "path1.back": 10, "path1.delay": 10, "path1.queue": 1000,
      "path2.rate": 30, "path2.back": 10, "path2.delay": 30, "path2.jitter": 5, "path2.queue": 600,
    },
  },
  {
    name: "home-line-fq",
    label: "The same, queues kept by FQ-CoDel",
    settings: {
      rival: "call", "path1.rate": 50, "path1.back": 10, "path1.delay": 10, "path1.queue": 1000, "path1.aqm": "fq_codel",
      "path2.rate": 30, "path2.back": 10, "path2.delay": 30, "path2.jitter": 5, "path2.queue": 600, "path2.aqm": "fq_codel",
    },
  },
  {
    name: "wifi-lte",
    label: "Wi-Fi and LTE: the Wi-Fi is cut",
    settings: {
      "path1.radio": "wifi6", "path1.rate": 80, "path1.back": 80, "path1.delay": 8, "path1.jitter": 1, "path1.queue": 200,
      "path1.cut_at": 4, "path1.cut_for": 2,
      "path2.rate": 25, "path2.back": 10, "path2.delay": 35, "path2.jitter": 5, "path2.queue": 300,
    },
  },
  {
    name: "wifi-5g",
    label: "Wi-Fi and 5G",
    settings: {
      "path1.radio": "wifi6", "path1.rate": 80, "path1.back": 80, "path1.delay": 8, "path1.jitter": 1, "path1.queue": 200,
      "path2.radio": "5g", "path2.rate": 150, "path2.back": 50, "path2.delay": 15, "path2.jitter": 2, "path2.queue": 500,
    },
  },
];
