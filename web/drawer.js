// On a phone the settings lie in a drawer at the lower edge: its handle is dragged, or a tap closes and opens it.

// Pixels: what stays in sight of a closed drawer, and by how much a finger moves that only taps.
const CLOSED = 40;
const TAP = 6;

export function drawer(place, handle) {
  let [from, moved] = [0, false];
  const size = (height) => {
    const given = Math.max(CLOSED, Math.min(window.innerHeight * 0.85, height));
    document.documentElement.style.setProperty("--drawer", `${given}px`);
    handle.setAttribute("aria-expanded", String(given > CLOSED));
  };
  handle.onpointerdown = (event) => {
    handle.setPointerCapture(event.pointerId);
    [from, moved] = [event.clientY, false];
  };
  handle.onpointermove = (event) => {
    if (!handle.hasPointerCapture(event.pointerId)) return;
    moved ||= Math.abs(event.clientY - from) > TAP;
    if (moved) size(window.innerHeight - event.clientY + CLOSED / 2);
  };
  // The click that ends a drag is none.
  handle.onclick = () => {
    if (!moved) size(place.clientHeight > CLOSED + TAP ? CLOSED : window.innerHeight * 0.4);
    moved = false;
  };
}
