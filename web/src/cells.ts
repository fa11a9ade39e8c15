// The cells of the rows that a page shows: they are selected by the mouse or by the arrow keys, and
// copied with their values, as text and as a table.

/** The value of a cell; null is NULL. */
type Value = string | null;

/** A part of a grid. The positions are from 0, and include the last ones. */
interface Area {
  grid: HTMLTableElement;
  rows: [number, number];
  columns: [number, number];
}

/** What the clipboard gets. */
interface Copied {
  text: string;
  html: string;
  /** What has been copied, for the user. */
  summary: string;
}

const GRID = "table[data-rows]";
const STEPS: Record<string, [number, number]> = {
  ArrowUp: [-1, 0],
  ArrowDown: [1, 0],
  ArrowLeft: [0, -1],
  ArrowRight: [0, 1],
  Home: [0, Number.NEGATIVE_INFINITY],
  End: [0, Number.POSITIVE_INFINITY],
};

/** Let the user select and copy cells of the grids of a page, and of those that an update adds. */
export function offerCells(page: Document): void {
  page.documentElement.classList.add("cells-work");
  new Cells(page);
}

/** Return the value that a cell shows; null is NULL. */
export function readCell(cell: HTMLTableCellElement | undefined): Value {
  // A cell that is cut has a link behind its text.
  return cell?.querySelector(".null") ? null : (cell?.firstChild?.textContent ?? "");
}

class Cells {
  private start: HTMLTableCellElement | null = null;
  private end: HTMLTableCellElement | null = null;
  private isPressed = false;
  /** What a button copies while its command runs. */
  private wanted: Area | null = null;

  constructor(private readonly page: Document) {
    page.addEventListener("mousedown", (event) => this.press(event));
    page.addEventListener("mouseover", (event) => this.drag(event));
    page.addEventListener("mouseup", () => {
      this.isPressed = false;
    });
    page.addEventListener("keydown", (event) => this.move(event));
    page.addEventListener("copy", (event) => this.copy(event));
    page.addEventListener("click", (event) => this.copyByButton(event));
  }

  private press(event: MouseEvent): void {
    const target = event.target as Element;
    if (event.button !== 0 || target.closest("a, button")) {
      return;
    }
    const cell = findCell(target);
    if (!cell) {
      this.select(null, null);
    } else if (event.shiftKey && this.start?.closest("table") === cell.closest("table")) {
      event.preventDefault();
      this.select(this.start, cell);
    } else {
      this.isPressed = true;
      this.select(cell, cell);
    }
  }

  private drag(event: MouseEvent): void {
    const cell = this.isPressed && event.buttons & 1 ? findCell(event.target as Element) : null;
    // Text within one cell is selected as elsewhere.
    if (cell && cell !== this.end && cell.closest("table") === this.start?.closest("table")) {
      this.page.getSelection()?.removeAllRanges();
      this.select(this.start, cell);
    }
  }

  private move(event: KeyboardEvent): void {
    const grid = event.target as HTMLTableElement;
    if (!grid.matches(GRID) || event.ctrlKey || event.metaKey || event.altKey) {
      return;
    }
    const end = this.end && grid.contains(this.end) ? this.end : null;
    if (event.key === "Escape") {
      this.select(null, null);
    } else if (event.key === " " && event.shiftKey && end && this.start) {
      event.preventDefault();
      this.select(rowOf(this.start).cells[0] ?? null, [...rowOf(end).cells].at(-1) ?? null);
    } else if (STEPS[event.key]) {
      event.preventDefault();
      const cell = end ? findNext(grid, end, STEPS[event.key] ?? [0, 0]) : grid.querySelector("td");
      this.select(event.shiftKey && end ? this.start : cell, cell);
      cell?.scrollIntoView({ block: "nearest", inline: "nearest" });
    }
  }

  /** Select the cells between two corners. */
  private select(start: HTMLTableCellElement | null, end: HTMLTableCellElement | null): void {
    for (const cell of this.page.querySelectorAll(`${GRID} [aria-selected]`)) {
      cell.removeAttribute("aria-selected");
    }
    this.page.getElementById("active-cell")?.removeAttribute("id");
    for (const grid of this.page.querySelectorAll("[aria-activedescendant]")) {
      grid.removeAttribute("aria-activedescendant");
    }
    this.start = start;
    this.end = end;
    const area = this.findArea();
    for (const row of area ? rowsOf(area) : []) {
      for (const cell of cellsOf(row, area as Area)) {
        cell.setAttribute("aria-selected", "true");
      }
    }
    if (area && end) {
      end.id = "active-cell";
      area.grid.setAttribute("aria-activedescendant", end.id);
    }
  }

  /** Return what is selected; null if nothing is, or an update has replaced it. */
  private findArea(): Area | null {
    const { start, end } = this;
    const grid = start?.closest<HTMLTableElement>(GRID);
    if (!start || !end || !grid?.isConnected || !grid.contains(end)) {
      return null;
    }
    const [first, last] = [rowOf(start).sectionRowIndex, rowOf(end).sectionRowIndex];
    const [left, right] = [start.cellIndex, end.cellIndex];
    return {
      grid,
      rows: [Math.min(first, last), Math.max(first, last)],
      columns: [Math.min(left, right), Math.max(left, right)],
    };
  }

