// The statements that an editor has run: submitted one after the other, each with its result.

/** A statement in the text of the editor. */
export interface Piece {
  /** Where it begins in the text. */
  from: number;
  text: string;
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
  hint?: string | null;
}

interface Status {
  state: string;
  has_ended: boolean;
  has_succeeded: boolean;
  error: Failure | null;
}

/** What a tab keeps of its editor. The sign-out deletes it. */
interface Draft {
  text: string;
  connection: string;
}

/** Key in the storage of the tab. */
export const DRAFT = "headrace editor";
/** Seconds for which the node holds a question for a state. */
const WAIT = 15;
/** Largest number of statements in the address and in the list. */
const RUNS = 20;

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
    const draft: Draft | null = kept ? JSON.parse(kept) : null;
    this.text = draft?.text ?? null;
    this.connection = draft?.connection ?? "";
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
  async run(pieces: Piece[]): Promise<void> {
    this.say("");
    if (this.current !== null) {
      this.say("A statement of this editor runs: stop it first.");
      return;
    }
    if (!pieces.length) {
      this.say("There is no statement to run.");
      return;
    }
    this.stopping = false;
    this.stop.hidden = false;
    this.current = "";
    try {
      for (const piece of pieces) {
        if (this.stopping || !(await this.runOne(piece))) {
          break;
        }
      }
    } catch (error) {
      this.say(`${(error as Error).message} The list of statements shows what was submitted.`);
    } finally {
      this.current = null;
      this.stop.hidden = true;
      document.title = "Editor · Headrace";
    }
  }

  private async runOne(piece: Piece): Promise<boolean> {
    const id = await this.submit(piece, crypto.randomUUID());
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

  /** Submit a statement once, whatever the network does, and return its id; null: refused. */
  private async submit(piece: Piece, key: string): Promise<string | null> {
    for (let isNew = true; ; isNew = false) {
      const response = await repeat(() => this.post(this.form.action, { text: piece.text, key }));
      if (response.redirected) {
        this.say("The sign-in has ended. Sign in again in another tab, then run again.");
        return null;
      }
      if (!response.headers.get("content-type")?.startsWith("application/json")) {
        this.say(`The node answers with the status ${response.status}.`);
        return null;
      }
      const body = await response.json();
      if (response.ok) {
        if (body.is_new_connection && this.connection) {
          this.say("The connection was closed: USE, SET and temporary views begin anew.");
        }
        this.connection = body.connection;
        this.keep();
        return body.id;
      }
      if (body.code === "foreign_origin" && isNew) {
        // Another tab has signed in again. The statement was not submitted.
        await this.renewToken();
        continue;
      }
      const hint = body.hint ? ` ${body.hint}` : "";
      this.say(`[${body.code}] ${body.message}${hint}`);
      this.showError(piece, body.message, body.line, body.column);
      return null;
    }
  }

  private async post(link: string, fields: Record<string, string>): Promise<Response> {
    const token = this.form.querySelector<HTMLInputElement>("[name=form_token]")?.value ?? "";
    const body = new URLSearchParams({
      ...fields,
      connection: this.connection,
      form_token: token,
    });
    return fetch(link, { method: "POST", body, headers: { Accept: "application/json" } });
  }

  private async renewToken(): Promise<void> {
    const page = await (await fetch(location.href)).text();
    const input = new DOMParser()
      .parseFromString(page, "text/html")
      .querySelector<HTMLInputElement>("#editor [name=form_token]");
    for (const own of document.querySelectorAll<HTMLInputElement>("[name=form_token]")) {
      own.value = input?.value ?? own.value;
    }
  }

  private async ask(id: string): Promise<Status> {
    const response = await repeat(() => fetch(`${this.statements}${id}/state?wait=${WAIT}`));
    if (response.redirected || !response.ok) {
      throw new Error("The state cannot be read.");
    }
    return response.json();
  }

  private async stopAll(): Promise<void> {
    this.stopping = true;
    if (this.current) {
      await this.cancel(this.current);
    }
  }

  private async cancel(id: string): Promise<void> {
    await repeat(() => this.post(`${this.statements}${id}/cancel`, {}));
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
    const draft: Draft = { text: this.text ?? "", connection: this.connection };
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
