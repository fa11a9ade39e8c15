// The last hours of a streaming query as plots on one time axis. Where it did not run, a line breaks
// and a band says why.
import uPlot from "uplot";
import { moveWithArrows } from "./strip";

/** A minute with batches, as the API shows it. */
interface Minute {
  at: string;
  batches: number;
  input_rate: number;
  process_rate: number;
  milliseconds: number;
  slowest_milliseconds: number;
  parts: Record<string, number>;
  watermark_gap_seconds: number | null;
  backlog: number | null;
  state_rows: number;
  state_bytes: number;
}

/** `GET /streams/{stream}/history`, as far as the plots need it. */
interface History {
  began_at: string;
  read_at: string;
  minutes: Minute[];
  interruptions: {
    kind: string;
    began_at: string;
    ended_at: string | null;
    cause: string | null;
  }[];
  attempts: { created_at: string }[];
  marks: { kind: string; at: string; text: string }[];
}

/** null breaks a line, undefined does not. */
type Values = (number | null | undefined)[];

/** The minutes of a history: `rows` has those with batches, `isDown` those without a run. */
interface Axis {
  times: number[];
  rows: (Minute | undefined)[];
  isDown: boolean[];
  /** Spark reports no batches of some queries: nothing is known of their minutes. */
  isMeasured: boolean;
}

interface Line {
  label: string;
  color: string;
  read: (minute: Minute) => number | null;
  /** What it is in a minute without batches in which the query ran; otherwise the line goes on. */
  idle?: number;
  format: (value: number, notation?: Notation) => string;
  /** Lines of the second axis, at the right. */
  isRight?: boolean;
  /** Stacked upon the lines before. */
  isStacked?: boolean;
}

/** A plot with the values of its lines. */
interface Chart {
  title: string;
  lines: Line[];
  chart: uPlot;
  own: Values[];
}

const MINUTE = 60;
const HEIGHT = 190;
/** Shortest milliseconds between two requests, and between two of which a change caused the second. */
const PAUSE = 30_000;
const SHORT_PAUSE = 5_000;
/** Largest part by which a pause is longer, so that many pages ask at different times. */
const SPREAD = 0.25;
const LOOK = 1_000;
/** Least pixels of a band with a label. */
const LABEL = 60;
/** Characters of a cause in a legend. */
const CAUSE_CHARACTERS = 80;

/** Pixels of an axis, which is free space where a plot has none, so that the plots align. */
const SIDE = 64;

type Notation = "standard" | "compact";
const count = (value: number, notation: Notation = "standard") =>
  value.toLocaleString("en", { maximumFractionDigits: 1, notation });
const rate = (value: number, notation?: Notation) => `${count(value, notation)}/s`;
const milliseconds = (value: number, notation?: Notation) => `${count(value, notation)} ms`;
const seconds = (value: number, notation?: Notation) => `${count(value, notation)} s`;
const bytes = (value: number, notation?: Notation) => `${count(value / 2 ** 20, notation)} MiB`;

const PARTS: [string, string][] = [
  ["latest_offset", "--phase-1"],
  ["get_batch", "--phase-2"],
  ["query_planning", "--phase-4"],
  ["wal_commit", "--phase-5"],
  ["add_batch", "--phase-3"],
  ["commit_offsets", "--phase-6"],
];

const PLOTS: { title: string; lines: Line[] }[] = [
  {
    title: "Rows per second",
    lines: [
      {
        label: "arrived",
        color: "--phase-3",
        read: (minute) => minute.input_rate,
        idle: 0,
        format: rate,
      },
      {
        label: "while a batch ran",
        color: "--phase-1",
        read: (minute) => minute.process_rate,
        format: rate,
      },
    ],
  },
  {
    title: "Mean time of a batch by part, and the slowest batch",
    lines: [
      ...PARTS.map(([name, color]) => ({
        label: name.replace("_", " "),
        color,
        read: (minute: Minute) => (minute.parts[name] ?? 0) / minute.batches,
        format: milliseconds,
        isStacked: true,
      })),
      {
        label: "slowest",
        color: "--bad",
        read: (minute) => minute.slowest_milliseconds,
        format: milliseconds,
      },
    ],
  },
  {
    title: "Lag: the watermark behind the batch, and records not read yet",
    lines: [
      {
        label: "watermark gap",
        color: "--phase-3",
        read: (minute) => minute.watermark_gap_seconds,
        format: seconds,
      },
      {
        label: "backlog",
        color: "--phase-1",
        read: (minute) => minute.backlog,
        format: count,
        isRight: true,
      },
    ],
  },
  {
    title: "State: rows and memory",
    lines: [
      { label: "rows", color: "--phase-3", read: (minute) => minute.state_rows, format: count },
      {
        label: "memory",
        color: "--phase-4",
        read: (minute) => minute.state_bytes,
        format: bytes,
        isRight: true,
      },
    ],
  },
];

/** The plots in an element, whose `data-history` is the link to the history. */
class Plots {
  private readonly charts: Chart[] = [];
  private history: History | null = null;
  private fetchedAt = 0;
  private dueAt = 0;
  private isFetching = false;

