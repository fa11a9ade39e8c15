// Charts of the rows that a page shows: the first column against the columns with numbers.
import uPlot from "uplot";
import "uplot/dist/uPlot.min.css";
import { readCell } from "./cells";

/** Kinds of charts, as the page offers them. */
type Kind = "bar" | "line" | "scatter";

/** The rows of a table as numbers. */
interface Figures {
  /** Values of the first column if all are numbers; otherwise the positions of the rows. */
  x: number[];
  /** Texts of the first column, if they are not numbers. */
  labels: string[] | null;
  /** Names and values of the columns with numbers. NULL is null. */
  series: { name: string; values: (number | null)[] }[];
}

const HEIGHT = 320;
/** Columns that one chart shows. */
const SERIES = 8;
const COLORS = ["--phase-3", "--phase-1", "--phase-4", "--phase-5", "--phase-6", "--phase-2"];

document.addEventListener("change", (event) => {
  const choice = (event.target as Element).closest<HTMLSelectElement>("select[data-chart]");
  const place = choice && document.getElementById("chart");
  const table = document.querySelector<HTMLTableElement>("table[data-rows]");
  if (choice && place && table) {
    draw(place, table, choice.value);
  }
});
// The choice appears with the rows, which an update of the page may bring.
document.documentElement.classList.add("charts-work");

function draw(place: HTMLElement, table: HTMLTableElement, kind: string): void {
  place.replaceChildren();
  if (kind === "") {
    return;
  }
  const figures = readFigures(table);
  if (!figures.series.length) {
    place.textContent = "No column behind the first has numbers.";
    return;
  }
  const { x, labels, series } = figures;
  const order = x.map((_, index) => index).sort((a, b) => (x[a] ?? 0) - (x[b] ?? 0));
  const data = [x, ...series.map((each) => each.values)].map((values) =>
    order.map((index) => values[index] ?? null),
  );
  const style = getComputedStyle(document.documentElement);
  const color = (name: string) => style.getPropertyValue(name).trim();
  const axis = { stroke: color("--quiet"), grid: { stroke: color("--line") } };
  new uPlot(
    {
      width: place.clientWidth,
      height: HEIGHT,
      scales: { x: { time: false } },
      axes: [
        labels ? { ...axis, values: (_, at) => at.map((n) => labels[n] ?? "") } : axis,
        { ...axis, size: 80 },
      ],
      series: [
        { label: table.querySelector("th")?.firstChild?.textContent?.trim() ?? "" },
        ...series.map(({ name }, index) => ({
          label: name,
          stroke: color(COLORS[index % COLORS.length] ?? ""),
          ...lookOf(kind as Kind, color(COLORS[index % COLORS.length] ?? "")),
        })),
      ],
    },
    data as uPlot.AlignedData,
    place,
  );
}

function lookOf(kind: Kind, color: string): Partial<uPlot.Series> {
  switch (kind) {
    case "bar":
      return {
        fill: color,
        paths: uPlot.paths.bars?.({ size: [0.7, 60] }),
        points: { show: false },
      };
    case "line":
      return { width: 2 };
    case "scatter":
      return { paths: () => null, points: { show: true, size: 6, fill: color } };
  }
}

function readFigures(table: HTMLTableElement): Figures {
  const names = [...(table.tHead?.rows[0]?.cells ?? [])].map(
    (each) => each.firstChild?.textContent?.trim() ?? "",
  );
  const rows = [...(table.tBodies[0]?.rows ?? [])].map((row) => [...row.cells]);
  const column = (index: number) => rows.map((cells) => readNumber(cells[index]));
  const first = column(0);
  const isNumeric = first.every((value) => value !== null && !Number.isNaN(value));
  const series = names
    .map((name, index) => ({ name, values: column(index) }))
    .slice(isNumeric && names.length > 1 ? 1 : 0)
    .filter(({ values }) => values.some((each) => each !== null))
    .filter(({ values }) => values.every((each) => !Number.isNaN(each)))
    .slice(0, SERIES);
  const isAlone = names.length === 1;
  return {
    x: isNumeric && !isAlone ? (first as number[]) : rows.map((_, index) => index),
    labels: isNumeric || isAlone ? null : rows.map((cells) => readCell(cells[0]) ?? "NULL"),
    series,
  };
}

/** Return the number of a cell; null for NULL, and NaN for any other text. */
function readNumber(cell: HTMLTableCellElement | undefined): number | null {
  const text = readCell(cell)?.trim();
  if (text === undefined) {
    return null;
  }
  return /^[+-]?\d/.test(text) ? Number(text) : Number.NaN;
}
