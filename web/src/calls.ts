// The calls of the editor: they outlive failures of the network, and a sign-in that ends.

/** The node refuses what the editor has sent. */
export class Refusal extends Error {
  constructor(
    message: string,
    readonly line: number | null,
    readonly column: number | null,
  ) {
    super(message);
  }
}

/** Name of the channel on which every page says that its user is signed in. */
export function signInChannel(): BroadcastChannel {
  const { root = "./" } = document.documentElement.dataset;
  return new BroadcastChannel(`headrace signed-in ${new URL(root, location.href).pathname}`);
}

interface CallOptions {
  method?: string;
  headers?: Record<string, string>;
  /** Ends the wait for a sign-in. */
  stop?: AbortSignal;
}

/** Largest body of a call that the browser finishes when the page is left. */
const KEPT = 60_000;

export class Calls {
  /** The connection of the editor; empty: it has none yet. */
  connection: string;
  private readonly notice = document.getElementById("signed-out") as HTMLElement;

  constructor(private readonly form: HTMLFormElement) {
    this.connection = form.dataset.connection ?? "";
    // A refresh of the results must not load the page again: its text would be lost.
    document.addEventListener("headrace:leave", (event) => {
      event.preventDefault();
      this.waitForSignIn().catch(() => {});
    });
  }

  /** Send a form. Where the sign-in has ended, wait until the user has signed in again. */
  send(link: string, fields: Record<string, string>, options: CallOptions = {}): Promise<Response> {
    const attempt = () => {
      const body = new URLSearchParams({
        ...fields,
        connection: this.connection,
        form_token: this.token,
      });
      const headers = { Accept: "application/json", ...options.headers };
      const keepalive = body.toString().length < KEPT;
      return fetch(link, { method: options.method ?? "POST", body, headers, keepalive });
    };
    return this.call(attempt, options.stop);
  }

  private get token(): string {
    return this.form.querySelector<HTMLInputElement>("[name=form_token]")?.value ?? "";
  }

  /** Send a form, and return the body of the answer. */
  async post(link: string, fields: Record<string, string> = {}): Promise<unknown> {
    return this.read(await this.send(link, fields));
  }

  /** Fetch a link, also after the user has signed in again. */
  get(link: string, stop?: AbortSignal): Promise<Response> {
    return this.call(() => fetch(link), stop);
  }

  /** Return the body of an answer. Raise an Error for any other than a good one. */
  async read(response: Response): Promise<unknown> {
    const isJson = response.headers.get("content-type")?.startsWith("application/json");
    const body = isJson ? await response.json() : null;
    if (!response.ok || !isJson) {
      const hint = body?.hint ? ` ${body.hint}` : "";
      const text = body ? `[${body.code}] ${body.message}${hint}` : `Status ${response.status}.`;
      throw new Refusal(text, body?.line ?? null, body?.column ?? null);
    }
    return body;
  }

  private async call(attempt: () => Promise<Response>, stop?: AbortSignal): Promise<Response> {
    for (;;) {
      const token = this.token;
      const response = await repeat(attempt);
      if (isSignIn(response)) {
        await this.waitForSignIn(stop);
      } else if (response.status !== 403 || !(await this.renewToken()) || this.token === token) {
        return response;
      } else {
        // The token of the form was that of an earlier sign-in.
        return repeat(attempt);
      }
    }
  }

  /** Return when the user has signed in again, in another tab. Raise an Error for another user. */
  private async waitForSignIn(stop?: AbortSignal): Promise<void> {
    this.notice.hidden = false;
    do {
      await nextSign(stop);
    } while (!(await this.renewToken()));
    this.notice.hidden = true;
  }

  /** Take the token of the present sign-in, if it is one of the same user. */
  private async renewToken(): Promise<boolean> {
    const response = await repeat(() => fetch(location.href));
    const page = new DOMParser().parseFromString(await response.text(), "text/html");
    const form = page.getElementById("editor");
    const token = form?.querySelector<HTMLInputElement>("[name=form_token]")?.value;
    if (!token) {
      return false;
    }
    if (form.dataset.user !== this.form.dataset.user) {
      throw new Error(`${form.dataset.user} has signed in: load the page again.`);
    }
    for (const own of document.querySelectorAll<HTMLInputElement>("[name=form_token]")) {
      own.value = token;
    }
    return true;
  }
}

function isSignIn(response: Response): boolean {
  return response.redirected && new URL(response.url).pathname.endsWith("/sign-in");
}

/** Wait for a sign that the user has signed in. */
function nextSign(stop?: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    const channel = signInChannel();
    const listening = new AbortController();
    const end = () => {
      channel.close();
      listening.abort();
    };
    const succeed = () => {
      end();
      resolve();
    };
    channel.onmessage = succeed;
    window.addEventListener("focus", succeed, { signal: listening.signal });
    const fail = () => {
      end();
      reject(new Error("It was not sent: you have stopped it before you signed in again."));
    };
    if (stop?.aborted) {
      fail();
    }
    stop?.addEventListener("abort", fail, { signal: listening.signal });
  });
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

/** Return a random key. `crypto.randomUUID` works over HTTPS and at localhost only. */
export function newKey(): string {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  return Array.from(bytes, (each) => each.toString(16).padStart(2, "0")).join("");
}