  constructor(private readonly place: HTMLElement) {
    document.addEventListener("headrace:change", (event) => {
      const id = (event as CustomEvent<string | null>).detail;
      if (id === null || id === this.place.dataset.stream) {
        const pause = this.lengthen(SHORT_PAUSE);
        const dueAt = Math.max(Date.now() + Math.random() * pause, this.fetchedAt + pause);
        this.dueAt = Math.min(this.dueAt, dueAt);
      }
    });
    window.setInterval(() => this.look(), LOOK);
    new ResizeObserver(() => this.fit()).observe(place);
    this.look();
  }

  private look(): void {
    if (!document.hidden && !this.isFetching && Date.now() >= this.dueAt) {
      void this.update();
    }
  }

  /** Return a pause that is as long as that of the page, which grows with the number of open pages. */
  private lengthen(pause: number): number {
    const { liveSeconds } = document.getElementById("live")?.dataset ?? {};
    return Math.max(pause, 1000 * Number(liveSeconds ?? "0"));
  }

  private async update(): Promise<void> {
    this.isFetching = true;
    this.fetchedAt = Date.now();
    this.dueAt = this.fetchedAt + this.lengthen(PAUSE) * (1 + SPREAD * Math.random());
    try {
      // The header lets the request wait for its turn, as the refreshes of pages do.
      const headers = { "HX-Request": "true" };
      const response = await fetch(this.place.dataset.history ?? "", { headers });
      // A redirect leads to the sign-in, to which the page goes by itself.
      if (response.ok && !response.redirected) {
        this.show((await response.json()) as History);
      }
    } catch {
      // The page says that the node does not answer. The plots stay.
    } finally {
      this.isFetching = false;
    }
  }

  private show(history: History): void {
    this.history = history;
    const axis = readAxis(history);
    if (!this.charts.length) {
      this.place.replaceChildren();
      for (const { title, lines } of PLOTS) {
        this.charts.push(this.draw(title, lines));
      }
    }
    for (const each of this.charts) {
      each.own = each.lines.map((line) => readLine(axis, line));
      each.chart.setData([axis.times, ...stack(each.lines, each.own)] as uPlot.AlignedData);
      each.chart.ctx.canvas.setAttribute("aria-label", summarize(each, history));
    }
  }

  private draw(title: string, lines: Line[]): Chart {
    const figure = document.createElement("figure");
    const caption = document.createElement("figcaption");
    caption.textContent = title;
    figure.append(caption);
    this.place.append(figure);
    const drawn = { title, lines, own: [] as Values[] };
    const style = getComputedStyle(document.documentElement);
    const color = (name: string) => style.getPropertyValue(name).trim();
    const axis = { stroke: color("--quiet"), grid: { stroke: color("--line"), width: 1 } };
    const scaleOf = (line: Line) => (line.isRight ? "right" : "left");
    const axisOf = (line: Line, index: number): uPlot.Axis => ({
      ...axis,
      scale: scaleOf(line),
      side: line.isRight ? 1 : 3,
      size: SIDE,
      grid: { ...axis.grid, show: index === 0 },
      values: (_, ticks) => ticks.map((tick) => line.format(tick, "compact")),
    });
    const last = lines.at(-1) as Line;
    const first = lines[0] as Line;
    const chart = new uPlot(
      {
        width: this.place.clientWidth,
        height: HEIGHT,
        padding: [null, last.isRight ? 0 : SIDE, null, 0],
        tzDate: (instant) => uPlot.tzDate(new Date(instant * 1000), "Etc/UTC"),
        cursor: { sync: { key: "history" }, drag: { x: false, y: false } },
        scales: {
          x: { range: () => this.range() },
          left: { range: fromZero },
          right: { range: fromZero },
        },
        axes: [
          { ...axis, values: (_, ticks) => ticks.map(clock) },
          axisOf(first, 0),
          ...(last.isRight ? [axisOf(last, 1)] : []),
        ],
        series: [
          {
            label: "UTC",
            value: (_, instant) =>
              instant
                ? [clock(instant), this.explain(instant).slice(0, CAUSE_CHARACTERS)].join(" ")
                : "–",
          },
          ...lines.map((line, index) => ({
            label: line.label,
            scale: scaleOf(line),
            stroke: color(line.color),
            width: 1.5,
            ...(line.isStacked ? { fill: color(line.color) } : {}),
            points: { show: !line.isStacked, size: 4 },
            value: (_: uPlot, _value: number, _series: number, at: number | null) => {
              const value = at === null ? null : drawn.own[index]?.[at];
              return value === null || value === undefined ? "–" : line.format(value);
            },
          })),
        ],
        hooks: {
          draw: [(chart) => this.annotate(chart)],
          // A band can be narrower than its label, and the pointer is over the plot, not the band.
          setCursor: [
            ({ over, cursor, data }) => {
              over.title = this.explain(data[0][cursor.idx ?? -1]);
            },
          ],
        },
      },
      [[]],
      figure,
    );
    chart.ctx.canvas.setAttribute("role", "img");
    return Object.assign(drawn, { chart });
  }

