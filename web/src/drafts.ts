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
      this.say(`Not saved: ${(error as Error).message}`);
      // The node refuses the same text again. The next change is another one.
      if (!(error instanceof Refusal)) {
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
    this.unanswered = null;
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
    if (response.ok) {
      const found: Saved & { text: string } = await response.json();
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
        void this.showDrafts();
      }
    });
    drawer?.addEventListener("submit", (event) => {
      const form = event.target as HTMLFormElement;
      event.preventDefault();
      void this.act(form);
    });
  }

  /** Send a form of the drawer, and show the question of the node, or the drafts that are left. */
  private async act(form: HTMLFormElement): Promise<void> {
    const fields: Record<string, string> = {};
    new FormData(form).forEach((value, name) => {
      fields[name] = String(value);
    });
    const response = await this.calls.send(form.action, fields);
    const page = new DOMParser().parseFromString(await response.text(), "text/html");
    const question = page.getElementById("question");
    if (!question) {
      await this.showDrafts();
      return;
    }
    question.querySelector("form")?.setAttribute("action", form.action);
    const keep = question.querySelector("a");
    keep?.addEventListener("click", (event) => {
      event.preventDefault();
      void this.showDrafts();
    });
    document.getElementById("drawer-content")?.replaceChildren(document.adoptNode(question));
    keep?.focus();
  }

  private async showDrafts(): Promise<void> {
    const place = document.getElementById("drawer-content") as HTMLElement;
    const response = await this.calls.get(this.link);
    const page = new DOMParser().parseFromString(await response.text(), "text/html");
    const list = page.getElementById("drafts");
    if (list) {
      place.replaceChildren(document.adoptNode(list));
    }
  }
}
