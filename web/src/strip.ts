// The strip of batches is one stop of the Tab key. The arrow keys, Home and End move within it.

/** The position to which a key moves, by the present and the last position. */
const KEYS: Record<string, (at: number, last: number) => number> = {
  ArrowLeft: (at) => Math.max(0, at - 1),
  ArrowRight: (at, last) => Math.min(last, at + 1),
  Home: () => 0,
  End: (_, last) => last,
};

/** Let the arrow keys move the focus between the bars of a strip. */
export function moveWithArrows(): void {
  document.addEventListener("keydown", (event) => {
    const move = KEYS[event.key];
    const bar = (event.target as Element).closest<SVGAElement>(".bars a");
    if (!move || !bar?.parentElement || event.altKey || event.ctrlKey || event.metaKey) {
      return;
    }
    event.preventDefault();
    const bars = [...bar.parentElement.querySelectorAll<SVGAElement>("a")];
    const next = bars[move(bars.indexOf(bar), bars.length - 1)];
    for (const each of bars) {
      each.setAttribute("tabindex", each === next ? "0" : "-1");
    }
    next?.focus();
  });
}
