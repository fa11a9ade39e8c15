// The draft of an editor: saved in the store after each pause in typing. The browser keeps no copy.
import { setParameter } from "./address";
import { type Calls, newKey, Refusal } from "./calls";

/** Milliseconds without a key after which the text is saved. */
const PAUSE = 800;
/** Milliseconds after which a save that has failed is tried again. */
const RETRY = 15_000;
/** Characters of a text that the browser still sends when the page is left. */
const KEPT = 20_000;

interface Saved {
  id: string;
  revision: number;
}

export class Drafts {
  private id: string | null;
  private revision: number;
  private saved: string;
  private text: string;
  private timer = 0;
  private isSaving = false;
  /** Text of a save whose answer has not come. */
  private unanswered: string | null = null;
  private readonly link: string;
  private readonly state = document.getElementById("draft-state") as HTMLElement;

  constructor(
    form: HTMLFormElement,
    private readonly calls: Calls,
    text: string,
  ) {
    this.link = form.dataset.drafts ?? "drafts";
    this.id = form.dataset.draft ?? null;
    this.revision = Number(form.dataset.revision ?? "0");
    this.saved = text;
    this.text = text;
    window.addEventListener("beforeunload", (event) => {
      const isLate = this.isSaving || this.text.length > KEPT;
      if (this.text !== this.saved && isLate) {
        event.preventDefault();
      }
      void this.save();
    });
    document.addEventListener("visibilitychange", () => {
      if (document.hidden) {
        void this.save();
      }
    });
    this.fillDrawer();
  }

  /** Save a text when the user pauses. */
  change(text: string): void {
    this.text = text;
    if (this.id === null) {
      // A reload finds the draft, also while its first save is under way.
      this.id = `dr_${newKey()}`;
      setParameter("draft", [this.id]);
    }
    this.begin(PAUSE);
  }

  /** Return the text of the store, if a save has ended since the page was made; null otherwise. */
  async readNewer(): Promise<string | null> {
    if (this.id === null) {
      return null;
    }
    const response = await fetch(`${this.link}/${this.id}`).catch(() => null);
    if (!response?.ok || response.redirected) {
      return null;
    }
    const found: Saved & { text: string } = await response.json();
    if (found.revision === this.revision || this.text !== this.saved) {
      return null;
    }
    this.revision = found.revision;
    this.saved = found.text;
    this.text = found.text;
    document.getElementById("draft-missing")?.remove();
    return found.text;
  }

  private begin(milliseconds: number): void {
    window.clearTimeout(this.timer);
    this.timer = window.setTimeout(() => void this.save(), milliseconds);
  }

  /** Save the text, and what is typed meanwhile. One request is in flight. */
  private async save(): Promise<void> {
    window.clearTimeout(this.timer);
    if (this.isSaving) {
      return;
    }
    this.isSaving = true;
    try {
      while (this.text !== this.saved) {
        await this.send(this.text);
      }
    } catch (error) {
      const isFinal = error instanceof Refusal && error.isFinal;
      const next = isFinal ? "It is sent again when you change it." : "It is sent again soon.";
      this.say(`Not saved: ${(error as Error).message} ${next}`);
      if (!isFinal) {
        this.begin(RETRY);
      }
    } finally {
      this.isSaving = false;
    }
  }

  private async send(text: string): Promise<void> {
    if (this.unanswered !== null) {
      await this.adopt(this.unanswered);
    }
    this.unanswered = text;
    const headers = { "If-Match": `"${this.revision}"` };
    const options = { method: "PUT", headers };
    const response = await this.calls.send(`${this.link}/${this.id}`, { text }, options);
    // A proxy may have lost the answer of the node.
    this.unanswered = response.status < 500 ? null : text;
    const { id, revision } = (await this.calls.read(response)) as Saved;
    const isCopy = id !== this.id;
    this.saved = text;
    this.revision = revision;
    if (isCopy) {
      this.id = id;
      setParameter("draft", [id]);
    }
    this.say(
      isCopy
        ? "The draft was changed or deleted elsewhere. Both texts are kept: this one is a draft of its own now."
        : "Saved.",
    );
  }

  /** Take over the revision of a save whose answer was lost: it is no change by another tab. */
  private async adopt(sent: string): Promise<void> {
    const response = await this.calls.get(`${this.link}/${this.id}`);
    if (response.status !== 404) {
      const found = (await this.calls.read(response)) as Saved & { text: string };
      if (found.text === sent) {
        this.revision = found.revision;
        this.saved = found.text;
      }
    }
    this.unanswered = null;
  }

  private say(text: string): void {
    this.state.textContent = text;
  }

  /** Show drafts and statements when the user opens the drawer. */
  private fillDrawer(): void {
    const drawer = document.getElementById("drawer") as HTMLDetailsElement | null;
    drawer?.addEventListener("toggle", () => {
      if (drawer.open) {
        this.attempt(this.showDrafts());
      }
    });
    drawer?.addEventListener("submit", (event) => {
      const form = event.target as HTMLFormElement;
      event.preventDefault();
      this.attempt(this.act(form));
    });
  }

  /** Say in the drawer that something which the user has asked for there has failed. */
  private attempt(act: Promise<void>): void {
    act.catch((error: Error) => {
      const failure = document.createElement("p");
      failure.className = "error";
      failure.setAttribute("role", "alert");
      failure.textContent = error.message;
      const place = document.getElementById("drawer-content");
      place?.querySelector(":scope > .error")?.remove();
      place?.prepend(failure);
    });
  }

  /** Send a form of the drawer, and show the question of the node, or the drafts that are left. */
  private async act(form: HTMLFormElement): Promise<void> {
    const fields: Record<string, string> = {};
    new FormData(form).forEach((value, name) => {
      fields[name] = String(value);
    });
    const response = await this.calls.send(form.action, fields);
    const page = await readPage(response);
    const question = page.getElementById("question");
    if (!question) {
      await this.showDrafts();
      return;
    }
    question.querySelector("form")?.setAttribute("action", form.action);
    const keep = question.querySelector("a");
    keep?.addEventListener("click", (event) => {
      event.preventDefault();
      this.attempt(this.showDrafts());
    });
    document.getElementById("drawer-content")?.replaceChildren(document.adoptNode(question));
    keep?.focus();
  }

  private async showDrafts(): Promise<void> {
    const place = document.getElementById("drawer-content") as HTMLElement;
    const response = await this.calls.get(this.link);
    const page = await readPage(response);
    const list = page.getElementById("drafts");
    if (list) {
      place.replaceChildren(document.adoptNode(list));
    }
  }
}

/** Return the page of an answer. Raise an Error with the message of a page for an error. */
async function readPage(response: Response): Promise<Document> {
  const page = new DOMParser().parseFromString(await response.text(), "text/html");
  if (!response.ok) {
    const message = page.querySelector("[role=alert] p")?.textContent?.trim();
    throw new Error(message || `The node answers with the status ${response.status}.`);
  }
  return page;
}