  /** Return why the query did not run in a part of a minute, with the cause; empty if it ran. */
  private explain(instant: number | undefined): string {
    const found = (this.history?.interruptions ?? []).findLast(
      ({ began_at, ended_at }) =>
        instant !== undefined &&
        Date.parse(began_at) / 1000 < instant + MINUTE &&
        !(ended_at && Date.parse(ended_at) / 1000 <= instant),
    );
    return found ? found.kind.replace("_", " ") + (found.cause ? `: ${found.cause}` : "") : "";
  }

  /** Place the bands of interruptions, and the marks, over a chart. */
  private annotate(chart: uPlot): void {
    const place = chart.over;
    for (const old of place.querySelectorAll(".band, .mark")) {
      old.remove();
    }
    if (!this.history) {
      return;
    }
    const [from, to] = this.range();
    const at = (text: string) => Math.min(to, Math.max(from, Date.parse(text) / 1000));
    const x = (instant: number) => chart.valToPos(instant, "x");
    const add = (name: string, text: string, left: number, width: number) => {
      const element = document.createElement("div");
      element.className = name;
      const label = document.createElement("span");
      label.textContent = text;
      element.append(label);
      element.style.left = `${left}px`;
      element.style.width = `${width}px`;
      place.append(element);
    };
    for (const { kind, began_at, ended_at } of this.history.interruptions) {
      const left = x(at(began_at));
      const width = x(ended_at ? at(ended_at) : to) - left;
      add("band", width > LABEL ? kind.replace("_", " ") : "", left, Math.max(1, width));
    }
    for (const { kind, at: instant, text } of this.history.marks) {
      add(`mark ${kind}`, text, x(at(instant)), 0);
    }
  }

  private range(): [number, number] {
    const { began_at, read_at } = this.history ?? { began_at: "", read_at: "" };
    return [Date.parse(began_at) / 1000 || 0, Date.parse(read_at) / 1000 || 1];
  }

  private fit(): void {
    for (const { chart } of this.charts) {
      if (chart.width !== this.place.clientWidth) {
        chart.setSize({ width: this.place.clientWidth, height: HEIGHT });
      }
    }
  }
}

/** Return a plot in words, for readers who do not see it. */
function summarize({ title, lines, own }: Chart, history: History): string {
  const [from, to] = [history.began_at, history.read_at].map((text) =>
    clock(Date.parse(text) / 1000),
  );
  const texts = lines.map((line, index) => {
    const values = (own[index] ?? []).filter((value) => typeof value === "number");
    const last = values.at(-1);
    return last === undefined
      ? `${line.label}: none`
      : `${line.label}: last ${line.format(last)}, most ${line.format(Math.max(...values))}`;
  });
  const count = history.interruptions.length;
  return `${title}, ${from} to ${to} UTC. ${texts.join("; ")}. Times without a run: ${count}.`;
}

function fromZero(_chart: uPlot, _least: number, largest: number): [number, number] {
  return [0, largest > 0 ? largest * 1.05 : 1];
}

function clock(instant: number): string {
  return new Date(instant * 1000).toISOString().slice(11, 16);
}

function readAxis(history: History): Axis {
  const from = Date.parse(history.began_at) / 1000;
  const to = Date.parse(history.read_at) / 1000;
  const times: number[] = [];
  for (let time = from; time <= to; time += MINUTE) {
    times.push(time);
  }
  const rows: (Minute | undefined)[] = times.map(() => undefined);
  for (const minute of history.minutes) {
    rows[Math.round((Date.parse(minute.at) / 1000 - from) / MINUTE)] = minute;
  }
  const downs = history.interruptions.map(({ began_at, ended_at }) => [
    Date.parse(began_at) / 1000,
    ended_at ? Date.parse(ended_at) / 1000 : Number.POSITIVE_INFINITY,
  ]);
  const oldest = history.attempts.at(-1)?.created_at;
  const born = oldest ? Date.parse(oldest) / 1000 : from;
  const isDown = times.map(
    (time) =>
      time + MINUTE <= born ||
      downs.some(([begin = 0, end = 0]) => begin <= time && Math.min(time + MINUTE, to) <= end),
  );
  return { times, rows, isDown, isMeasured: history.minutes.length > 0 };
}

function readLine({ rows, isDown, isMeasured }: Axis, line: Line): Values {
  return rows.map((minute, index) => {
    if (minute) {
      return line.read(minute);
    }
    return isDown[index] || !isMeasured ? null : line.idle;
  });
}

/** Return the values as they are drawn: the last stacked line is the lowest, and covers the others. */
function stack(lines: Line[], values: Values[]): Values[] {
  const sums: number[] = [];
  const drawn = values.map((own, position) => ({ own, isStacked: lines[position]?.isStacked }));
  const upwards = drawn.reverse().map(({ own, isStacked }) =>
    own.map((value, index) => {
      if (!isStacked || value === null || value === undefined) {
        return value;
      }
      sums[index] = (sums[index] ?? 0) + value;
      return sums[index];
    }),
  );
  return upwards.reverse();
}

const place = document.querySelector<HTMLElement>("[data-history]");
if (place) {
  new Plots(place);
}
moveWithArrows();
