// The statements that an editor has run: submitted one after the other, each with its result.
import { setParameter } from "./address";
import { type Calls, newKey, Refusal } from "./calls";

/** A statement in the text of the editor. */
export interface Piece {
  /** Where it begins in the text. */
  from: number;
  text: string;
  /** The table of which it changes or deletes all rows. */
  changes_all_of: string | null;
}

/** Shows an error at its place in a statement; lines and columns count from 1. */
type ShowError = (
  piece: Piece,
  message: string,
  line: number | null,
  column: number | null,
) => void;

interface Failure {
  message: string;
  line: number | null;
  column: number | null;
}

interface Status {
  state: string;
  has_ended: boolean;
  has_succeeded: boolean;
  error: Failure | null;
}

/** Milliseconds between two questions for a state, if no event comes before. */
const ASK = 3_000;
/** The same while the page is hidden, and gets no events. */
const ASK_HIDDEN = 5_000;
/** Largest number of statements in the address and in the list. */
const RUNS = 20;

interface Submitted {
  id: string;
  connection: string;
  is_new_connection: boolean;
}

export class Runs {
  private stopping = new AbortController();
  private current: string | null = null;
  private readonly list = document.getElementById("runs") as HTMLElement;
  private readonly stop = document.getElementById("stop") as HTMLButtonElement;
  private readonly statements: string;

  constructor(
    private readonly form: HTMLFormElement,
    private readonly calls: Calls,
    private readonly showError: ShowError,
  ) {
    this.statements = form.dataset.statements ?? "../statements/";
    window.addEventListener("beforeunload", (event) => this.warn(event));
    this.stop.addEventListener("click", () => void this.stopAll());
    this.list.addEventListener("click", (event) => {
      const item = (event.target as Element).closest<HTMLElement>("li[data-id]");
      if (item) {
        event.preventDefault();
        this.show(item.dataset.id ?? "");
      }
    });
    const last = this.list.querySelector<HTMLElement>("li:last-child");
    if (last) {
      this.show(last.dataset.id ?? "");
    }
  }

  private warn(event: Event): void {
    if (this.current !== null) {
      event.preventDefault();
    }
  }

  /** Run statements one after the other. The first failure ends the run. */
  async run(text: string, choose: (pieces: Piece[]) => Piece[]): Promise<void> {
    if (this.current !== null) {
      this.say("A statement of this editor runs: stop it first.");
      return;
    }
    this.say("");
    this.stopping = new AbortController();
    this.stop.hidden = false;
    this.current = "";
    let left = 0;
    try {
      const pieces = choose(await this.split(text));
      left = pieces.length;
      if (!left) {
        this.say("There is no statement to run.");
      }
      const tables = pieces.flatMap((each) => each.changes_all_of ?? []);
      if (tables.length && !(await confirmChange(tables))) {
        return;
      }
      for (const piece of pieces) {
        if (this.stopping.signal.aborted || !(await this.runOne(piece))) {
          break;
        }
        left--;
      }
    } catch (error) {
      const rest = left > 1 ? ` Not submitted: the last ${left - 1} of the statements.` : "";
      this.say(`${(error as Error).message}${rest}`);
    } finally {
      this.current = null;
      this.stop.hidden = true;
      document.title = "Editor · Headrace";
    }
  }

  private async runOne(piece: Piece): Promise<boolean> {
    const id = await this.submit(piece, newKey());
    if (id === null) {
      return false;
    }
    this.current = id;
    const item = this.add(id, piece.text);
    this.show(id);
    if (this.stopping.signal.aborted) {
      await this.cancel(id);
    }
    for (;;) {
      const status = await this.ask(id);
      this.mark(item, status.state);
      if (status.has_ended) {
        this.show(id);
        if (status.error) {
          this.showError(piece, status.error.message, status.error.line, status.error.column);
        }
        return status.has_succeeded;
      }
    }
  }

  /** Return the statements of a text, as the node divides it. */
  private async split(text: string): Promise<Piece[]> {
    const link = this.form.action.replace(/run$/, "split");
    const response = await this.calls.send(link, { text }, { stop: this.stopping.signal });
    const found = (await this.calls.read(response)) as Piece[];
    // The node counts code points, and the browser counts units of UTF-16.
    const points = /[\ud800-\udbff]/.test(text) ? [...text] : null;
    return points
      ? found.map((each) => ({ ...each, from: points.slice(0, each.from).join("").length }))
      : found;
  }

