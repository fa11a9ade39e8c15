// Completion of the names of tables. The user asks for the list: it is a statement in a driver.
import type { CompletionContext, CompletionResult } from "@codemirror/autocomplete";

/** Milliseconds between two questions whether the list is there. */
const ASK = 2_000;

export class Names {
  private listing = "";
  private hasEnded = false;

  constructor(
    private readonly root: string,
    private readonly button: HTMLButtonElement,
    private readonly post: (link: string) => Promise<unknown>,
  ) {
    button.hidden = false;
    button.addEventListener("click", () => void this.load());
  }

  /** Return the names that begin as the word at the cursor does; null: none, or no list yet. */
  async complete(context: CompletionContext): Promise<CompletionResult | null> {
    const word = context.matchBefore(/[\w.`]+/);
    if (!this.hasEnded || !word) {
      return null;
    }
    const stopping = new AbortController();
    context.addEventListener("abort", () => stopping.abort(), { onDocChange: true });
    try {
      const names = await this.ask(word.text.replaceAll("`", ""), stopping.signal);
      const options = names.map((label) => ({ label, type: "class" }));
      return { from: word.from, options, filter: false };
    } catch {
      return null;
    }
  }

  private async load(): Promise<void> {
    this.button.disabled = true;
    this.button.textContent = "Names are loaded …";
    try {
      const body = (await this.post(`${this.root}catalog/list`)) as { id: string };
      this.listing = body.id;
      this.hasEnded = false;
      while (!this.hasEnded) {
        await this.ask("", null);
        if (!this.hasEnded) {
          await new Promise((resolve) => window.setTimeout(resolve, ASK));
        }
      }
      this.button.textContent = "Load names again";
    } catch {
      this.button.textContent = "Names cannot be loaded. Try again";
    }
    this.button.disabled = false;
  }

  private async ask(prefix: string, signal: AbortSignal | null): Promise<string[]> {
    const query = new URLSearchParams({ listing: this.listing, prefix });
    const response = await fetch(`${this.root}catalog/names?${query}`, { signal });
    if (!response.ok || response.redirected) {
      throw new Error("The names cannot be read.");
    }
    const body = await response.json();
    this.hasEnded = body.has_ended;
    return body.names;
  }
}
