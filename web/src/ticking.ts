// Times that pass while a page is open: the duration of what runs, and what is left of a wait.

/**
 * Keep the times of a page current: elements with `data-since` or `data-until`, an instant each.
 *
 * The clock is that of the store, which the page states in `data-now`.
 */
export function tick(page: Document): void {
  const sent = Date.parse(page.documentElement.dataset.now ?? "");
  const ahead = Number.isNaN(sent) ? 0 : sent - Date.now();
  window.setInterval(() => {
    if (page.hidden || page.documentElement.classList.contains("stale")) {
      return;
    }
    const now = Date.now() + ahead;
    for (const element of page.querySelectorAll<HTMLElement>("[data-since], [data-until]")) {
      const { since, until } = element.dataset;
      const milliseconds = since ? now - Date.parse(since) : Date.parse(until ?? "") - now;
      element.textContent = describeSeconds(Math.max(0, milliseconds / 1000));
    }
  }, 1000);
}

const UNITS = [
  ["d", 86_400],
  ["h", 3_600],
  ["min", 60],
  ["s", 1],
] as const;

/** Return a duration of whole seconds as the node writes it: `5 s`, `2 min 5 s`, `2 d`. */
export function describeSeconds(seconds: number): string {
  let left = Math.floor(seconds);
  const first = UNITS.findIndex(([, size]) => left >= size);
  const parts = UNITS.slice(first, first + 2).map(([name, size]) => {
    const count = Math.floor(left / size);
    left -= count * size;
    return count ? `${count} ${name}` : "";
  });
  return first < 0 ? "0 s" : parts.filter(Boolean).join(" ");
}