  private copy(event: ClipboardEvent): void {
    const area = this.findArea();
    const selection = this.page.getSelection();
    // Selected text, such as a part of a cell, is copied as elsewhere.
    if (this.wanted) {
      this.write(event, this.wanted, true);
    } else if (area?.grid === this.page.activeElement && selection?.isCollapsed !== false) {
      this.write(event, area, false);
    }
  }

  private write(event: ClipboardEvent, area: Area, hasNames: boolean): void {
    const { text, html, summary } = readArea(area, hasNames);
    event.clipboardData?.setData("text/plain", text);
    event.clipboardData?.setData("text/html", html);
    event.preventDefault();
    this.say(summary);
  }

  private copyByButton(event: MouseEvent): void {
    const grid = this.page.querySelector<HTMLTableElement>(GRID);
    if (!(event.target as Element).closest("[data-copy-rows]") || !grid) {
      return;
    }
    const rows = grid.tBodies[0]?.rows.length ?? 0;
    const columns = grid.tHead?.rows[0]?.cells.length ?? 0;
    const all: Area = { grid, rows: [0, rows - 1], columns: [0, columns - 1] };
    this.wanted = this.findArea() ?? all;
    // `navigator.clipboard` needs HTTPS, and applies the styles of the table to this page.
    if (!this.page.execCommand("copy")) {
      this.say("Not allowed by the browser");
    }
    this.wanted = null;
  }

  private say(text: string): void {
    const place = this.page.querySelector("[data-copied]");
    if (place) {
      place.textContent = text;
    }
  }
}

function findCell(target: Element): HTMLTableCellElement | null {
  return target.closest<HTMLTableCellElement>(`${GRID} td`);
}

function rowOf(cell: HTMLTableCellElement): HTMLTableRowElement {
  return cell.parentElement as HTMLTableRowElement;
}

/** Return the cell that is some rows and columns from another one, within the grid. */
function findNext(
  grid: HTMLTableElement,
  cell: HTMLTableCellElement,
  [down, right]: [number, number],
): HTMLTableCellElement | null {
  const rows = grid.tBodies[0]?.rows;
  const at = (position: number, count: number) => Math.min(Math.max(position, 0), count - 1);
  const row = rows?.[at(rowOf(cell).sectionRowIndex + down, rows.length)];
  return row?.cells[at(cell.cellIndex + right, row.cells.length)] ?? null;
}

function rowsOf({ grid, rows: [first, last] }: Area): HTMLTableRowElement[] {
  return [...(grid.tBodies[0]?.rows ?? [])].slice(first, last + 1);
}

function cellsOf(row: HTMLTableRowElement, { columns: [left, right] }: Area) {
  return [...row.cells].slice(left, right + 1);
}

function readArea(area: Area, hasNames: boolean): Copied {
  const header = area.grid.tHead?.rows[0];
  const heads = header ? cellsOf(header, area) : [];
  const names = heads.map((each) => each.firstChild?.textContent?.trimEnd() ?? "");
  const areTexts = heads.map((each) =>
    /^(string|char|varchar)/i.test(each.querySelector(".type")?.textContent ?? ""),
  );
  const cells = rowsOf(area).map((row) => cellsOf(row, area));
  const rows = cells.map((row) => row.map(readCell));
  const cut = cells.flat().filter((cell) => cell.querySelector("a.whole")).length;
  const count = (number: number, name: string) =>
    `${number.toLocaleString("en")} ${name}${number === 1 ? "" : "s"}`;
  return {
    text: [...(hasNames ? [names] : []), ...rows]
      .map((row) => `${row.map(quote).join("\t")}\n`)
      .join(""),
    html: writeTable(hasNames ? names : null, rows, areTexts),
    summary:
      `Copied ${count(rows.length, "row")} of ${count(names.length, "column")}.` +
      (cut ? ` ${count(cut, "value")} cut to the first 1,000 characters: download the rows.` : ""),
  };
}

/** Return a field of a text with tabs. NULL is a field without anything, and `""` an empty text. */
function quote(value: Value): string {
  if (value === null) {
    return "";
  }
  return value === "" || /["\t\r\n]/.test(value) ? `"${value.replaceAll('"', '""')}"` : value;
}

/** Return a table that keeps texts such as `007` as they are. NULL has the attribute `data-null`. */
function writeTable(names: string[] | null, rows: Value[][], areTexts: boolean[]): string {
  const head = names ? `<thead><tr>${names.map(writeName).join("")}</tr></thead>` : "";
  const body = rows.map((row) => {
    const cells = row.map((value, index) => {
      const look = areTexts[index] ? ` style="mso-number-format:'\\@'"` : "";
      return value === null ? "<td data-null></td>" : `<td${look}>${escapeHtml(value)}</td>`;
    });
    return `<tr>${cells.join("")}</tr>`;
  });
  return `<meta charset="utf-8"><table>${head}<tbody>${body.join("")}</tbody></table>`;
}

function writeName(name: string): string {
  return `<th>${escapeHtml(name)}</th>`;
}

const ENTITIES: Record<string, string> = {
  "&": "&amp;",
  "<": "&lt;",
  ">": "&gt;",
  '"': "&quot;",
};
/** The end of a line. Without the style, Excel begins a row. */
const BREAK = `<br style="mso-data-placement:same-cell">`;

function escapeHtml(text: string): string {
  return text.replace(/\r\n|[&<>"\r\n]/g, (part) => ENTITIES[part] ?? BREAK);
}
