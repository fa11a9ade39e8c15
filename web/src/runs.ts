// The statements that an editor has run: submitted one after the other, each with its result.

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

/** What a tab keeps of its editor. The sign-out deletes it. */
interface Draft {
  user: string;
  text: string;
  connection: string;
}

/** Key in the storage of the tab. */
export const DRAFT = "headrace editor";
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

/** The node refuses what the editor has sent. */
class Refusal extends Error {
  constructor(
    message: string,
    readonly line: number | null,
    readonly column: number | null,
  ) {
    super(message);
  }
}

export class Runs {
  private connection: string;
  private stopping = false;
  private current: string | null = null;
  private text: string | null;
  private readonly list = document.getElementById("runs") as HTMLElement;
  private readonly stop = document.getElementById("stop") as HTMLButtonElement;
  private readonly statements: string;

  constructor(
    private readonly form: HTMLFormElement,
    private readonly showError: ShowError,
  ) {
    this.statements = form.dataset.statements ?? "../statements/";
    const kept = sessionStorage.getItem(DRAFT);
    const found: Draft | null = kept ? JSON.parse(kept) : null;
    // Another user may have signed in since.
    const draft = found?.user === this.user ? found : null;
    this.text = draft?.text ?? null;
    this.connection = draft?.connection ?? "";
    window.addEventListener("beforeunload", (event) => this.warn(event));
    document.addEventListener("headrace:leave", (event) => this.warn(event));
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

  private get user(): string {
    return this.form.dataset.user ?? "";
  }

  private warn(event: Event): void {
    if (this.current !== null) {
      event.preventDefault();
    }
  }

  /** The text that the tab had before the page was loaded again; null: none. */
  get draft(): string | null {
    return this.text;
  }

  /** Keep the text for when the page is loaded again. */
  keepDraft(text: string): void {
    this.text = text;
    this.keep();
  }

  /** Run statements one after the other. The first failure ends the run. */
  async run(text: string, choose: (pieces: Piece[]) => Piece[]): Promise<void> {
    if (this.current !== null) {
      this.say("A statement of this editor runs: stop it first.");
      return;
    }
    this.say("");
    this.stopping = false;
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
        if (this.stopping || !(await this.runOne(piece))) {
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
    if (this.stopping) {
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

  /** Send a form of the page without fields, and return the body of the answer. */
  async send(link: string): Promise<unknown> {
    return this.read(await this.post(link, {}));
  }

  /** Return the statements of a text, as the node divides it. */
  private async split(text: string): Promise<Piece[]> {
    const response = await this.post(this.form.action.replace(/run$/, "split"), { text });
    const found: Piece[] = (await this.read(response)) as Piece[];
    // The node counts code points, and the browser counts units of UTF-16.
    const points = /[\ud800-\udbff]/.test(text) ? [...text] : null;
    return points
      ? found.map((each) => ({ ...each, from: points.slice(0, each.from).join("").length }))
      : found;
  }

  /** Return the body of an answer. Raise an Error for any other than a good one. */
  private async read(response: Response): Promise<unknown> {
    if (response.redirected) {
      throw new Error("The sign-in has ended. Sign in again in another tab, then run again.");
    }
    const isJson = response.headers.get("content-type")?.startsWith("application/json");
    const body = isJson ? await response.json() : null;
    if (!response.ok || !isJson) {
      const hint = body?.hint ? ` ${body.hint}` : "";
      const text = body ? `[${body.code}] ${body.message}${hint}` : `Status ${response.status}.`;
      throw new Refusal(text, body?.line ?? null, body?.column ?? null);
    }
    return body;
  }

  /** Submit a statement once, whatever the network does, and return its id; null: refused. */
  private async submit(piece: Piece, key: string): Promise<string | null> {
    try {
      const link = this.form.action;
      const response = await this.post(link, { text: piece.text, key });
      const body = (await this.read(response)) as Submitted;
      if (body.is_new_connection && this.connection) {
        this.say("The connection was closed: USE, SET and temporary views begin anew.");
      }
      this.connection = body.connection;
      this.keep();
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

  /** Send a form, also after another tab has signed in again, and after a failure of the network. */
  private async post(link: string, fields: Record<string, string>): Promise<Response> {
    const send = () => {
      const token = this.form.querySelector<HTMLInputElement>("[name=form_token]")?.value ?? "";
      const body = new URLSearchParams({
        ...fields,
        connection: this.connection,
        form_token: token,
      });
      return fetch(link, { method: "POST", body, headers: { Accept: "application/json" } });
    };
    const response = await repeat(send);
    return response.status === 403 && (await this.renewToken()) ? repeat(send) : response;
  }

  /** Take the token of the present sign-in, if it is one of the same user. */
  private async renewToken(): Promise<boolean> {
    const page = new DOMParser().parseFromString(
      await (await fetch(location.href)).text(),
      "text/html",
    );
    const form = page.getElementById("editor");
    const token = form?.querySelector<HTMLInputElement>("[name=form_token]")?.value;
    if (!token) {
      return false;
    }
    if (form.dataset.user !== this.user) {
      throw new Error(`${form.dataset.user} has signed in: load the page again.`);
    }
    for (const own of document.querySelectorAll<HTMLInputElement>("[name=form_token]")) {
      own.value = token;
    }
    return true;
  }

  private async ask(id: string): Promise<Status> {
    const response = await repeat(() => fetch(`${this.statements}${id}/state`));
    const status = (await this.read(response)) as Status;
    if (!status.has_ended) {
      await nextChange(id);
    }
    return status;
  }

  private async stopAll(): Promise<void> {
    this.stopping = true;
    try {
      if (this.current) {
        await this.cancel(this.current);
      }
    } catch (error) {
      this.say((error as Error).message);
    }
  }

  private async cancel(id: string): Promise<void> {
    const response = await this.post(`${this.statements}${id}/cancel`, {});
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
    window.history.replaceState(null, "", `?${ids.map((each) => `run=${each}`).join("&")}`);
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

  private keep(): void {
    const draft: Draft = {
      user: this.user,
      text: this.text ?? "",
      connection: this.connection,
    };
    sessionStorage.setItem(DRAFT, JSON.stringify(draft));
  }

  private say(text: string): void {
    const element = document.getElementById("said");
    if (element) {
      element.textContent = text;
      element.hidden = text === "";
    }
  }
}

/** Make a call again while the network or the node fails, for a minute. */
async function repeat(call: () => Promise<Response>): Promise<Response> {
  for (let attempt = 0; ; attempt++) {
    try {
      const response = await call();
      if (response.status < 502 || attempt >= 12) {
        return response;
      }
    } catch (error) {
      if (attempt >= 12) {
        throw error;
      }
    }
    await new Promise((resolve) => window.setTimeout(resolve, 500 * Math.min(attempt + 1, 10)));
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

/** Return a random key. `crypto.randomUUID` works over HTTPS and at localhost only. */
function newKey(): string {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  return Array.from(bytes, (each) => each.toString(16).padStart(2, "0")).join("");
}