  /** Submit a statement once, whatever the network does, and return its id; null: refused. */
  private async submit(piece: Piece, key: string): Promise<string | null> {
    try {
      const link = this.form.action;
      await this.calls.hasConnection;
      const fields = { text: piece.text, key };
      const response = await this.calls.send(link, fields, { stop: this.stopping.signal });
      const body = (await this.calls.read(response)) as Submitted;
      if (body.is_new_connection && this.calls.connection) {
        this.say("The connection was closed: USE, SET and temporary views begin anew.");
      } else if (body.is_new_connection && this.calls.isHeldElsewhere) {
        this.say(
          "Another tab has this draft: USE, SET and temporary views of it do not hold here.",
        );
      }
      this.calls.adopt(body.connection);
      return body.id;
    } catch (error) {
      if (!(error instanceof Refusal)) {
        throw error;
      }
      this.say(error.message);
      this.showError(piece, error.message, error.line, error.column);
      return null;
    }
  }

  private async ask(id: string): Promise<Status> {
    const response = await this.calls.get(`${this.statements}${id}/state`);
    const status = (await this.calls.read(response)) as Status;
    if (!status.has_ended) {
      await nextChange(id);
    }
    return status;
  }

  private async stopAll(): Promise<void> {
    this.stopping.abort();
    try {
      if (this.current) {
        await this.cancel(this.current);
      }
    } catch (error) {
      this.say((error as Error).message);
    }
  }

  private async cancel(id: string): Promise<void> {
    const response = await this.calls.send(`${this.statements}${id}/cancel`, {});
    if (!response.ok) {
      throw new Error(`The statement was not stopped: the node answers ${response.status}.`);
    }
    this.show(id);
  }

  private add(id: string, text: string): HTMLElement {
    const item = document.createElement("li");
    item.dataset.id = id;
    const link = document.createElement("a");
    link.href = `${this.statements}${id}`;
    const state = document.createElement("span");
    const code = document.createElement("code");
    code.textContent = text.replace(/\s+/g, " ").slice(0, 100);
    link.append(state, " ", code);
    item.append(link);
    this.list.append(item);
    while (this.list.children.length > RUNS) {
      this.list.firstElementChild?.remove();
    }
    document.getElementById("no-runs")?.setAttribute("hidden", "");
    const ids = [...this.list.children].map((each) => (each as HTMLElement).dataset.id ?? "");
    setParameter("run", ids);
    this.mark(item, "waiting");
    return item;
  }

  private mark(item: HTMLElement, state: string): void {
    const element = item.querySelector("span");
    if (element) {
      element.className = `state ${state}`;
      element.textContent = state;
    }
    document.title = `${state} · Editor · Headrace`;
  }

  /** Show a statement with its result below the list. */
  private show(id: string): void {
    for (const item of this.list.children) {
      item.toggleAttribute("aria-current", (item as HTMLElement).dataset.id === id);
    }
    const detail = `${this.statements}${id}`;
    document.dispatchEvent(new CustomEvent("headrace:show", { detail }));
  }

  private say(text: string): void {
    const element = document.getElementById("said");
    if (element) {
      element.textContent = text;
      element.hidden = text === "";
    }
  }
}

/** Ask the user whether all rows of tables may change. */
function confirmChange(tables: string[]): Promise<boolean> {
  const dialog = document.getElementById("confirm") as HTMLDialogElement;
  const place = dialog.querySelector("[data-tables]");
  if (place) {
    place.textContent = tables.join(", ");
  }
  dialog.returnValue = "";
  dialog.showModal();
  return new Promise((resolve) => {
    const end = () => resolve(dialog.returnValue === "run");
    dialog.addEventListener("close", end, { once: true });
  });
}

/** Wait for an event about a statement, or for a time. */
function nextChange(id: string): Promise<void> {
  return new Promise((resolve) => {
    const end = (event?: Event) => {
      const changed = (event as CustomEvent<string | null> | undefined)?.detail ?? id;
      if (changed === id) {
        window.clearTimeout(timer);
        document.removeEventListener("headrace:change", end);
        resolve();
      }
    };
    const timer = window.setTimeout(end, document.hidden ? ASK_HIDDEN : ASK);
    document.addEventListener("headrace:change", end);
  });
}
